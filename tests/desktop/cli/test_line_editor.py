"""The line where a person types, where a chat in a terminal does not show it."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from prompt_toolkit.utils import suspend_to_background_supported

from desktop.cli.line_editor import CommandCompleter, KeptHistory, editor


def test_a_terminal_that_does_not_tell_its_cursor_is_not_complained_about():
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        session = editor(None, CommandCompleter({}, {}))
        assert session.app.renderer.cpr_not_supported_callback is None


def test_what_a_terminal_sends_that_is_not_in_utf_8_is_read_and_kept(tmp_path: Path):
    file = tmp_path / "history"
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_bytes(b"caf\xe9\r")
        typed = editor(file, CommandCompleter({}, {})).prompt("> ")
    assert typed.startswith("caf")
    assert list(KeptHistory(str(file)).load_history_strings()) == ["caf\ufffd"]


def test_pasted_colours_are_left_out_and_the_words_stay():
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("a \x1b[1;31mred\x1b[0m word\r")
        assert editor(None, CommandCompleter({}, {})).prompt("> ") == "a red word"


@pytest.mark.skipif(not suspend_to_background_supported(), reason="this system has no job control")
def test_ctrl_z_leaves_the_chat_for_a_while_and_writes_nothing(monkeypatch: pytest.MonkeyPatch):
    left: list[bool] = []
    monkeypatch.setattr(Application, "suspend_to_background", lambda *_self: left.append(True))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("a\x1ab\r")
        assert editor(None, CommandCompleter({}, {})).prompt("> ") == "ab"
    assert left == [True]
