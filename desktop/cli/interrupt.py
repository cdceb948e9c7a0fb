"""Ctrl-C while an answer is written: the first ends the answer, a later one the command, one more the process."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType
from typing import Any, Self

from runtime.engine import StopFlag

_PATIENCE = 1.0  # seconds in which another Ctrl-C is the same wish, made impatiently


class Interrupts:
    """While entered, Ctrl-C sets `stop`, which also ends native work that Python's own exception could not reach."""

    def __init__(self) -> None:
        self.stop = StopFlag()
        self._asked_at = 0.0
        self._raised = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._pressed)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _pressed(self, _signal: int, _frame: FrameType | None) -> None:
        if not self.stop.is_set():
            self.stop.set()
            self._asked_at = time.monotonic()
        elif self._raised:
            os._exit(130)
        elif time.monotonic() - self._asked_at > _PATIENCE:
            self._raised = True
            raise KeyboardInterrupt
