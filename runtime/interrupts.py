"""Keeps what a terminal says from child processes. Knows nothing about what they are."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


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
