"""The ledger in the window: from the meter to a message, pinning it on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from desktop.chat.composer import Draft
from desktop.chat.header import Standing
from desktop.chat.ledger.entries import Kind
from desktop.chat.ledger.panel import LedgerPanel
from desktop.chat.ledger.rows import EntryRole, LedgerDelegate
from desktop.main_window import MainWindow
from desktop.store.records import ChatRecord, MessageRecord, OpenChat
from desktop.theme import Size
from runtime.messages import Role
from window_kit import plain_windows

_CHILDREN = Qt.FindChildOption.FindDirectChildrenOnly
Open = Callable[..., MainWindow]


@pytest.fixture
def open_window(qapp: QApplication, qtbot: QtBot) -> Iterator[Open]:
    with plain_windows((1280, 800)) as plain:

        def opened(**script: Any) -> MainWindow:
            window = plain(**script)
            window.activateWindow()
            qtbot.waitUntil(lambda: window.header.status.standing is Standing.READY, timeout=30_000)
            return window

        yield opened


def ask(window: MainWindow, qtbot: QtBot, *texts: str) -> None:
    for text in texts:
        assert window._parts.session.send(text)
        qtbot.waitUntil(lambda: not window._parts.session.busy, timeout=20_000)


def opened_panel(window: MainWindow, qtbot: QtBot, entries: int) -> LedgerPanel:
    if not window.ledger.is_open:
        window.show_ledger(True)
    panel = window.ledger.panel
    assert panel is not None
    qtbot.waitUntil(lambda: len(panel.ledger.entries) == entries, timeout=20_000)
    return panel


def test_meter_key_and_palette_lead_to_the_panel(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    qtbot.mouseClick(window.composing.meter, Qt.MouseButton.LeftButton)
    assert window.ledger.is_open
    qtbot.mouseClick(window.composing.meter, Qt.MouseButton.LeftButton)
    assert not window.ledger.is_open
    window.actions_by_name["ledger"].trigger()
    assert window.ledger.is_open
    assert window.actions_by_name["ledger"].shortcut().toString() == "Ctrl+Shift+K"
    window.actions_by_name["settings"].trigger()
    assert not window.ledger.is_open  # the settings have its place now
    palette = window.open_palette()
    qtbot.keyClicks(palette.search, "fills the context")
    qtbot.keyClick(palette.search, Qt.Key.Key_Return)
    assert window.ledger.is_open
    assert window.panel is not None
    assert window.panel.isHidden()


def test_every_message_has_its_measure(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    window._parts.session.set_system_prompt("Be very brief.")
    ask(window, qtbot, "one two three four")
    window.composing.composer.set_draft(Draft("and then"))
    panel = opened_panel(window, qtbot, 4)
    assert [(entry.kind, entry.tokens) for entry in panel.ledger.entries] == [
        (Kind.SYSTEM, 3), (Kind.USER, 4), (Kind.ASSISTANT, 6), (Kind.DRAFT, 2)
    ]  # fmt: skip
    assert panel._usage.text() == "15 of 4,096 tokens"
    assert sum(place.width() for _kind, place in panel.bar.parts()) == pytest.approx(panel.bar.width())


def test_an_entry_shows_its_message_and_leads_there(open_window: Open, qtbot: QtBot) -> None:
    window = open_window(reply="A long answer. " * 200)
    ask(window, qtbot, "first question", "second question", "third question")
    panel = opened_panel(window, qtbot, 6)
    first = panel.list.visualRect(panel._rows.index(0)).center()
    qtbot.mouseMove(panel.list.viewport(), first + QPoint(0, 1))
    qtbot.mouseMove(panel.list.viewport(), first)
    panel.list.entered.emit(panel._rows.index(0))
    assert panel.preview._text.text() == "first question"
    assert window.view.first_visible_row > 0
    qtbot.mouseClick(panel.list.viewport(), Qt.MouseButton.LeftButton, pos=first)
    assert window.view.first_visible_row == 0
    assert window.view._current == 0
    panel.list.setCurrentIndex(panel._rows.index(4))
    assert panel.preview._text.text() == "third question"
    qtbot.keyClick(panel.list, Qt.Key.Key_Return)
    assert window.view._current == 4


def test_a_message_is_pinned_from_everywhere_marked_and_undone(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    session = window._parts.session
    ask(window, qtbot, "remember this", "and that")
    panel = opened_panel(window, qtbot, 4)
    panel.list.setCurrentIndex(panel._rows.index(0))
    qtbot.keyClick(panel.list, Qt.Key.Key_P)  # in the panel
    first = session.branch[0].id
    assert session.pinned == (first,)
    assert window._parts.items.item(0).pinned
    qtbot.waitUntil(lambda: panel.ledger.entries[0].pinned)
    assert panel.preview.pin.text() == "Unpin from the context"
    window.view.undo_requested.emit()  # Ctrl+Z
    assert session.pinned == ()
    window.view.show_message(first)
    qtbot.keyClick(window.view, Qt.Key.Key_P)  # in the conversation
    assert session.pinned == (first,)
    qtbot.keyClick(window.view, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert session.pinned == ()
    entry = next(entry for entry in window.view.message_menu(first).actions() if entry.text() == "Pin in the context")
    entry.trigger()  # in its menu
    assert session.pinned == (first,)
    assert any(entry.text() == "Unpin from the context" for entry in window.view.message_menu(first).actions())


def test_what_is_left_out_is_shown_and_pinning_brings_it_back(open_window: Open, qtbot: QtBot) -> None:
    window = open_window(context=20)
    ask(window, qtbot, "one two three four five six seven", "one two three four five six seven")
    panel = opened_panel(window, qtbot, 4)
    assert panel.ledger.entries[0].left_out
    assert "1 of them left out" in panel._count.text()
    assert "1 message left out" in window.composing.meter._words.text()
    window.ledger.pin(panel.ledger.entries[0].id, True)
    qtbot.waitUntil(lambda: not panel.ledger.entries[0].left_out)
    assert panel.ledger.entries[1].left_out


def test_pins_go_to_the_engine_and_what_it_dropped_is_kept(open_window: Open, qtbot: QtBot, tmp_path: Any) -> None:
    window = open_window(trims=(0, 1))
    session = window._parts.session
    ask(window, qtbot, "one", "two")
    session.pin([session.branch[2].id], True)
    ask(window, qtbot, "three")
    assert session.branch[5].receipt is not None
    assert session.branch[5].receipt.left_out == ((0, 2),)
    panel = opened_panel(window, qtbot, 6)
    assert [entry.missed for entry in panel.ledger.entries] == [True, True, False, False, False, False]
    session.open(session.chat_id)
    qtbot.waitUntil(lambda: session.pinned == (session.branch[2].id,) if len(session.branch) == 6 else False)


def test_what_would_be_refused_is_said_with_the_button_that_helps(open_window: Open, qtbot: QtBot) -> None:
    window = open_window(context=20, refuse="pinned_too_long")
    session = window._parts.session
    ask(window, qtbot, "remember this")
    session.pin([session.branch[0].id], True)
    panel = opened_panel(window, qtbot, 2)
    qtbot.waitUntil(lambda: panel._refused.isVisible())
    assert panel._refused.text() == "It would be refused."
    assert not panel._policy.isVisible()
    assert panel.remedy.text() == "Unpin all messages"
    panel.remedy.click()
    assert session.pinned == ()


def test_without_a_model_the_panel_says_what_it_will_show(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    window._parts.models.eject()
    qtbot.waitUntil(lambda: window.header.status.standing is Standing.EMPTY)
    window.show_ledger(True)
    panel = window.ledger.panel
    assert panel is not None
    qtbot.waitUntil(lambda: panel._empty.isVisible())
    assert "Once a model is loaded" in panel._empty.text()


def long_chat(messages: int) -> OpenChat:
    roles = [Role.USER, Role.ASSISTANT]
    records = tuple(
        MessageRecord(id=f"m{at}", chat_id="long", parent_id=f"m{at - 1}" if at else None, role=roles[at % 2],
                      content=f"message {at} " * 40, created=float(at))
        for at in range(messages)
    )  # fmt: skip
    return OpenChat(chat=ChatRecord(id="long", title="Long", leaf=records[-1].id), messages=records)


def test_a_chat_of_two_thousand_messages_is_shown_without_laying_out_two_thousand_rows(
    open_window: Open, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = open_window()
    window._parts.store.import_chat(long_chat(2000))
    window._parts.session.open("long")
    qtbot.waitUntil(lambda: window._parts.items.rowCount() == 2000, timeout=30_000)
    painted: set[int] = set()
    monkeypatch.setattr(LedgerDelegate, "paint", lambda _self, _painter, _option, index: painted.add(index.row()))
    panel = opened_panel(window, qtbot, 2000)
    panel.list.viewport().grab()
    assert painted
    assert len(painted) < 40
    last = panel._rows.index(1999)
    panel.list.setCurrentIndex(last)
    assert last.data(EntryRole).id == "m1999"


@pytest.mark.parametrize(("width", "stays"), [(640, False), (1400, True)])
def test_it_gives_way_to_a_page_only_where_there_is_no_room_for_both(
    open_window: Open, width: int, stays: bool
) -> None:
    window = open_window()
    window.resize(width, 480)
    window.show_ledger(True)
    window.pages.turn_to("library")
    assert window.ledger.is_open is stays


@pytest.mark.parametrize("height", [260, 420, 600, 900])
def test_in_a_low_window_it_scrolls_and_nothing_overlaps(open_window: Open, qtbot: QtBot, height: int) -> None:
    window = open_window()
    ask(window, qtbot, "one", "two")
    low = LedgerPanel()
    qtbot.addWidget(low)
    low.resize(Size.PANEL[0], height)
    low.show_ledger(opened_panel(window, qtbot, 4).ledger)
    low.show()
    qtbot.waitUntil(lambda: low._filled.width() > 0 and low.legend.height() > 0)
    QApplication.processEvents()
    shown = [part for part in low._filled.findChildren(QWidget, options=_CHILDREN) if part.isVisible()]
    for part in shown:
        assert part.height() >= max(part.heightForWidth(part.width()), part.minimumSizeHint().height()), part
        others = [other for other in shown if other is not part]
        assert not [other for other in others if other.geometry().intersects(part.geometry())], part
    assert low.height() == height

