"""Watches Qt's event loop: what each turn costs the window's thread, and what was done in the longest. Knows no window.

The dispatcher says when a turn begins. Only the thread's own processor time counts, so that other work on the machine
does not; a second thread looks now and then at what a long turn is doing, so that it can be named.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType

from PySide6.QtCore import QAbstractEventDispatcher

_ROOT = str(Path(__file__).resolve().parents[2])
_LOOK_SECONDS = 0.02


class LoopWatch:
    """Keeps the longest turn, in milliseconds, and where it was; to be made in the thread of the loop."""

    def __init__(self) -> None:
        self.longest, self.where = 0.0, ""
        self.turns = 0
        self._last = time.thread_time()
        self._seen = ""
        self._main = threading.get_ident()
        dispatcher = QAbstractEventDispatcher.instance()
        assert dispatcher is not None, "there is no event loop in this thread"
        dispatcher.awake.connect(self._turn)
        self._over = threading.Event()
        self._looker = threading.Thread(target=self._look, name="loop watch", daemon=True)
        self._looker.start()

    def forget(self) -> None:
        """Begins anew: what was done before this moment no longer counts."""
        self.longest, self.where, self._seen = 0.0, "", ""
        self._last = time.thread_time()

    def close(self) -> None:
        """Ends the second thread."""
        self._over.set()
        self._looker.join()

    def _turn(self) -> None:
        now = time.thread_time()
        spent, self._last = 1000 * (now - self._last), now
        self.turns += 1
        seen, self._seen = self._seen, ""
        if spent > self.longest:
            self.longest, self.where = spent, seen

    def _look(self) -> None:
        turn = -1
        while not self._over.wait(_LOOK_SECONDS):
            frame = sys._current_frames().get(self._main)
            if frame is not None and self.turns == turn and (place := _ours(frame)):
                self._seen = place
            turn = self.turns


def _ours(frame: FrameType) -> str:
    """Returns the innermost places in the project's own code, innermost first; empty where nothing of it runs."""
    places = [
        f"{Path(entry.filename).stem}:{entry.lineno} {entry.name}"
        for entry in traceback.extract_stack(frame)
        if entry.filename.startswith(_ROOT) and "/tests/" not in entry.filename and "site-packages" not in entry.filename
    ]
    return " < ".join(reversed(places[-4:]))
