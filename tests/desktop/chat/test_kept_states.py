"""What the model has read of a long chat is saved when it is left, and taken back before its next answer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from pytestqt.qtbot import QtBot

import scripted_engine
import tiny_gguf
from desktop.chat.kept_states import KeptStates
from desktop.engine_client import EngineClient, EngineState
from runtime.messages import Message, Role
from runtime.params import LoadParams, SamplingParams
from runtime.places import places
from runtime.protocol import GenerationRequest, StateLoaded

REQUEST = GenerationRequest(messages=(Message(Role.USER, "Hello"),))


class Talk:
    """A client with states, asked by hand as the session asks."""

    def __init__(self, qtbot: QtBot, folder: Path, **script: object) -> None:
        self._qtbot = qtbot
        self.folder = folder / "states"
        self.log = folder / "log"
        model = folder / "m.gguf"
        model.write_bytes(b"GGUF")
        script = {"log": str(self.log), "used": 2000, **script}
        self.client = EngineClient(places(), command=lambda: scripted_engine.command(**script), close_seconds=2.0)
        self.client.load(model, LoadParams())
        self.states = KeptStates(self.client, self.folder, most_bytes=12)
        self.loaded: list[StateLoaded] = []
        self.client.state_loaded.connect(lambda _id, event: self.loaded.append(event))
        self.answer("first")

    def answer(self, chat: str, *, used: int = 2000) -> None:
        self.states.before_answer(chat)
        with self._qtbot.waitSignal(self.client.finished, timeout=10_000):
            self.client.generate(REQUEST)
        self.states.answered(chat, used)

    def leave(self, chat: str) -> None:
        with self._qtbot.waitSignal(self.client.state_saved, timeout=10_000):
            self.states.left(chat)
        self._qtbot.waitUntil(lambda: any(name.startswith(chat) for name in self.states._known), timeout=10_000)

    @property
    def asked(self) -> list[str]:
        return [line.split()[0] for line in self.log.read_text().splitlines()]

    @property
    def files(self) -> list[str]:
        return sorted(file.name.split("-")[0] for file in self.folder.iterdir())


@pytest.fixture
def talk(qtbot: QtBot, tmp_path: Path) -> Iterator[Callable[..., Talk]]:
    made: list[Talk] = []

    def make(**script: object) -> Talk:
        made.append(Talk(qtbot, tmp_path, **script))
        return made[-1]

    yield make
    for one in made:
        if one.client.state is not EngineState.OFF:
            with qtbot.waitSignal(one.client.closed, timeout=10_000):
                one.client.shutdown()


def test_a_long_chat_is_saved_when_left_and_taken_back_before_its_next_answer(talk: Callable[..., Talk]) -> None:
    chats = talk()
    chats.leave("first")
    chats.answer("second")
    chats.answer("first")
    assert chats.asked == ["load", "generate", "save_state", "generate", "load_state", "generate"]
    assert [event.tokens for event in chats.loaded] == [1200]


def test_a_chat_that_the_engine_still_holds_is_not_loaded(talk: Callable[..., Talk]) -> None:
    chats = talk()
    chats.leave("first")
    chats.answer("first")
    assert "load_state" not in chats.asked


def test_short_chats_and_chats_without_news_are_not_saved(talk: Callable[..., Talk]) -> None:
    chats = talk()
    chats.leave("first")
    chats.states.left("first")
    chats.answer("short", used=999)
    chats.states.left("short")
    chats.states.left("first")  # the engine no longer holds it
    chats.answer("short", used=10)
    assert chats.asked.count("save_state") == 1


def test_nothing_is_saved_while_an_answer_is_written(talk: Callable[..., Talk], qtbot: QtBot) -> None:
    chats = talk(delay=0.02)
    chats.states.before_answer("first")
    chats.client.generate(REQUEST)
    qtbot.waitUntil(lambda: chats.client.state is EngineState.GENERATING, timeout=10_000)
    chats.states.left("first")
    with qtbot.waitSignal(chats.client.finished, timeout=10_000):
        pass
    assert "save_state" not in chats.asked
    chats.leave("first")  # what could not be saved then is saved later


def test_a_deleted_chat_leaves_no_file(talk: Callable[..., Talk], qtbot: QtBot) -> None:
    chats = talk()
    chats.leave("first")
    assert chats.files == ["first"]
    chats.states.forget("first")
    qtbot.waitUntil(lambda: chats.files == [], timeout=10_000)
    chats.answer("second")
    chats.answer("first")
    assert "load_state" not in chats.asked


def test_a_chat_that_is_deleted_while_it_is_saved_leaves_no_file(talk: Callable[..., Talk], qtbot: QtBot) -> None:
    chats = talk(save_seconds=0.5)
    chats.states.left("first")
    chats.states.forget("first")
    with qtbot.waitSignal(chats.client.state_saved, timeout=10_000):
        pass
    qtbot.waitUntil(lambda: chats.files == [], timeout=10_000)
    chats.answer("second")
    chats.answer("first")
    assert "load_state" not in chats.asked


def test_what_a_killed_engine_had_begun_to_save_goes_at_the_next_start(
    talk: Callable[..., Talk], qtbot: QtBot
) -> None:
    chats = talk()
    chats.leave("first")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for pid in (gone.pid, os.getpid()):
        (chats.folder / f"second-0.state.{pid}.part").touch()
    KeptStates(chats.client, chats.folder)
    qtbot.waitUntil(lambda: len(chats.files) == 2, timeout=10_000)
    assert sorted(path.suffix for path in chats.folder.iterdir()) == [".part", ".state"]
    assert (chats.folder / f"second-0.state.{os.getpid()}.part").exists(), "it is being written"


def test_the_oldest_files_go_when_there_are_too_many_bytes(talk: Callable[..., Talk], qtbot: QtBot) -> None:
    chats = talk()
    for age, chat in enumerate(("first", "second", "third")):
        chats.answer(chat)
        chats.leave(chat)
        file = next(chats.folder.glob(f"{chat}-*"))
        os.utime(file, (1000 + age, 1000 + age)) if chat != "third" else None
    qtbot.waitUntil(lambda: chats.files == ["second", "third"], timeout=10_000)


def test_files_of_an_earlier_session_are_found(talk: Callable[..., Talk], qtbot: QtBot) -> None:
    chats = talk()
    chats.leave("first")
    again = KeptStates(chats.client, chats.folder)
    qtbot.waitUntil(lambda: bool(again._known), timeout=10_000)
    again.before_answer("first")
    with qtbot.waitSignal(chats.client.finished, timeout=10_000):
        chats.client.generate(REQUEST)
    assert [event.tokens for event in chats.loaded] == [1200]


def test_the_last_chat_is_saved_while_the_application_ends(qtbot: QtBot, tmp_path: Path) -> None:
    client = EngineClient(places(), close_seconds=10.0)
    states = KeptStates(client, tmp_path / "states", least_tokens=1)
    qtbot.waitUntil((tmp_path / "states").exists, timeout=10_000)
    client.load(tiny_gguf.write_tiny(tmp_path / "m.gguf"), LoadParams(context_length=256, threads=1))
    states.before_answer("first")
    with qtbot.waitSignal(client.finished, timeout=20_000):
        client.generate(msgspec.structs.replace(REQUEST, sampling=SamplingParams(max_tokens=5)))
    states.answered("first", 20)
    states.left("first")
    with qtbot.waitSignal(client.closed, timeout=20_000):
        client.shutdown()
    assert [file.name.split("-")[0] for file in (tmp_path / "states").iterdir()] == ["first"]


def test_a_slow_save_does_not_hold_up_the_end_of_the_application(talk: Callable[..., Talk], qtbot: QtBot) -> None:
    chats = talk(save_seconds=600)
    chats.states.left("first")
    with qtbot.waitSignal(chats.client.closed, timeout=10_000):
        chats.client.shutdown()
    assert chats.client.pid == 0


def test_a_message_stops_no_save_and_waits_for_it(talk: Callable[..., Talk]) -> None:
    chats = talk(save_seconds=0.1)
    chats.states.left("first")
    chats.client.stop()
    chats.answer("second")
    assert chats.asked == ["load", "generate", "save_state", "generate"]


def test_what_is_held_of_a_chat_is_saved_for_a_notebook_that_takes_its_place(
    talk: Callable[..., Talk], qtbot: QtBot
) -> None:
    chats = talk()
    chats.states.leave_held(besides="first")
    assert chats.asked.count("save_state") == 0, "it goes on with the same chat"
    with qtbot.waitSignal(chats.client.state_saved, timeout=10_000):
        chats.states.leave_held(besides="notebook")
    qtbot.waitUntil(lambda: bool(chats.states._known), timeout=10_000)
    chats.answer("notebook")
    chats.answer("first")
    assert chats.asked == ["load", "generate", "save_state", "generate", "load_state", "generate"]
