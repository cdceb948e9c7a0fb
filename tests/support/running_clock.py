"""Seconds in which this machine really ran: a clock that stands still while everything stands still.

A machine may pause: a laptop sleeps, a virtual machine is saved, processes are held to make room for others. A limit by
the clock on the wall then blames the program under test. Here a second process does nothing but wake many times a
second; where it wakes late, the machine stood still. It is a process because a thread would also wait for an
interpreter that hangs, and a hang would pass for a pause. What is slow because others compute too counts in full.
"""

from __future__ import annotations

import contextlib
import mmap
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

_BEAT = 0.05  # seconds
_SECONDS = struct.Struct("d")


class RunningClock:
    """A context manager that keeps the second process; waking later than after `pause` seconds counts as that."""

    def __init__(self, pause: float = 2.0) -> None:
        self._pause = pause

    def __enter__(self) -> RunningClock:
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "seconds"
        path.write_bytes(_SECONDS.pack(0))
        with path.open("rb") as file:
            self._seen = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.counter = subprocess.Popen([sys.executable, __file__, path, str(self._pause)], stdin=subprocess.PIPE)
        return self

    def __exit__(self, *_error: object) -> None:
        self.counter.communicate()  # its stdin closes
        self._seen.close()
        self._folder.cleanup()

    def now(self) -> float:
        """Returns the seconds counted so far."""
        assert self.counter.poll() is None, "nobody counts"
        return float(_SECONDS.unpack(self._seen[: _SECONDS.size])[0])

    @contextlib.contextmanager
    def killed_after(self, seconds: float, pid: int) -> Iterator[None]:
        """Kills a process that is not done within so many seconds of running."""
        done, end = threading.Event(), self.now() + seconds

        def watch() -> None:
            while not done.wait(2 * _BEAT):
                if self.now() > end:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        psutil.Process(pid).kill()
                    return

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def main() -> None:
    """Counts into the named file until stdin closes."""
    path, pause = Path(sys.argv[1]), float(sys.argv[2])
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as counted:
        ran, before = 0.0, time.monotonic()
        while not over.wait(_BEAT):
            now = time.monotonic()
            ran += min(now - before, pause)
            before = now
            counted[: _SECONDS.size] = _SECONDS.pack(ran)


if __name__ == "__main__":
    main()
