"""The list of keyboard shortcuts, over the window until a key or a click sends it away."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QVBoxLayout, QWidget

from desktop import fonts
from desktop.actions import shown_shortcuts
from desktop.controls.buttons import Words
from desktop.theme import Space, current_theme
from runtime.text import _


class ShortcutsCard(QFrame):
    """Two columns of what, and which keys."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("kind", "popup")
        self.setAccessibleName(_("Keyboard shortcuts"))
        title = Words(_("Keyboard shortcuts"), wrap=False)
        title.setFont(fonts.strong())
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.WIDE, Space.LARGE, Space.WIDE, Space.LARGE)
        column.setSpacing(Space.MEDIUM)
        column.addWidget(title)
        column.addLayout(self._table())

    def _table(self) -> QGridLayout:
        table = QGridLayout()
        table.setHorizontalSpacing(Space.HUGE)
        table.setVerticalSpacing(Space.SMALL)
        shown = shown_shortcuts()
        height = (len(shown) + 1) // 2  # side by side, so that the list fits a small screen
        for number, (words, keys) in enumerate(shown):
            row, column = number % height, 2 * (number // height)
            table.addWidget(Words(words, wrap=False), row, column)
            key = Words(keys, tone="quiet", wrap=False)
            key.setFont(current_theme().code_font)
            table.addWidget(key, row, column + 1, Qt.AlignmentFlag.AlignRight)
        return table

    def open_over(self, window: QWidget) -> None:
        """Shows the card in the middle of a window."""
        self.adjustSize()
        place = window.mapToGlobal(window.rect().center()) - QPoint(self.width() // 2, self.height() // 2)
        self.move(place)
        self.show()
        self.setFocus()

    def keyPressEvent(self, _event: object) -> None:
        self.close()
