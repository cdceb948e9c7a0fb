"""A field for plain text of any length: what composer and notebook have in common. Knows neither."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, Qt, Signal
from PySide6.QtGui import QFocusEvent, QTextOption
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QWidget


class PlainField(QPlainTextEdit):
    """Has no frame, wraps its lines, says when it is entered and left, and takes text that is pasted but no files."""

    focus_moved = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def set_hint(self, words: str) -> None:
        """Shows these words while nothing is written. Qt alone goes on showing older ones until it has to draw anew."""
        self.setPlaceholderText(words)
        self.viewport().update()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focus_moved.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focus_moved.emit(False)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasText() and not source.hasUrls()
