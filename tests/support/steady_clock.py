"""A clock that stands still while the whole machine does: asleep, or with all of its processes stopped.

It counts how often a thread of its own came to its turn, so that a pause of any length counts as one tick, and a busy
machine makes it a little slow. What is timed by it is as long on a machine that was suspended meanwhile.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

TICK = 0.01  # seconds


class SteadyClock:
    """Counts seconds in which this process could run. Used as a context."""

    def __init__(self) -> None:
        self._ticks = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._count, name="clock", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _count(self) -> None:
        while not self._ended.wait(TICK):
            self._ticks += 1

    def now(self) -> float:
        """Returns the seconds since it was started, as far as the machine ran."""
        return self._ticks * TICK

    def sleep(self, seconds: float) -> None:
        """Returns after so many of its seconds."""
        until = self.now() + seconds
        while self.now() < until:
            self._ended.wait(TICK)
