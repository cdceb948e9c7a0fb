"""The store as the window sees it: calls return at once, answers come in order, a killed process loses a moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from desktop.store.chat_store import ChatStore
from desktop.store.database import ChatDatabase
from desktop.store.records import ChatRecord, MessageRecord, MessageState, new_id, now
from runtime.messages import Role

Open = Callable[[Path | None], ChatStore]


@pytest.fixture
def open_store(qtbot: QtBot) -> Iterator[Open]:
    stores: list[ChatStore] = []

    def make(path: Path | None) -> ChatStore:
        stores.append(ChatStore(path, retry_seconds=0.0))
        stores[-1].open()
        return stores[-1]

    yield make
    assert all(store.close() for store in stores)


def answer_of(qtbot: QtBot, call: Callable[[Callable[[Any], None]], None]) -> Any:
    answers: list[Any] = []
    call(answers.append)
    qtbot.waitUntil(lambda: bool(answers), timeout=10_000)
    return answers[0]


def add_chat(store: ChatStore, title: str = "Capitals") -> str:
    moment = now()
    chat = ChatRecord(id=new_id(), title=title, created=moment, updated=moment)
    store.create_chat(chat)
    return chat.id


def add_message(store: ChatStore, chat_id: str, text: str, **more: Any) -> str:
    message = MessageRecord(
        id=new_id(), chat_id=chat_id, parent_id=more.pop("parent", None), role=more.pop("role", Role.USER),
        content=text, created=now(), **more,
    )  # fmt: skip
    store.add_message(message)
    return message.id


def test_what_is_asked_after_a_change_shows_the_change(qtbot: QtBot, open_store: Open, tmp_path: Path) -> None:
    store = open_store(tmp_path / "chats.db")
    chat_id = add_chat(store)
    add_message(store, chat_id, "What is the capital of France?")
    store.rename_chat(chat_id, "France")
    store.set_system_prompt(chat_id, "Be brief.")
    store.set_draft(chat_id, "and of")
    listed = answer_of(qtbot, store.list_chats)
    assert [(chat.title, chat.snippet) for chat in listed] == [("France", "What is the capital of France?")]
    found = answer_of(qtbot, lambda then: store.load_chat(chat_id, then))
    assert (found.chat.system_prompt, found.chat.draft) == ("Be brief.", "and of")
    assert answer_of(qtbot, lambda then: store.search("capital", then))[0].chat_id == chat_id


def test_callbacks_run_in_the_windows_thread(qtbot: QtBot, open_store: Open, tmp_path: Path) -> None:
    store = open_store(tmp_path / "chats.db")
    threads: list[threading.Thread] = []
    store.list_chats(lambda _chats: threads.append(threading.current_thread()))
    qtbot.waitUntil(lambda: bool(threads), timeout=10_000)
    assert threads == [threading.main_thread()]


def test_a_deleted_chat_is_gone_and_can_be_restored(qtbot: QtBot, open_store: Open, tmp_path: Path) -> None:
    store = open_store(tmp_path / "chats.db")
    chat_id = add_chat(store)
    with qtbot.waitSignal(store.changed):
        store.delete_chat(chat_id)
    assert answer_of(qtbot, store.list_chats) == []
    assert answer_of(qtbot, lambda then: store.load_chat(chat_id, then)) is None
    store.restore_chat(chat_id)
    assert len(answer_of(qtbot, store.list_chats)) == 1


def test_an_unwritable_profile_is_told_once_and_closing_is_quick(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "profile").write_text("a file where the folder should be")
    problems: list[Any] = []
    store = ChatStore(tmp_path / "profile" / "chats.db", retry_seconds=0.0)
    store.problem.connect(problems.append)
    store.open()
    for number in range(20):
        add_chat(store, f"chat {number}")
    assert len(answer_of(qtbot, store.list_chats)) == 20
    assert [problem.code for problem in problems] == ["chats_not_saved"]
    assert store.close(timeout=60.0)


def test_closing_saves_everything_that_was_asked_for(qtbot: QtBot, open_store: Open, tmp_path: Path) -> None:
    store = open_store(tmp_path / "chats.db")
    chats = [add_chat(store, f"chat {number}") for number in range(100)]
    for chat_id in chats:
        add_message(store, chat_id, "hello")
    assert store.close()
    with closing(ChatDatabase(tmp_path / "chats.db")) as database:
        assert len(database.list_chats()) == 100


def test_a_store_that_was_never_opened_closes(qtbot: QtBot, tmp_path: Path) -> None:
    assert ChatStore(tmp_path / "chats.db").close()


# --- killed --------------------------------------------------------------------------------------------------------

WRITER = """
import sys, time
sys.path[:0] = {path!r}
from PySide6.QtCore import QCoreApplication
from desktop.store.chat_store import ChatStore
from desktop.store.records import *
from runtime.messages import Role
from pathlib import Path
app = QCoreApplication([])
store = ChatStore(Path({file!r}))
store.open()
store.create_chat(ChatRecord(id="c", title="t", created=now(), updated=now()))
def add(id, parent, role, text, state):
    record = MessageRecord(id=id, chat_id="c", parent_id=parent, role=role, content=text, created=now(), state=state)
    store.add_message(record)
