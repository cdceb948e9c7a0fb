"""The list of keyboard shortcuts, over the window until a key or a click sends it away."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QVBoxLayout, QWidget

from desktop import fonts
from desktop.actions import shown_shortcuts
from desktop.controls.buttons import Words
from desktop.controls.placing import kept_inside
from desktop.theme import Space, current_theme
from runtime.text import _


class ShortcutsCard(QFrame):
    """What, and which keys: in two columns where the screen has room for them."""

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
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._show(self._made(side_by_side=2))
        column.addWidget(self._area, 1)

    def _show(self, body: QWidget) -> None:
        self._body = body
        self._area.setWidget(body)  # which lets go of the one before
        body.ensurePolished()  # only then do its words have their fonts, and it its width

    def _made(self, *, side_by_side: int) -> QWidget:
        body = QWidget()
        body.setObjectName("cardBody")
        table = QGridLayout(body)
        table.setContentsMargins(0, 0, Space.SMALL, 0)
        table.setHorizontalSpacing(Space.HUGE)
        table.setVerticalSpacing(Space.SMALL)
        shown = shown_shortcuts()
        height = -(-len(shown) // side_by_side)
        for number, (words, keys) in enumerate(shown):
            row, column = number % height, 2 * (number // height)
            table.addWidget(Words(words, wrap=False), row, column)
            key = Words(keys, tone="quiet", wrap=False)
            key.setFont(current_theme().code_font)
            table.addWidget(key, row, column + 1, Qt.AlignmentFlag.AlignRight)
        return body

    def open_over(self, window: QWidget) -> None:
        """Shows the card in the middle of a window."""
        room, frame = window.screen().availableGeometry(), self.sizeHint() - self._area.sizeHint()
        bar = self._area.verticalScrollBar().sizeHint().width() + 2 * Space.WIDE
        if frame.width() + self._body.sizeHint().width() + bar > room.width():
            self._show(self._made(side_by_side=1))
        body = self._body.sizeHint()
        width = min(frame.width() + body.width() + bar, room.width())
        self.resize(width, min(frame.height() + body.height(), room.height() - Space.HUGE))
        place = window.mapToGlobal(window.rect().center()) - QPoint(self.width() // 2, self.height() // 2)
        self.move(kept_inside(place, self.size(), room))
        self.show()
        if self._body.width() > self._area.viewport().width():  # some fonts are known only when they are shown
            self._show(self._made(side_by_side=1))
        self.setFocus()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar = self._area.verticalScrollBar()
        steps = {Qt.Key.Key_Down: bar.singleStep(), Qt.Key.Key_Up: -bar.singleStep(),
                 Qt.Key.Key_PageDown: bar.pageStep(), Qt.Key.Key_PageUp: -bar.pageStep()}  # fmt: skip
        if bar.maximum() and event.key() in steps:
            bar.setValue(bar.value() + steps[Qt.Key(event.key())])
        else:
            self.close()
