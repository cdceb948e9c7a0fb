"""An illegal instruction that ends a process is held against the library that ran in it; other ends are not."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.llama.deaths import Deaths

LIBRARY = Path("/somewhere/libggml-cpu-zen4.so")
OTHER = Path("/somewhere/libggml-cpu-haswell.so")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")


def process(folder: Path, end: str, before: str = "") -> int:
    """Runs a process that watches over the library and ends in this way; returns its exit status."""
    script = (
        f"import faulthandler, os, signal, sys, threading\nfrom pathlib import Path\n"
        f"from runtime.llama.deaths import Deaths\n{before}\n"
        f"deaths = Deaths(Path({str(folder)!r}))\ndeaths.watch(Path({str(LIBRARY)!r}))\n{end}\n"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, timeout=60).returncode


def died(folder: Path) -> bool:
    return Deaths(folder).of(LIBRARY)


def test_an_illegal_instruction_is_told_once_to_who_starts_next(tmp_path: Path) -> None:
    folder = tmp_path / "not there yet"
    assert process(folder, "os.kill(os.getpid(), signal.SIGILL)") == -signal.SIGILL
    assert Deaths(folder).of(OTHER) is False
    assert died(folder)
    assert not died(folder)


def test_an_illegal_instruction_in_a_thread_that_computes_is_told_as_well(tmp_path: Path) -> None:
    end = "threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), signal.SIGILL)).start()"
    assert process(tmp_path, end + "\nsignal.pause()") == -signal.SIGILL
    assert died(tmp_path)


KILLED = [f"os.kill(os.getpid(), signal.{name})" for name in ("SIGKILL", "SIGTERM", "SIGSEGV")]


@pytest.mark.parametrize("end", ["pass", "sys.exit(2)", *KILLED])
def test_other_ends_are_not_held_against_it(tmp_path: Path, end: str) -> None:
    process(tmp_path, end)
    assert not died(tmp_path)


def test_a_fault_handler_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    assert process(tmp_path, "os.kill(os.getpid(), signal.SIGILL)", before="faulthandler.enable()") == -signal.SIGILL
    assert not died(tmp_path)


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert process(tmp_path / "file" / "folder", "pass") == 0
    assert not died(tmp_path / "file" / "folder")
    assert not Deaths(None).of(LIBRARY)
