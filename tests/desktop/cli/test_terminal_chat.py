"""The chat in a terminal, with a pseudo-terminal in the person's place."""

from __future__ import annotations

import codecs
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tiny_gguf
from fake_engine import ENDLESS

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals on this system")
termios = pytest.importorskip("termios", reason="there are no pseudo-terminals on this system")

_ROOT = Path(__file__).resolve().parents[3]
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
ENTER, CTRL_C, CTRL_D, UP, ALT_ENTER = "\r", "\x03", "\x04", "\x1b[A", "\x1b\r"


class Terminal:
    """A person at an 80-column terminal in which `quern chat` runs."""

    def __init__(self, model: Path, *answers: str) -> None:
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 80))
        environment = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        environment["PYTHONPATH"] = os.pathsep.join((str(_ROOT), str(_ROOT / "tests" / "support")))
        command = [sys.executable, str(_ROOT / "tests" / "support" / "chat_child.py"), str(model), *answers]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
            preexec_fn=_own_terminal,
        )  # fmt: skip
        os.close(slave)
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._seen = 0

    @property
    def screen(self) -> str:
        """Everything that was printed, without what only moves or colours."""
        return _ESCAPES.sub("", self.raw)

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def wait_for(self, text: str, seconds: float = 120) -> None:
        """Waits until `text` is printed after what was waited for last."""
        end = time.monotonic() + seconds
        while (found := self.screen.find(text, self._seen)) < 0:
            assert time.monotonic() < end, f"{text!r} did not come; so far:\n{self.screen[self._seen:]}"
            self._read(0.2)
        self._seen = found + len(text)

    def wait_for_prompt(self) -> None:
        """Waits until the numbers below an answer and the next prompt are there."""
        self.wait_for("of 4,096")
        self.wait_for(">")

    def exit_code(self) -> int:
        end = time.monotonic() + 120
        while self.process.poll() is None and time.monotonic() < end:
            self._read(0.1)
        return self.process.wait(60)

    def _read(self, seconds: float) -> None:
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.raw += self._decoder.decode(os.read(self.master, 65536))
            except OSError:  # the child has ended
                return

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def _own_terminal() -> None:
    """Makes the pseudo-terminal the child's own, so that Ctrl-C there becomes its interrupt."""
    import fcntl

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_gguf.write_tiny(tmp_path / "tiny.gguf")


@pytest.fixture
def started() -> Iterator[list[Terminal]]:
    terminals: list[Terminal] = []
    yield terminals
    for terminal in terminals:
        terminal.close()


def _chat(started: list[Terminal], model: Path, *answers: str) -> Terminal:
    terminal = Terminal(model, *answers)
    started.append(terminal)
    terminal.wait_for(">")
    return terminal


def test_ctrl_c_stops_the_answer_and_the_chat_goes_on(started: list[Terminal], model: Path):
    terminal = _chat(started, model, ENDLESS)
    terminal.type("go" + ENTER)
    terminal.wait_for("on and on and ")
    terminal.type(CTRL_C)
    terminal.wait_for("Stopped.")
    terminal.wait_for_prompt()
    terminal.type("still there?" + ENTER)
    terminal.wait_for("echo still there?")
    terminal.wait_for_prompt()
    terminal.type(CTRL_D)
    assert terminal.exit_code() == 0


def test_two_interrupts_in_an_empty_line_leave(started: list[Terminal], model: Path):
    terminal = _chat(started, model)
    terminal.type("some text" + CTRL_C)  # empties the line only
    terminal.type(CTRL_C)
    terminal.wait_for("Ctrl-C once more")
    terminal.wait_for(">")
    terminal.type(CTRL_C)
    assert terminal.exit_code() == 0


def test_help_lists_the_commands_and_a_wrong_one_is_explained(started: list[Terminal], model: Path):
    terminal = _chat(started, model)
    terminal.type("/help" + ENTER)
    terminal.wait_for("Begins a new conversation")
    terminal.wait_for(">")
    terminal.type("/hlep" + ENTER)
    terminal.wait_for("The nearest one is “/help”")
    terminal.type("/quit" + ENTER)
    assert terminal.exit_code() == 0


def test_several_lines_are_one_message(started: list[Terminal], model: Path):
    terminal = _chat(started, model)
    terminal.type("one" + ALT_ENTER + "two\\" + ENTER + "three" + ENTER)
    terminal.wait_for("echo one\ntwo\nthree")


def test_pasted_lines_are_one_message(started: list[Terminal], model: Path):
    terminal = _chat(started, model)
    terminal.type("\x1b[200~first\nsecond\x1b[201~" + ENTER)
    terminal.wait_for("echo first\nsecond")


def test_earlier_messages_come_back_in_the_next_chat(started: list[Terminal], model: Path, quern_home: Path):
    first = _chat(started, model)
    first.type("remember 模型" + ENTER)
    first.wait_for("echo remember 模型")
    first.type("/quit" + ENTER)
    assert first.exit_code() == 0
    assert (quern_home / "chat-history").stat().st_mode & 0o077 == 0
    second = _chat(started, model)
    second.type(UP + UP + ENTER)
    second.wait_for("echo remember 模型")


def test_an_answer_cannot_drive_the_terminal(started: list[Terminal], model: Path):
    terminal = _chat(started, model, "\x1b]0;owned\x07\x1b[2Jdone")
    terminal.type("go" + ENTER)
    terminal.wait_for("done")
    assert "\x1b]0;owned" not in terminal.raw
    assert "␛]0;owned␇␛[2Jdone" in terminal.screen


def test_undo_puts_the_question_back_into_the_line(started: list[Terminal], model: Path):
    terminal = _chat(started, model)
    terminal.type("a question" + ENTER)
    terminal.wait_for("echo a question")
    terminal.wait_for_prompt()
    terminal.type("/undo" + ENTER)
    terminal.wait_for("taken back")
    terminal.wait_for("> a question")
    terminal.type(" again" + ENTER)
    terminal.wait_for("echo a question again")
