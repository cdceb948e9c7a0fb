"""Backups in the window: made, listed, and restored with everything that was being written ended first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.backups_card import BackupsCard
from desktop.chat.header import Standing
from desktop.main_window import MainWindow, Parts
from desktop.shell import Shell
from desktop.store.backups import BackupKind, list_backups
from desktop.store.database import ChatDatabase
from desktop.store.keeper import ChatsDamaged
from runtime.places import places
from window_kit import window_parts

_PATIENCE_MS = 20_000


@pytest.fixture
def window(qapp: QApplication, qtbot: QtBot) -> Iterator[MainWindow]:
    with window_parts(delay=0.02) as parts:
        shell = Shell(parts.state)
        made = MainWindow(parts)
        shell.furnish(made)
        shell.show()
        parts.models.start()
        qtbot.waitUntil(lambda: made.header.status.standing is Standing.READY, timeout=_PATIENCE_MS)
        yield made
        shell.close()
        shell.deleteLater()


def parts_of(window: MainWindow) -> Parts:
    return window._parts


def listed(window: MainWindow, qtbot: QtBot, at_least: int) -> BackupsCard:
    card = window.show_backups()
    qtbot.waitUntil(lambda: len(card.rows) >= at_least)
    return card


def say(window: MainWindow, qtbot: QtBot, text: str) -> None:
    parts_of(window).session.send(text)
    qtbot.waitUntil(lambda: not parts_of(window).session.busy, timeout=_PATIENCE_MS)


def shown_titles(window: MainWindow) -> list[str]:
    model = window.sidebar.model
    rows = [model.row(model.index(number)) for number in range(model.rowCount())]
    return [row.title for row in rows if not row.is_heading]


def test_a_backup_is_made_and_listed_with_what_is_in_it(window: MainWindow, qtbot: QtBot) -> None:
    say(window, qtbot, "What is kept?")
    card = window.show_backups()
    qtbot.waitUntil(lambda: "none yet" in card.said.text())
    card.make.click()
    qtbot.waitUntil(lambda: len(card.rows) == 1)
    assert card.rows[0].backup.chats == 1
    assert card.rows[0].backup.kind is BackupKind.ASKED
    card.close()


def test_restoring_asks_first_and_brings_everything_of_then(window: MainWindow, qtbot: QtBot) -> None:
    parts = parts_of(window)
    say(window, qtbot, "An old question")
    QTextCursor(parts.notebooks.current.document).insertText("old text")
    parts.notebooks.save()
    card = window.show_backups()
    card.make.click()
    qtbot.waitUntil(lambda: len(card.rows) == 1)
    parts.session.new_chat()
    QTextCursor(parts.notebooks.current.document).insertText("newer ")
    parts.notebooks.save()
    assert parts.session.send("A question that is being answered")
    card.rows[0].button.click()
    assert card.ask.isVisible()
    assert "1 chat, 1 notebook" in card.ask._words.text()
    assert parts.session.busy, "nothing has happened yet"
    card.ask.agree.click()
    qtbot.waitUntil(lambda: window.notice.code == "restored")
    qtbot.waitUntil(lambda: shown_titles(window) == ["An old question"])
    assert not parts.session.busy
    assert parts.session.title == ""
    qtbot.waitUntil(lambda: parts.notebooks.current.text == "old text")
    say(window, qtbot, "It goes on")
    qtbot.waitUntil(lambda: shown_titles(window) == ["It goes on", "An old question"])
    kept = [backup for backup in list_backups(places().chats_file) if backup.kind is BackupKind.RESTORE]
    assert [backup.chats for backup in kept] == [2]


def test_a_backup_that_cannot_be_read_is_shown_and_not_offered(window: MainWindow, qtbot: QtBot) -> None:
    places().chats_file.with_name("chats.db.backup-v1").write_bytes(b"damage")
    card = listed(window, qtbot, 1)
    assert not card.rows[0].button.isEnabled()
    card.close()


def test_a_restore_that_fails_says_so_and_leaves_the_chats(window: MainWindow, qtbot: QtBot) -> None:
    say(window, qtbot, "Still here")
    window.restore_backup(places().chats_file.with_name("chats.db.backup-none"))
    qtbot.waitUntil(lambda: window.notice.code == "backup_failed")
    qtbot.waitUntil(lambda: shown_titles(window) == ["Still here"])
    with closing(ChatDatabase(places().chats_file)) as database:
        assert len(database.list_chats()) == 1


def test_damaged_chats_lead_to_the_backups(window: MainWindow, qtbot: QtBot) -> None:
    error = ChatsDamaged(places().chats_file, places().chats_file).info
    window.show_problem(error)
    assert window.notice._button.isVisible()
    window.notice._button.click()
    cards = [widget for widget in QApplication.topLevelWidgets() if isinstance(widget, BackupsCard)]
    assert any(card.isVisible() for card in cards)
    for card in cards:
        card.close()
