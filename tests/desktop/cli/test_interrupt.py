"""Ctrl-C while an answer is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from desktop.cli.interrupt import Interrupts

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")


def _press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_press_sets_the_flag_and_an_impatient_second_does_nothing_more():
    with Interrupts() as interrupts:
        _press()
        _press()
        assert interrupts.stop.is_set()


def test_a_later_press_ends_the_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("desktop.cli.interrupt._PATIENCE", -1.0)
    with Interrupts():
        _press()
        with pytest.raises(KeyboardInterrupt):
            _press()


def test_afterwards_ctrl_c_means_what_it_meant_and_no_thread_is_left():
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        pass
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1
    assert [thread.name for thread in threading.enumerate() if thread.name == "interrupts"] == []


_LOCKED_IN_NATIVE_CODE = """
import ctypes, os, signal, threading
from desktop.cli.interrupt import Interrupts

libc = ctypes.CDLL(None)
mutex, seen = ctypes.create_string_buffer(128), []

def look_and_unlock(stop):
    seen.append(stop.is_set())
    libc.pthread_mutex_unlock(mutex)

with Interrupts() as interrupts:
    libc.pthread_mutex_lock(mutex)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    threading.Timer(1.0, look_and_unlock, (interrupts.stop,)).start()
    libc.pthread_mutex_lock(mutex)  # signals do not end this wait, and Python's handler has to wait with it
print(seen)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="zeroes are a mutex only in Linux's C libraries")
def test_the_flag_is_set_while_native_code_keeps_the_main_thread():
    done = subprocess.run(
        [sys.executable, "-c", _LOCKED_IN_NATIVE_CODE], cwd=ROOT, capture_output=True, check=False, timeout=60
    )
    assert done.stdout == b"[True]\n", done.stderr
