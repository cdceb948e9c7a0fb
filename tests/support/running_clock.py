"""What a process took, without the time in which it could do nothing: limits for it hold on busy machines, too.

Two things are left out. A machine may pause: a laptop sleeps, a virtual machine is saved, processes are held to make
room for others. A second process does nothing but wake many times a second; where it wakes late, the machine stood
still. It is a process because a thread would also wait for an interpreter that hangs, and a hang would pass for that.
And other programs compute: while a thread is ready, only the time that it got from a processor counts. Waiting for
anything else, a lock, a pipe or a disk, counts in full.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_BEAT = 0.05  # seconds
_SECONDS = struct.Struct("d")


@dataclass
class Taken:
    """The seconds that something took so far."""

    seconds: float = 0.0


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
        while not self.now():
            time.sleep(_BEAT)
        return self

    def __exit__(self, *_error: object) -> None:
        self.counter.communicate()  # its stdin closes
        self._seen.close()
        self._folder.cleanup()

    def now(self) -> float:
        """Returns the seconds in which the machine ran."""
        assert self.counter.poll() is None, "nobody counts"
        return float(_SECONDS.unpack(self._seen[: _SECONDS.size])[0])

    @contextlib.contextmanager
    def timing_this_thread(self) -> Iterator[Taken]:
        """Measures what the calling thread takes inside."""
        with self._timing(Path(f"/proc/self/task/{threading.get_native_id()}")) as taken:
            yield taken

    @contextlib.contextmanager
    def timing(self, pid: int, *, killed_after: float) -> Iterator[Taken]:
        """Measures what a process and those that it starts take inside, and kills it once that is too long."""
        with self._timing(Path(f"/proc/{pid}"), killed_after) as taken:
            yield taken

    @contextlib.contextmanager
    def _timing(self, place: Path, killed_after: float = float("inf")) -> Iterator[Taken]:
        taken, done = Taken(), threading.Event()
        now, (used, _ready) = self.now(), _look(place)

        def look() -> None:
            nonlocal now, used
            before, used_before = now, used
            now, (used, ready) = self.now(), _look(place)
            taken.seconds += min(now - before, max(used - used_before, 0)) if ready else now - before

        def watch() -> None:
            while not done.wait(2 * _BEAT):
                look()
                if taken.seconds > killed_after:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        psutil.Process(int(place.name)).kill()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield taken
        finally:
            done.set()
            watcher.join()
            look()


def _look(place: Path) -> tuple[float, bool]:
    """Returns the processor time used by a thread, or by a process and its children, and whether any of it is ready.

    Where no /proc tells of it, nothing is ever ready, so that all time counts.
    """
    threads = _names(place / "task")  # a thread has none
    used, ready = _stat(place, times=4 if threads else 2)
    for thread in (place / "task" / name for name in threads):
        ready |= _stat(thread)[1]
        for child in _read(thread / "children").split():
            more, child_ready = _look(Path(f"/proc/{child}"))
            used, ready = used + more, ready or child_ready
    return used, ready


def _stat(place: Path, times: int = 2) -> tuple[float, bool]:
    # proc_pid_stat(5) from its third field on: the state, and far behind it utime, stime, cutime, cstime
    fields = _read(place / "stat").rpartition(")")[2].split()
    if not fields:
        return 0.0, False
    return sum(map(int, fields[11 : 11 + times])) / os.sysconf("SC_CLK_TCK"), fields[0] == "R"


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # what it tells of has ended
        return ""


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
