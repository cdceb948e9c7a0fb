"""A conversation in the terminal outlives what goes wrong with one line of it."""

from __future__ import annotations

import errno

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from desktop.cli.answer import TextView
from desktop.cli.dialogue import Dialogue
from desktop.cli.slash import COMMANDS, Slash, SlashCommands
from desktop.cli.terminal_chat import TerminalChat
from fake_engine import FakeEngine
from runtime.params import SamplingParams


def _talk(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Types a command that fails with `error`, then one that works, and leaves."""

    def fail(_commands: SlashCommands, _argument: str) -> None:
        raise error

    monkeypatch.setitem(COMMANDS, "/context", Slash(fail, ""))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("/context\r/help\r/quit\r")
        dialogue = Dialogue(FakeEngine(), sampling=SamplingParams())
        TerminalChat(dialogue, name="tiny", view=TextView(), history=None).run()


@pytest.mark.parametrize(("error", "said"), [
    (OSError(errno.EIO, "Input/output error", "notes.md"), "notes.md"),
    (MemoryError(), "memory"),
    (RuntimeError("odd"), "Quern made a mistake: RuntimeError: odd"),
], ids=["the system", "memory", "a fault of ours"])  # fmt: skip
def test_what_goes_wrong_with_a_command_is_told_and_the_conversation_stays(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    _talk(monkeypatch, error)
    printed = capsys.readouterr()
    assert said in printed.err
    assert "/save FILE" in printed.out


def test_a_reader_that_went_away_ends_it(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(BrokenPipeError):
        _talk(monkeypatch, BrokenPipeError(errno.EPIPE, "Broken pipe"))
