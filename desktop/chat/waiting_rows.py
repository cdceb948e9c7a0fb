"""Messages that wait for an answer to end, as bubbles over the composer. Knows no session."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from desktop.chat.plain_text import one_line
from desktop.controls.buttons import ElidedWords, IconButton, Words
from desktop.theme import Space, current_theme
from runtime.text import _

_TIP = 500  # characters of a message that its tooltip shows


class WaitingRow(QFrame):
    """One message: what it says, and how to get it back."""

    edit_requested = Signal()
    remove_requested = Signal()

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "chip")
        label, words = Words(_("Next:"), tone="quiet", wrap=False), ElidedWords(one_line(text, limit=_TIP))
        label.setFont(current_theme().quiet_font)
        self.setAccessibleName(_("This message waits for the answer: {text}").format(text=one_line(text)))
        self.edit = IconButton("edit", _("Edit the waiting message"))
        self.remove = IconButton("close", _("Do not send it"))
        self.edit.clicked.connect(self.edit_requested)
        self.remove.clicked.connect(self.remove_requested)
        row = QHBoxLayout(self)
        row.setContentsMargins(Space.MEDIUM, 0, 0, 0)
        row.setSpacing(Space.SMALL)
        row.addWidget(label)
        row.addWidget(words, 1)
        row.addWidget(self.edit)
        row.addWidget(self.remove)


class WaitingRows(QWidget):
    """All waiting messages of the chat that is shown, the next one first; hidden where none waits."""

    edit_requested = Signal(int)
    remove_requested = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows: list[WaitingRow] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(Space.TINY)
        self.hide()

    def show_texts(self, texts: Sequence[str]) -> None:
        """Shows these messages."""
        for row in self.rows:
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self.rows = [self._made(number, text) for number, text in enumerate(texts)]
        self.setVisible(bool(texts))

    def _made(self, number: int, text: str) -> WaitingRow:
        row = WaitingRow(text)
        row.edit_requested.connect(lambda: self.edit_requested.emit(number))
        row.remove_requested.connect(lambda: self.remove_requested.emit(number))
        self._column.addWidget(row)
        return row
