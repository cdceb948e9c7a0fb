"""A clock that stands still while the whole machine does: laptops sleep, virtual machines are paused.

A test that says "within five seconds" means seconds in which anybody could do anything.
"""

from __future__ import annotations

import functools
import threading
import time

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


def still_running(processes: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Waits until the processes are gone, at most so long, and returns those that are not."""
    until = clock().now() + seconds
    left = psutil.wait_procs(processes, timeout=0)[1]
    while left and clock().now() < until:
        left = psutil.wait_procs(left, timeout=0.05)[1]
    return left
