"""A few words side by side of which one is chosen. Knows not what they mean."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QWidget

from desktop.controls.buttons import Button


class Segments(QWidget):
    """A few words of which one is chosen, or none."""

    chosen = Signal(int)

    def __init__(self, words: list[str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("segments")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        row = QHBoxLayout(self)
        row.setContentsMargins(2, 2, 2, 2)
        row.setSpacing(2)
        self._group = QButtonGroup(self)
        for number, word in enumerate(words):
            button = Button(word, kind="segment")
            button.setCheckable(True)
            self._group.addButton(button, number)
            row.addWidget(button, 1)
        self._group.idClicked.connect(self.chosen)

    def choose(self, number: int | None) -> None:
        """Shows a choice, or none."""
        self._group.setExclusive(False)
        for button in self._group.buttons():
            button.setChecked(self._group.id(button) == number)
        self._group.setExclusive(True)
