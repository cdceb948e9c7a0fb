"""Ctrl-C while an answer is written: the first ends the answer, the second the command, the third the process."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, Self

from runtime.engine import StopFlag


class Interrupts:
    """While entered, Ctrl-C sets `stop`, which also ends native work that Python's own exception could not reach."""

    def __init__(self) -> None:
        self.stop = StopFlag()
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._pressed)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _pressed(self, _signal: int, _frame: FrameType | None) -> None:
        self.count += 1
        self.stop.set()
        if self.count == 2:
            raise KeyboardInterrupt
        if self.count > 2:
            os._exit(130)
