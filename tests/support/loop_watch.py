"""Watches Qt's event loop: what each turn costs the window's thread, and what was done in the longest. Knows no window.

The dispatcher says when a turn begins. Only the thread's own processor time counts, so that other work on the machine
does not; a second thread looks now and then at what a long turn is doing, so that it can be named.
"""

from __future__ import annotations

import faulthandler
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PySide6.QtCore import QAbstractEventDispatcher
from PySide6.QtGui import QTextDocument

_ROOT = str(Path(__file__).resolve().parents[2])
_LOOK_SECONDS = 0.02
_PIECES, _PIECE = 5, "Grain by grain the old mill grinds. " * 400


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

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves out what a test does itself, in the middle of a turn."""
        self._turn()
        yield
        self._last, self._seen = time.thread_time(), ""

    def pace(self) -> float:
        """Returns what a known piece of work costs this thread now, in milliseconds.

        Processor time itself grows where a virtual machine gets less than it thinks, or others take the caches.
        """
        costs = []
        with self.paused():
            for _ in range(_PIECES):
                began = time.thread_time()
                document = QTextDocument(_PIECE)
                document.setTextWidth(400)
                document.size()
                costs.append(1000 * (time.thread_time() - began))
        return sorted(costs)[_PIECES // 2]

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
        with tempfile.TemporaryFile("w+") as file:
            while not self._over.wait(_LOOK_SECONDS):
                if self.turns == turn:
                    file.seek(0)
                    file.truncate()
                    faulthandler.dump_traceback(file, all_threads=True)  # holds no frame: painters must end in time
                    file.seek(0)
                    self._seen = _ours(file.read(), self._main) or self._seen
                turn = self.turns


def _ours(stacks: str, thread: int) -> str:
    """Returns the innermost places of a thread in the project's own code; empty where nothing of it runs."""
    of_thread = stacks.partition(f"hread 0x{thread:016x}")[2].partition("\n\n")[0]
    places = re.findall(rf'File "{re.escape(_ROOT)}/(?!tests/|\.venv/)([^"]+)", line (\d+) in (\w+)', of_thread)
    return " < ".join(f"{path}:{line} {name}" for path, line, name in places[:4])