add({question!r}, None, Role.USER, "go", MessageState.DONE)
add({answer!r}, {question!r}, Role.ASSISTANT, "", MessageState.WRITING)
n = 0
while True:
    store.append_answer({answer!r}, f"{{n}} ")
    print(n, flush=True)
    n += 1
    time.sleep(0.005)
"""


def kill_while_writing(file: Path, pieces: int) -> tuple[int, str]:
    """Runs a process that writes an answer, kills it, and returns the last piece it handed over and the answer's id."""
    question, answer = new_id(), new_id()
    program = WRITER.format(path=sys.path, file=str(file), question=question, answer=answer)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _n in range(pieces):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    last = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    return int(last[-1]) if last else pieces - 1, answer


def recovered(file: Path, answer: str) -> MessageRecord:
    with closing(ChatDatabase(file)) as database:
        database.recover()
        assert database.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        found = database.open_chat("c")
        assert found is not None
        return next(message for message in found.messages if message.id == answer)


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_killed_process_loses_next_to_nothing_of_its_answer(tmp_path: Path) -> None:
    file = tmp_path / "Ünï 模型" / "chats.db"
    last, answer = kill_while_writing(file, 300)
    message = recovered(file, answer)
    pieces = message.content.split()
    assert message.state is MessageState.INTERRUPTED
    assert pieces == [str(n) for n in range(len(pieces))], "in order, without a gap"
    assert len(pieces) >= last - 200, "a second, at two hundred pieces a second"


@pytest.mark.acceptance
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_killing_it_again_and_again_never_damages_what_is_stored(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    choose = random.Random(7)
    answers: dict[str, str] = {}
    for _round in range(40):
        last, answer = kill_while_writing(file, choose.randint(1, 400))
        answers[answer] = recovered(file, answer).content
        assert len(answers[answer].split()) >= last - 200
    with closing(ChatDatabase(file)) as database:
        for answer, text in answers.items():
            found = database.open_chat("c", reveal=answer)
            assert found is not None
            assert found.messages[-1].content == text


def test_a_slow_disk_does_not_hold_up_the_window(qtbot: QtBot, open_store: Open, tmp_path: Path) -> None:
    store = open_store(tmp_path / "chats.db")
    chat_id = add_chat(store)
    disk_is_back = threading.Event()
    store._write(lambda _database: disk_is_back.wait(30))
    answer = add_message(store, chat_id, "", role=Role.ASSISTANT, state=MessageState.WRITING)
    for _n in range(1000):
        store.append_answer(answer, "word ")
    listed: list[Any] = []
    store.list_chats(listed.append)
    assert not listed, "everything was handed over while the disk stood still"
    disk_is_back.set()
    qtbot.waitUntil(lambda: bool(listed), timeout=10_000)
    assert len(listed[0]) == 1
