"""What is written, and how often."""

from __future__ import annotations

import io

import pytest

from desktop.cli.output import StatusLine


class Terminal(io.StringIO):
    """A stream that a person watches."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_a_status_line_is_written_only_where_it_changes(terminal: Terminal):
    line = StatusLine(terminal)
    for percent in (1, 1, 1, 2):
        line.show(f"Loading: {percent} %")
    assert terminal.getvalue().count("Loading: 1 %") == 1
    assert terminal.getvalue().count("Loading: 2 %") == 1


def test_a_status_line_that_was_wiped_is_written_again(terminal: Terminal):
    line = StatusLine(terminal)
    for _again in range(2):
        line.show("Reading")
        line.clear()
        line.clear()
    assert terminal.getvalue().count("Reading") == 2
    assert terminal.getvalue().count("\x1b[K") == 4


def test_nobody_sees_a_status_line_in_a_file():
    stream = io.StringIO()
    line = StatusLine(stream)
    line.show("Reading")
    line.clear()
    assert stream.getvalue() == ""
