"""How large the text of the conversation and of the composer is, remembered between starts. Knows no widget."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from desktop.state_file import StateFile

STEPS = (70, 80, 90, 100, 110, 125, 150, 175, 200, 225, 250)
_USUAL = 100
_KEY = "zoom"


class Zoom(QObject):
    """A percentage of the usual size."""

    changed = Signal(int)

    def __init__(self, state: StateFile, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._state = state
        kept = state.get(_KEY, _USUAL)
        known = isinstance(kept, int) and not isinstance(kept, bool)
        self.percent = min(max(kept, STEPS[0]), STEPS[-1]) if known else _USUAL

    def step(self, by: int) -> None:
        """Goes to the next larger size, or with -1 to the next smaller one."""
        larger = [step for step in STEPS if step > self.percent] if by > 0 else []
        smaller = [step for step in STEPS if step < self.percent] if by < 0 else []
        self._choose(larger[0] if larger else smaller[-1] if smaller else self.percent)

    def reset(self) -> None:
        """Goes back to the usual size."""
        self._choose(_USUAL)

    def _choose(self, percent: int) -> None:
        if percent != self.percent:
            self.percent = percent
            self._state.set(_KEY, percent)
            self.changed.emit(percent)
