"""Ctrl-C while an answer is written: the first ends the answer, a later one the command, one more the process."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from types import FrameType
from typing import Any, Self

from runtime.engine import StopFlag

_PATIENCE = 1.0  # seconds in which another Ctrl-C is the same wish, made impatiently


class Interrupts:
    """While entered, Ctrl-C sets `stop`, which also ends native work that Python's own exception could not reach.

    Python runs signal handlers in the main thread and only between its own instructions. While native code works
    there, the flag is set by a thread that waits for the interpreter's note that a signal has come.
    """

    def __init__(self) -> None:
        self.stop = StopFlag()
        self._asked_at: float | None = None
        self._raised = False
        self._before: Any = None
        self._wakeup_before = -1
        self._listener: _Listener | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._listener = _Listener(self.stop)
            self._before = signal.signal(signal.SIGINT, self._pressed)
            self._wakeup_before = signal.set_wakeup_fd(self._listener.descriptor, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._listener is not None:
            signal.set_wakeup_fd(self._wakeup_before)
            signal.signal(signal.SIGINT, self._before)
            self._listener.close()

    def _pressed(self, _signal: int, _frame: FrameType | None) -> None:
        self.stop.set()
        if self._asked_at is None:
            self._asked_at = time.monotonic()
        elif self._raised:
            os._exit(130)
        elif time.monotonic() - self._asked_at > _PATIENCE:
            self._raised = True
            raise KeyboardInterrupt


class _Listener:
    """A thread that sets a flag as soon as the interpreter notes an interrupt, whatever the main thread does."""

    def __init__(self, stop: StopFlag) -> None:
        self._stop = stop
        self._here, self._there = socket.socketpair()  # on Windows, only a socket can be the interpreter's notebook
        self._there.setblocking(False)
        self.descriptor = self._there.fileno()
        self._thread = threading.Thread(target=self._listen, name="interrupts", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while note := self._here.recv(16):
            if signal.SIGINT in note:
                self._stop.set()

    def close(self) -> None:
        """Ends the thread."""
        self._there.close()
        self._thread.join()
        self._here.close()
