"""The bar that finds words in the chat that is shown: a field, how many, next and previous. Knows no layout."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QKeyCombination, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from desktop.controls.buttons import IconButton, SearchField, Words
from desktop.human import whole_number
from desktop.theme import Space, current_theme
from runtime.text import _

_FIELD_WIDTH = 220
_COUNT_WIDTH = 110


class FindField(SearchField):
    """Enter and F3 go on, with Shift back; Esc closes the bar, and is kept from the window's own shortcut."""

    stepped = Signal(int)
    left = Signal()

    def event(self, event: QEvent) -> bool:
        ours = isinstance(event, QKeyEvent) and event.key() in (Qt.Key.Key_Escape, Qt.Key.Key_F3)
        if ours and event.type() == QEvent.Type.ShortcutOverride:
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if event.key() == Qt.Key.Key_Escape:
            self.left.emit()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_F3):
            self.stepped.emit(-1 if back else 1)
        elif event.keyCombination() in (QKeyCombination(Qt.Key.Key_Up), QKeyCombination(Qt.Key.Key_Down)):
            self.stepped.emit(-1 if event.key() == Qt.Key.Key_Up else 1)
        else:
            super().keyPressEvent(event)


class FindBar(QFrame):
    """Floats over the conversation's upper corner."""

    words_changed = Signal(str)
    stepped = Signal(int)  # 1 to the next, -1 to the one before
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "popup")
        self.setAccessibleName(_("Find in this chat"))
        self.field = FindField(_("Find in this chat"))
        self.field.setMaximumWidth(_FIELD_WIDTH)
        self.count = Words("", tone="quiet", wrap=False)
        self.count.setFont(current_theme().quiet_font)
        self.count.setFixedWidth(_COUNT_WIDTH)
        self.previous, self.next = IconButton("chevron_up", _("Previous")), IconButton("chevron_down", _("Next"))
        self.close_button = IconButton("close", _("Close"))
        self._lay_out()
        self._connect()
        self.hide()

    def _lay_out(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(Space.SMALL, Space.TINY, Space.TINY, Space.TINY)
        row.setSpacing(Space.TINY)
        for part in (self.field, self.count, self.previous, self.next, self.close_button):
            row.addWidget(part)

    def _connect(self) -> None:
        self.field.textChanged.connect(self.words_changed)
        self.field.stepped.connect(self.stepped)
        self.field.left.connect(self.closed)
        self.previous.clicked.connect(lambda: self.stepped.emit(-1))
        self.next.clicked.connect(lambda: self.stepped.emit(1))
        self.close_button.clicked.connect(self.closed)

    @property
    def wide(self) -> int:
        """How wide it is where there is room."""
        return self.sizeHint().width() - self.field.sizeHint().width() + _FIELD_WIDTH

    def show_count(self, index: int, total: int, *, searching: bool) -> None:
        """Says which hit of how many is shown; more may come while `searching`."""
        for button in (self.previous, self.next):
            button.setEnabled(total > 0)
        if not self.field.text().strip():
            words = ""
        elif total:
            words = _("{index} of {total}").format(index=whole_number(index), total=whole_number(total))
            words += "…" if searching else ""
        else:
            words = _("Searching…") if searching else _("Not found")
        if words != self.count.text():
            self.count.setText(words)
            self.count.setAccessibleName(words)
