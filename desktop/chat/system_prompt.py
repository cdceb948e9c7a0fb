"""The system prompt of a chat, in a panel that unfolds under the header. Says what was written; keeps nothing."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QVBoxLayout, QWidget

from desktop.chat.plain_text import cleaned
from desktop.controls.buttons import Words
from desktop.theme import Space, current_theme
from runtime.text import _

_SAVE_MS = 500


class SystemPromptPanel(QFrame):
    """A field for instructions; `edited` follows shortly after the last key."""

    edited = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.edit = QPlainTextEdit()
        self.edit.setProperty("kind", "field")
        self.edit.setTabChangesFocus(True)
        self.edit.setAccessibleName(_("System prompt"))
        self.edit.setPlaceholderText(_("For example: Answer in one short sentence."))
        self.edit.setFixedHeight(4 * self.edit.fontMetrics().lineSpacing() + Space.LARGE)
        explanation = Words(_("Instructions that the model reads before every message of this chat."), tone="quiet")
        explanation.setFont(current_theme().quiet_font)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.MEDIUM, Space.MEDIUM, Space.MEDIUM, Space.MEDIUM)
        column.setSpacing(Space.SMALL)
        title = Words(_("System prompt"))
        column.addWidget(title)
        column.addWidget(self.edit)
        column.addWidget(explanation, 0, Qt.AlignmentFlag.AlignTop)
        self._later = QTimer(self, singleShot=True, interval=_SAVE_MS)
        self._later.timeout.connect(self._announce)
        self.edit.textChanged.connect(lambda: self._later.start())
        self.hide()

    @property
    def text(self) -> str:
        """What is written."""
        return cleaned(self.edit.toPlainText())

    def set_text(self, text: str) -> None:
        """Shows another chat's prompt; that is no edit."""
        if text != self.text:
            self.edit.blockSignals(True)
            self.edit.setPlainText(text)
            self.edit.blockSignals(False)
        self._later.stop()

    def commit(self) -> None:
        """Announces at once what still waits."""
        if self._later.isActive():
            self._later.stop()
            self._announce()

    def _announce(self) -> None:
        self.edited.emit(self.text)
