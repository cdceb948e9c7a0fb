"""The window's outermost widget: its place on the screen, its title, and a sketch of itself until it is furnished.

Light on purpose: it is painted before the rest of the application is even imported. Knows nothing of what is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QByteArray, QEvent, QRectF, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from desktop.state_file import StateFile
from desktop.theme import Corner, Size, Space, current_theme

STATE_KEY = "window"
_LEAST = (600, 340)  # a screen of 1280 × 720 at 200 %, without its panels
_FIRST = (1120, 760)
_HEADER = Size.BUTTON + 2 * Space.SMALL
_COMPOSER = Size.BUTTON + 2 * Space.SMALL + 2
_METER = Space.WIDE + Space.SMALL


class Shell(QWidget):
    """The window. `closing` comes when it is closed, before anything is gone."""

    painted = Signal()  # once
    furnished = Signal()  # once: everything is there and works
    closing = Signal()

    def __init__(self, state: StateFile) -> None:
        super().__init__()
        self._state = state
        self._content: QWidget | None = None
        self.may_close: Callable[[], bool] = lambda: True  # asked before the window is closed by a person
        known = state.get(STATE_KEY)
        self._kept: dict[str, Any] = known if isinstance(known, dict) else {}
        self.setWindowTitle("Quern")
        self.setMinimumSize(*_LEAST)
        self._restore()

    def _restore(self) -> None:
        geometry = QByteArray.fromBase64(str(self._kept.get("geometry", "")).encode())
        if geometry.isEmpty() or not self.restoreGeometry(geometry):
            self.resize(*_FIRST)

    def furnish(self, content: QWidget) -> None:
        """Puts a widget in the window, in place of the one before."""
        layout = self.layout()
        if layout is None:
            layout = QVBoxLayout(self)
            layout.setContentsMargins(0, 0, 0, 0)
        older, self._content = self._content, content
        layout.addWidget(content)
        content.show()
        if older is not None:
            layout.removeWidget(older)
            older.hide()
            older.deleteLater()

    def close_now(self) -> None:
        """Closes the window without asking anybody."""
        self.may_close = lambda: True
        self.close()

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self.may_close():
            event.ignore()
            return
        geometry = bytes(self.saveGeometry().toBase64().data()).decode()
        known = self._state.get(STATE_KEY)
        self._state.set(STATE_KEY, {**(known if isinstance(known, dict) else {}), "geometry": geometry})
        self.closing.emit()
        super().closeEvent(event)

    def event(self, event: QEvent) -> bool:
        done = super().event(event)
        if event.type() == QEvent.Type.Paint and not self.property("painted"):
            self.setProperty("painted", True)
            QTimer.singleShot(0, self.painted.emit)
        return done

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Where things will be, so that nothing jumps when they come."""
        theme, painter = current_theme(), QPainter(self)
        painter.fillRect(self.rect(), theme.window)
        if self._content is not None:
            return
        side = int(self._kept.get("sidebar_width", Size.SIDEBAR[1])) if self._kept.get("sidebar", True) else 0
        painter.fillRect(side, 0, 1, self.height(), theme.border)
        painter.fillRect(side, _HEADER - 1, self.width() - side, 1, theme.border)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(theme.border)
        painter.setBrush(theme.surface)
        painter.drawRoundedRect(self._composer_place(side), Corner.CARD, Corner.CARD)

    def _composer_place(self, side: int) -> QRectF:
        panel = int(self._kept.get("panel_width", Size.PANEL[1])) if self._kept.get("panel") else 0
        room = self.width() - side - panel
        width = min(Size.COLUMN, room - 2 * Space.WIDE)
        top = self.height() - _COMPOSER - _METER
        return QRectF(side + (room - width) / 2 + 0.5, top + 0.5, width - 1, _COMPOSER - 1)
