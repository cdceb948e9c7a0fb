"""The clock for limits counts what a process needs, and not the time in which the machine stood still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from running_clock import RunningClock


def _when_it_moved(clock: RunningClock, before: float) -> float:
    while (now := clock.now()) == before:
        time.sleep(0.001)
    return now


def test_it_counts() -> None:
    with RunningClock() as clock:
        before = _when_it_moved(clock, 0)
        assert _when_it_moved(clock, before) > before


@pytest.mark.skipif(sys.platform == "win32", reason="no signal stops a process")
def test_a_pause_of_everything_counts_for_no_more_than_a_moment() -> None:
    with RunningClock(pause=0.3) as clock:
        _when_it_moved(clock, 0)
        os.kill(clock.counter.pid, signal.SIGSTOP)
        os.waitpid(clock.counter.pid, os.WUNTRACED)
        before = clock.now()
        time.sleep(1)
        os.kill(clock.counter.pid, signal.SIGCONT)
        assert _when_it_moved(clock, before) < before + 0.31


def test_what_hangs_is_killed_and_what_ends_is_not() -> None:
    with RunningClock() as clock:
        hanging = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with clock.killed_after(0.2, hanging.pid):
            assert hanging.wait() != 0
        quick = subprocess.Popen([sys.executable, "-c", ""])
        with clock.killed_after(600, quick.pid):
            assert quick.wait() == 0


def test_a_counter_that_died_is_an_error_and_no_standstill() -> None:
    with RunningClock() as clock:
        clock.counter.kill()
        clock.counter.wait()
        with pytest.raises(AssertionError, match="nobody counts"):
            clock.now()
