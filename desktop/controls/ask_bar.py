"""A question in its place instead of a dialog: a sentence, perhaps a field, the button that does it, and Cancel."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from desktop.controls.buttons import Button, Words
from desktop.theme import Space
from runtime.text import _


class AskBar(QFrame):
    """Asks one thing at a time; a new question takes the place of the one before. Esc is Cancel."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self._then: Callable[[str], object] | None = None
        self._words = Words()
        self.edit = QLineEdit()
        self.edit.returnPressed.connect(self._agree)
        self.agree = Button("", kind="primary")
        self.agree.clicked.connect(self._agree)
        self.cancel = Button(_("Cancel"))
        self.cancel.clicked.connect(self.dismiss)
        row = QHBoxLayout()
        row.addWidget(self.edit, 1)
        row.addStretch(0)
        row.addWidget(self.agree)
        row.addWidget(self.cancel)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.MEDIUM, Space.SMALL, Space.MEDIUM, Space.SMALL)
        column.setSpacing(Space.SMALL)
        column.addWidget(self._words)
        column.addLayout(row)
        self.hide()

    def ask(self, words: str, action: str, then: Callable[[str], object], *, text: str | None = None) -> None:
        """Shows a question; `then` gets what stands in the field, which is there where a `text` is given."""
        self._then = then
        self._words.setText(words)
        self.setAccessibleName(words)
        self.agree.setText(action)
        self.edit.setVisible(text is not None)
        self.edit.setText(text or "")
        self.edit.setAccessibleName(words)
        self.show()
        self.edit.selectAll()
        (self.edit if text is not None else self.agree).setFocus()

    def dismiss(self) -> None:
        """Takes the question away."""
        self._then = None
        self.hide()

    def _agree(self) -> None:
        then, text = self._then, self.edit.text()
        self.dismiss()
        if then is not None:
            then(text)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)
