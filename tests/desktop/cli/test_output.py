"""What is written, and how often."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Callable

import pytest

from desktop.cli import output
from desktop.cli.output import StatusLine
from runtime.errors import ErrorInfo


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


@pytest.mark.parametrize("tell", [output.remark, lambda text: output.show_error(ErrorInfo(title=text))],
                         ids=["remark", "error"])  # fmt: skip
def test_words_that_nobody_can_read_end_no_command(monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]):
    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    tell("The context is full.")


def test_a_name_of_several_lines_makes_no_second_headline(capsys: pytest.CaptureFixture[str]):
    output.show_error(ErrorInfo(title="“a\nQuern is broken.” is missing.", message="one\ntwo", code="x"))
    assert capsys.readouterr().err == "“a␊Quern is broken.” is missing.\none\ntwo\n"
