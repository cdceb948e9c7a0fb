"""Ctrl-C while an answer is written: the first ends the answer, a later one the command, one more the process.

What asks the process to end (SIGTERM, SIGHUP) ends the answer and then the command.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from runtime import interrupts
from runtime.engine import StopFlag

_PATIENCE = 1.0  # seconds in which another Ctrl-C is the same wish, made impatiently


class Interrupts:
    """While entered, Ctrl-C sets `stop`, which also ends native work that Python's own exception could not reach.

    So does what asks the process to end; then leaving raises `SystemExit`. `end_soon` is called with the signal's
    number on a thread of its own: there the process can be ended where the work does not hear `stop`.

    Python runs signal handlers in the main thread and only between its own instructions. While native code works
    there, the flag is set by a thread that waits for the interpreter's note that a signal has come.
    """

    def __init__(self, *, end_soon: Callable[[int], None] = lambda _number: None) -> None:
        self.stop = StopFlag()
        self._end_soon = end_soon
        self._asked_at: float | None = None
        self._raised = False
        self._ended_by = 0
        self._ending: tuple[int, ...] = ()
        self._before: dict[int, Any] = {}
        self._listener: interrupts.Listener | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._ending = interrupts.ending()
            self._listener = interrupts.Listener(self._noted)
            self._before = {number: signal.signal(number, self._asked) for number in self._ending}
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._pressed)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._listener is not None:
            self._listener.close()
        if self._ended_by:
            interrupts.ignore_endings()
            raise SystemExit(128 + self._ended_by)

    def _noted(self, number: int) -> None:
        if number == signal.SIGINT or number in self._ending:
            self.stop.set()
        if number in self._ending:
            threading.Thread(target=self._end_soon, args=(number,), name="end", daemon=True).start()

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        self._ended_by = number
        self.stop.set()

    def _pressed(self, _signal: int, _frame: FrameType | None) -> None:
        self.stop.set()
        if self._asked_at is None:
            self._asked_at = time.monotonic()
        elif self._raised:
            os._exit(130)
        elif time.monotonic() - self._asked_at > _PATIENCE:
            self._raised = True
            raise KeyboardInterrupt
