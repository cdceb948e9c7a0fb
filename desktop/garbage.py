"""Python's cyclic garbage is collected in the window's thread alone.

Left to itself, Python collects in whichever thread happens to allocate: a widget in a reference cycle would then be
destroyed by the thread that writes a file, and Qt objects may only be destroyed where they live.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QAbstractEventDispatcher, QObject, QTimer

_QUIET_MS = 1000  # a whole collection takes as long as a stutter: it waits until nothing has happened for so long
_MOST_PUT_OFF = 20  # times its threshold


class MainThreadGarbage(QObject):
    """Collects whenever the event loop has nothing else to do and Python's own thresholds are reached.

    Nothing polls: while the window sleeps, nothing is allocated here either.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._thresholds = gc.get_threshold()
        gc.disable()
        dispatcher = QAbstractEventDispatcher.instance()
        assert dispatcher is not None, "there is no event loop in this thread"
        dispatcher.aboutToBlock.connect(self._collect_due)
        self._when_quiet = QTimer(self, singleShot=True, interval=_QUIET_MS)
        self._when_quiet.timeout.connect(self._collect_all)

    def settle(self) -> None:
        """Takes what exists now (modules, widgets) out of every later collection: it stays anyway."""
        gc.collect()
        gc.freeze()

    def close(self) -> None:
        """Gives collecting back to Python."""
        gc.unfreeze()
        gc.enable()

    def _collect_due(self) -> None:
        counts = gc.get_count()
        if counts[2] > _MOST_PUT_OFF * self._thresholds[2]:
            self._collect_all()
        elif counts[2] > self._thresholds[2]:
            self._when_quiet.start()
        for generation in (1, 0):
            if counts[generation] > self._thresholds[generation]:
                gc.collect(generation)
                return

    def _collect_all(self) -> None:
        self._when_quiet.stop()
        gc.collect()
