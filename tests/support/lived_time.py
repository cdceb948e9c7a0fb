"""A clock that stands still while the whole machine does: laptops sleep, virtual machines are paused.

A test that says "within five seconds" means seconds in which the program could do anything: where it is told how long
a process waited for a processor that others had, that is left out as well.
"""

from __future__ import annotations

import functools
import threading
import time
from pathlib import Path

import psutil

_TICK = 0.02  # seconds
_STOOD_STILL = 0.5  # a tick that comes so late did not come late for want of a processor


class LivedClock:
    """Counts seconds in ticks of its own thread; a gap between two ticks is not counted."""

    def __init__(self) -> None:
        self._missing = 0.0
        threading.Thread(target=self._tick, name="lived time", daemon=True).start()

    def now(self) -> float:
        """Returns seconds since some moment, without those in which nothing ran."""
        return time.monotonic() - self._missing

    def sleep(self, seconds: float) -> None:
        """Returns after so many of its seconds."""
        until = self.now() + seconds
        while (left := until - self.now()) > 0:
            time.sleep(min(left, _TICK))

    def _tick(self) -> None:
        before = time.monotonic()
        while True:
            time.sleep(_TICK)
            after = time.monotonic()
            if after - before > _STOOD_STILL:
                self._missing += after - before - _TICK
            before = after


@functools.cache
def clock() -> LivedClock:
    """Returns the clock of this process."""
    return LivedClock()


def waited(pid: int) -> float:
    """Returns the seconds in which a process's main thread could run and got no processor; 0 where that is not told."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def seconds_to_end(processes: list[psutil.Process], most: float) -> float:
    """Waits until the processes are gone and returns how long that took, without what they `waited` for a processor.

    Raises AssertionError where one of them stays longer than `most` seconds, all waiting included.
    """
    began, until = clock().now(), clock().now() + most
    before = {process.pid: waited(process.pid) for process in processes}
    lost = dict.fromkeys(before, 0.0)
    left = psutil.wait_procs(processes, timeout=0)[1]
    while left:
        assert clock().now() < until, f"still there: {left}"
        lost |= {process.pid: max(lost[process.pid], waited(process.pid) - before[process.pid]) for process in left}
        left = psutil.wait_procs(left, timeout=0.05)[1]
    return max(clock().now() - began - max(lost.values(), default=0.0), 0.0)
