"""Names of exported files, and the way through the disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from desktop.chat.exchange import ChatExchange, file_name
from desktop.store.chat_store import ChatStore
from desktop.store.records import ChatRecord, MessageRecord, OpenChat
from runtime.messages import Role


def opened(folder: Path, qtbot: QtBot) -> tuple[ChatStore, ChatExchange]:
    """Returns an open store in a folder, and what lets chats out of it and in."""
    window = QWidget()
    qtbot.addWidget(window)
    store = ChatStore(folder / "chats.db")
    store.open()
    return store, ChatExchange(store, window)


@pytest.mark.parametrize(("title", "name"), [
    ("Capital of France?", "Capital of France"), ("../../etc/passwd", "etc passwd"), ("", "Chat"), ("...", "Chat"),
    ("a\u202eb\nc", "a b c"), ("x" * 300, "x" * 80), ("北京的天气", "北京的天气"),
])  # fmt: skip
def test_a_title_becomes_a_name_that_stays_in_its_folder(title: str, name: str) -> None:
    assert file_name(title) == name


def test_a_chat_goes_out_and_comes_in_again(tmp_path: Path, qtbot: QtBot) -> None:
    store, exchange = opened(tmp_path, qtbot)
    with qtbot.waitSignal(exchange.said):
        exchange.write(OpenChat(chat=ChatRecord(id="c", title="Trip")), tmp_path / "trip.json", "json")
    with qtbot.waitSignal(exchange.imported) as came:
        exchange.read(tmp_path / "trip.json")
    found: list[OpenChat | None] = []
    store.load_chat(came.args[0], found.append)
    qtbot.waitUntil(lambda: bool(found))
    store.close()
    assert found[0] is not None
    assert found[0].chat.title == "Trip"


def test_a_file_that_is_gone_is_told(tmp_path: Path, qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    exchange = ChatExchange(ChatStore(None), window)
    with qtbot.waitSignal(exchange.failed) as told:
        exchange.read(tmp_path / "gone.json")
    assert told.args[0].code == "not_a_chat"


def test_what_the_store_could_not_take_is_not_said_to_be_there(tmp_path: Path, qtbot: QtBot) -> None:
    store, exchange = opened(tmp_path, qtbot)
    told: list[str] = []
    came: list[str] = []
    exchange.said.connect(told.append)
    exchange.imported.connect(came.append)
    twice = MessageRecord(id="m", chat_id="c", parent_id=None, role=Role.USER, content="Twice.", created=1.0)
    good = OpenChat(chat=ChatRecord(id="good", title="Good"))
    exchange._take([good, OpenChat(chat=ChatRecord(id="bad", title="Bad"), messages=(twice, twice))])
    qtbot.waitUntil(lambda: bool(told))
    store.close()

    assert told == ["1 chat was imported."]
    assert came == ["good"]
