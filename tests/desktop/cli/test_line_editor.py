"""The line where a person types, where a chat in a terminal does not show it."""

from __future__ import annotations

from pathlib import Path

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

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
