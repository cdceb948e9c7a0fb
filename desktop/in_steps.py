"""Does work that would hold up the event loop in steps, one a turn. Knows not what is done."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QObject, QTimer


class InSteps(QObject):
    """Takes the next step of a generator in each turn of the event loop; a step that raises is the last one."""

    def __init__(self, steps: Iterator[None], parent: QObject) -> None:
        super().__init__(parent)
        self._steps = steps
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._next)
        self._timer.start(0)

    def _next(self) -> None:
        if next(self._steps, self) is not self:
            self._timer.start(0)

    def stop(self) -> None:
        """Takes no more steps."""
        self._timer.stop()
