"""Signals: kept from children that leave them to their parent, and told of while native code keeps the main thread.

Knows nothing about what the processes are, nor what a signal means to them.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """While entered, an interrupt waits; a child that is started meanwhile never gets one.

    A terminal sends Ctrl-C to every process in it, also to a child that has not come to the line in which it decides
    to ignore it. Windows has no such signal.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_to_parent() -> None:
    """To be called in a child: Ctrl-C, or the end of the terminal, reaches every process in it; the parent decides."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):  # Windows has the first one only
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def ending() -> tuple[int, ...]:
    """Returns the signals that ask this process to end, less one that it was started to ignore, as below `nohup`."""
    numbers = (getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
    return tuple(number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN)


def ignore_endings() -> None:
    """Has this process, which is ending, not be interrupted by being asked to once more."""
    for number in ending():
        signal.signal(number, signal.SIG_IGN)


class Listener:
    """A thread that is told the number of each handled signal as soon as the interpreter notes it.

    Python runs signal handlers in the main thread and only between its own instructions; this thread need not wait
    for that. To be made and closed in the main thread.
    """

    def __init__(self, told: Callable[[int], None]) -> None:
        import socket  # not before it is needed: every command reads this file

        self._told = told
        self._here, self._there = socket.socketpair()  # on Windows, only a socket can be the interpreter's notebook
        self._there.setblocking(False)
        self._before = signal.set_wakeup_fd(self._there.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, name="interrupts", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while note := self._here.recv(16):
            for number in note:
                self._told(number)

    def close(self) -> None:
        """Ends the thread."""
        signal.set_wakeup_fd(self._before)
        self._there.close()
        self._thread.join()
        self._here.close()
