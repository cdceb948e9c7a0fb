"""A command that dies in native code is told in a sentence; every other end is the command's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import tiny_gguf

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
BEGIN = "import os, signal, sys, time\nfrom desktop.cli.guard import guarded\n"


def started(command: str, *, before: str = "", stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Runs the body of a function as a command under the guard."""
    body = "".join(f"    {line}\n" for line in command.splitlines())
    script = f"{BEGIN}{before}\ndef run():\n{body}sys.exit(guarded(run))"
    return subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=stdin, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_an_exit_code_is_passed_on(code: int):
    process = started(f"print('done', flush=True)\nreturn {code}")
    assert process.communicate(timeout=60) == ("done\n", "")
    assert process.returncode == code


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SIGBUS", "could no longer be read"),
        ("SIGILL", "instruction that this processor does not have"),
        ("SIGKILL", "memory ran out"),
        ("SIGSEGV", "Run the command again"),
        ("SIGABRT", "Run the command again"),
    ],
)
def test_a_death_is_told_in_a_sentence(name: str, words: str):
    process = started(f"os.kill(os.getpid(), signal.{name})\ntime.sleep(60)")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def asleep(process: subprocess.Popen[str]) -> psutil.Process:
    """Waits until the command runs, and returns its process."""
    assert process.stdout is not None
    return psutil.Process(int(process.stdout.readline()))


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[str]]:
    process = started("print(os.getpid(), flush=True)\ntime.sleep(60)")
    yield process
    process.kill()
    process.communicate()


def test_an_end_that_was_asked_for_reaches_the_command_and_needs_no_words(sleeping: subprocess.Popen[str]):
    command = asleep(sleeping)
    sleeping.terminate()
    assert sleeping.communicate(timeout=60)[1] == ""
    assert sleeping.returncode == 128 + signal.SIGTERM
    assert not command.is_running()


def test_a_command_does_not_outlive_its_killed_guard(sleeping: subprocess.Popen[str]):
    command = asleep(sleeping)
    sleeping.kill()
    command.wait(timeout=120)


def test_ctrl_c_is_the_command_s_own_affair():
    waiting = "try:\n    print(os.getpid(), flush=True)\n    time.sleep(60)\n"
    process = started(waiting + "except KeyboardInterrupt:\n    return 130")
    asleep(process)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 130


def test_a_command_that_is_deaf_to_its_end_is_killed():
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    process = started(deaf, before="from desktop.cli import guard\nguard._PATIENCE = 0.2")
    command = asleep(process)
    process.terminate()
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 128 + signal.SIGTERM
    assert not command.is_running()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_command_that_is_asked_to_end_leaves_through_what_it_has_opened(name: str):
    waiting = "try:\n    print(os.getpid(), flush=True)\n    time.sleep(60)\nfinally:\n    print('tidy', flush=True)"
    process = started(waiting)
    asleep(process)
    number = getattr(signal, name)
    process.send_signal(number)
    assert process.communicate(timeout=60) == ("tidy\n", "")
    assert process.returncode == 128 + number


@pytest.mark.parametrize("inside", ["", "with Interrupts() as interrupts:"], ids=["anywhere", "while it works"])
def test_who_asks_twice_does_not_interrupt_the_tidying_up(inside: str):
    work = "    print(os.getpid(), flush=True)\n    while not (inside and interrupts.stop.is_set()):\n"
    work += "        time.sleep(0.01)\n"
    tidy = "finally:\n    print('tidying', flush=True)\n    time.sleep(0.5)\n    print('tidy', flush=True)"
    if inside:
        work = f"    {inside}\n" + "".join(f"    {line}\n" for line in work.splitlines())
    before = f"from desktop.cli.interrupt import Interrupts\ninside = {bool(inside)}"
    process = started(f"try:\n{work}{tidy}", before=before)
    asleep(process)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "tidying\n"
    os.killpg(process.pid, signal.SIGTERM)
    assert process.communicate(timeout=60) == ("tidy\n", "")
    assert process.returncode == 128 + signal.SIGTERM


def test_below_nohup_the_end_of_the_terminal_is_not_heard():
    process = started(
        "print(os.getpid(), flush=True)\nprint(sys.stdin.readline(), end='')",
        before="from desktop.cli import guard\nguard._PATIENCE = 0.1\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)",
        stdin=subprocess.PIPE,
    )
    asleep(process)
    os.killpg(process.pid, signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    assert process.communicate("goes on\n", timeout=60) == ("goes on\n", "")
    assert process.returncode == 0


def test_a_mapped_model_that_shrinks_while_it_is_in_use_ends_in_a_sentence(tmp_path: Path):
    model = tiny_gguf.write_tiny(tmp_path / "model.gguf")
    command = [sys.executable, "-m", "desktop", "chat", str(model), "--max-tokens", "4", "--context-length", "512",
               "--mmap", "on"]  # fmt: skip
    chat = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, bufsize=1)  # fmt: skip
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write("Hello\n")
    chat.stdin.flush()
    assert chat.stdout.readline()
    os.truncate(model, 0)
    _out, err = chat.communicate("Hello again\n", timeout=60)
    assert "could no longer be read" in err
    assert chat.returncode == 2
