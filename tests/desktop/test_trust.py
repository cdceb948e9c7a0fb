"""What the window does when an engine, a disk or the last start went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.chat.header import Standing
from desktop.chat.view.message_model import ItemState
from desktop.main_window import MainWindow
from desktop.store.database import ChatDatabase
from runtime.library import ModelInfo
from runtime.places import places
from window_kit import Shelf, plain_windows, window_parts

Open = Callable[..., MainWindow]


@pytest.fixture
def open_window(qapp: QApplication, qtbot: QtBot) -> Iterator[Open]:
    with plain_windows() as opened:
        yield opened


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    path = tmp_path / "starter.gguf"
    path.write_bytes(b"GGUF")
    return Shelf(ModelInfo(name="starter", path=path, kind="gguf", runnable=True, source="starter"))


def ended(window: MainWindow) -> bool:
    return not window._parts.session.busy and window._parts.items.rowCount() > 0


# --- engines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "cause"), [({"load_crash": "SIGSEGV"}, "was loaded"), ({"crash_at": 1}, "while this model answered")]
)
def test_a_model_that_ended_its_engine_is_not_loaded_by_itself_at_the_next_start(
    open_window: Open, qtbot: QtBot, shelf: Shelf, script: dict[str, Any], cause: str
) -> None:
    with window_parts(shelf, **script) as before:
        before.models.start()
        qtbot.waitUntil(lambda: before.models.status.standing in (Standing.READY, Standing.FAILED))
        before.session.send("hello")
        qtbot.waitUntil(lambda: not before.session.busy)
    window = open_window(shelf)
    qtbot.waitUntil(lambda: window.notice.code == "fatal_last_time")
    assert "was not loaded by itself" in window.notice._title.text()
    assert cause in window.notice._cause.text()
    assert window._parts.client.wanted is None
    assert window.notice._button.text() == "Load anyway"
    with qtbot.waitSignal(window._parts.client.loaded):
        window.notice._button.click()
    window._parts.session.send("hello")
    qtbot.waitUntil(lambda: ended(window) and window._parts.items.item(1).state is ItemState.COMPLETE)
    again = open_window(shelf)  # it loaded and answered: the next start loads it by itself
    qtbot.waitUntil(lambda: again.header.status.standing is Standing.READY)


def test_an_engine_that_breaks_off_leaves_its_text_and_the_next_message_is_answered(
    open_window: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    window = open_window(crash_at=3, crash_once=str(tmp_path / "crashed"))
    qtbot.waitUntil(lambda: window.header.status.standing is Standing.READY)
    window._parts.session.send("hello")
    qtbot.waitUntil(lambda: ended(window))
    failed = window._parts.items.item(1)
    assert failed.state is ItemState.FAILED
    assert failed.text == "The capital of"
    notice = window.view.layout_of_items.items[1].notice
    assert [button.text for button in notice.buttons][:2] == ["Load with a smaller context", "Try again"]
    window._parts.session.send("and now?")
    qtbot.waitUntil(lambda: ended(window) and window._parts.items.rowCount() == 4)
    assert window._parts.items.item(3).text == "The capital of France is Paris."


# --- the disk ------------------------------------------------------------------------------------------------------


def in_the_database(window: MainWindow, qtbot: QtBot, statement: str) -> int:
    """Runs a statement in the thread of the store, in the file, and returns the number that comes back."""
    found: list[int] = []
    store = window._parts.store

    def run(_database: ChatDatabase) -> int:
        disk = store._keeper._disk
        assert disk is not None
        row = disk.connection.execute(statement).fetchone()
        return int(row[0]) if row else 0

    store._read(run, lambda number: found.append(number or 0))
    qtbot.waitUntil(lambda: bool(found))
    return found[0]


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_a_disk_in_trouble_is_said_and_nothing_is_lost_when_that_ends(
    open_window: Open, qtbot: QtBot, trouble: str
) -> None:
    window = open_window(reply="x" * 20_000)
    window._parts.store._keeper.retry_seconds = 0.1
    qtbot.waitUntil(lambda: window.header.status.standing is Standing.READY)
    window._parts.session.send("before")
    qtbot.waitUntil(lambda: ended(window))
    if trouble == "full":
        pages = in_the_database(window, qtbot, "PRAGMA page_count")
        in_the_database(window, qtbot, f"PRAGMA max_page_count = {pages}")
    else:
        in_the_database(window, qtbot, "PRAGMA query_only = ON")
    window._parts.session.send("meanwhile")
    qtbot.waitUntil(lambda: window.notice.code == "chats_not_saved")
    qtbot.waitUntil(lambda: ended(window))
    assert window.notice._button.text() == "Open the folder"
    assert window._parts.items.rowCount() == 4  # the window goes on
    relief = {"full": "PRAGMA max_page_count = 1000000", "read-only": "PRAGMA query_only = OFF"}
    in_the_database(window, qtbot, relief[trouble])
    qtbot.waitUntil(lambda: window.notice.code != "chats_not_saved")  # by itself, without another message
    chat_id = window._parts.session.chat_id
    stored = ChatDatabase(places().chats_file)
    found = stored.open_chat(chat_id)
    stored.close()
    assert found is not None
    assert [message.content for message in found.messages][::2] == ["before", "meanwhile"]
    assert all(len(message.content) == 20_000 for message in found.messages[1::2])
