"""The commands of the terminal chat."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from desktop.cli.dialogue import Dialogue
from desktop.cli.slash import COMMANDS, CommandProblem, SlashCommands
from fake_engine import FakeEngine
from runtime.engine import StopFlag
from runtime.params import SamplingParams
from runtime.places import UnwritableFile
from runtime.settings import BadSetting


class FakeChat:
    """A chat without a terminal."""

    def __init__(self) -> None:
        self.dialogue = Dialogue(FakeEngine(["one", "two"]), sampling=SamplingParams())
        self.finished = False
        self.line = ""
        self.agrees = False

    def retry(self) -> None:
        list(self.dialogue.retry(StopFlag()))

    def go_on(self) -> None:
        list(self.dialogue.go_on(StopFlag()))

    def edit(self, text: str) -> None:
        self.line = text

    def confirm(self, _question: str) -> bool:
        return self.agrees

    def run(self, line: str) -> None:
        SlashCommands(self).run(line)

    def say(self, text: str) -> None:
        list(self.dialogue.ask(text, StopFlag()))


@pytest.fixture
def chat() -> FakeChat:
    return FakeChat()


def test_help_names_every_command(chat: FakeChat, capsys: pytest.CaptureFixture[str]):
    chat.run("/help")
    out = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in out] == []


def test_set_changes_the_next_request(chat: FakeChat):
    chat.run("/set temperature 0,5")
    chat.run("/set TOP_K 7")
    chat.say("hi")
    sampling = chat.dialogue.engine.requests[0].sampling
    assert (sampling.temperature, sampling.top_k) == (0.5, 7)


def test_set_default_takes_a_change_back(chat: FakeChat):
    chat.run("/set temperature 2")
    chat.run("/set temperature default")
    assert chat.dialogue.sampling == SamplingParams()


def test_set_takes_several_texts_with_line_breaks(chat: FakeChat):
    chat.run(r'/set stop "\nUser:" end')
    assert chat.dialogue.sampling.stop == ("\nUser:", "end")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/set temperature hot", "Temperature cannot be"),
        ("/set warmth 1", "There is no setting"),
        ("/set temprature 1", "The nearest one is “temperature”"),
        ("/set context-length 8192", "Start the chat with --context-length"),
        ('/set stop "open', "quotation mark"),
        ("/dance", "There is no command “/dance”"),
        ("/undo", "nothing to take back"),
        ("/retry", "no answer yet"),
        ("/continue", "no answer yet"),
        ("/save", "needs a file name"),
    ],
)
def test_what_cannot_be_done_is_explained_and_changes_nothing(chat: FakeChat, line: str, said: str):
    with pytest.raises((CommandProblem, BadSetting)) as caught:
        chat.run(line)
    assert said in str(caught.value)
    assert chat.dialogue.sampling == SamplingParams()


def test_undo_puts_the_question_back_into_the_line(chat: FakeChat):
    chat.say("what?")
    chat.run("/undo")
    assert (chat.line, chat.dialogue.turns) == ("what?", [])


def test_continue_adds_to_the_last_answer(chat: FakeChat):
    chat.say("hi")
    chat.run("/continue")
    assert [message.content for message in chat.dialogue.turns] == ["hi", "onetwo"]
    assert chat.dialogue.engine.requests[1].continue_last


def test_new_keeps_the_system_prompt(chat: FakeChat):
    chat.run("/system Be brief.")
    chat.say("hi")
    chat.run("/new")
    assert [message.content for message in chat.dialogue.messages] == ["Be brief."]
    chat.run("/system off")
    assert chat.dialogue.messages == ()


def test_a_saved_conversation_holds_every_word(chat: FakeChat, tmp_path: Path):
    chat.say("你好 “hi”")
    chat.run(f"/save {tmp_path / 'talk ü.json'}")
    saved = json.loads((tmp_path / "talk ü.json").read_text(encoding="utf-8"))
    assert [message["content"] for message in saved["messages"]] == ["你好 “hi”", "one"]
    chat.run(f"/save {tmp_path / 'talk.md'}")
    assert (tmp_path / "talk.md").read_text(encoding="utf-8") == "## You\n\n你好 “hi”\n\n## Model\n\none\n"


def test_saving_over_a_file_needs_consent(chat: FakeChat, tmp_path: Path):
    file = tmp_path / "notes.md"
    file.write_text("mine")
    chat.say("hi")
    chat.run(f"/save {file}")
    assert file.read_text() == "mine"
    chat.agrees = True
    chat.run(f"/save {file}")
    assert "one" in file.read_text()


def test_only_an_ordinary_file_is_replaced(chat: FakeChat, tmp_path: Path):
    chat.agrees = True
    pipe = tmp_path / "pipe"
    if hasattr(os, "mkfifo"):
        os.mkfifo(pipe)
    else:
        pipe.mkdir()
    for path in (tmp_path, pipe):
        with pytest.raises(UnwritableFile, match="no ordinary file"):
            chat.run(f"/save {path}")
    assert not pipe.is_file()


def test_quit_leaves(chat: FakeChat):
    chat.run("/QUIT")
    assert chat.finished


def test_context_lists_every_message_and_pins_go_to_the_engine(chat: FakeChat, capsys: pytest.CaptureFixture[str]):
    chat.run("/system Be brief.")
    chat.say("first \x1b[31mquestion")
    chat.say("second question")
    chat.run("/pin 1")
    capsys.readouterr()
    chat.run("/context")
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert len(lines) == 7
    assert "System" in lines[0]
    assert "pinned" in lines[1]
    assert "\x1b" not in out
    assert "of 4,096 tokens" in lines[5]
    chat.say("third")
    assert chat.dialogue.engine.requests[-1].pinned == (1,)  # type: ignore[attr-defined]
    chat.run("/pin")
    assert chat.dialogue.pinned == {0, 5}
    chat.run("/undo")
    assert chat.dialogue.pinned == {0}
    chat.run("/unpin")
    assert not chat.dialogue.pinned


def test_a_pin_survives_writing_the_last_answer_anew(chat: FakeChat):
    chat.say("a question")
    chat.run("/pin 2")
    chat.retry()
    assert chat.dialogue.pinned == {1}
    chat.run("/new")
    assert not chat.dialogue.pinned


@pytest.mark.parametrize("line", ["/pin 3", "/pin x", "/pin 0", "/unpin 1"])
def test_numbers_of_no_message_are_refused(chat: FakeChat, line: str):
    chat.say("a question")
    with pytest.raises(CommandProblem):
        chat.run(line)


def test_nothing_can_be_pinned_before_anything_is_said(chat: FakeChat):
    with pytest.raises(CommandProblem):
        chat.run("/pin")


def test_a_name_that_no_disk_takes_is_told(chat: FakeChat, tmp_path: Path):
    with pytest.raises(UnwritableFile, match="name is too long"):
        chat.run(f"/save {tmp_path / ('x' * 300)}.md")
