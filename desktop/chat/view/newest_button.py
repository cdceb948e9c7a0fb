"""The small round button that brings the reader back to the newest text."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QWidget

from desktop import icons
from desktop.theme import Size, Theme
from runtime.text import _

_SIDE = 36


class NewestButton(QAbstractButton):
    """Floats over the conversation while the reader is away from its end."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # End does the same from the keyboard
        self.resize(self.sizeHint())
        self.retranslate()
        self.hide()

    def retranslate(self) -> None:
        """Takes its words in the current language."""
        self.setAccessibleName(_("Go to the newest text"))
        self.setToolTip(_("Go to the newest text"))

    def set_theme(self, theme: Theme) -> None:
        """Takes the colours of a theme."""
        self._theme = theme
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(_SIDE, _SIDE)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(self._theme.border, 1))
        painter.setBrush(self._theme.raised if self.underMouse() else self._theme.surface)
        circle = QRectF(self.rect()).adjusted(1, 1, -1, -1)
        painter.drawEllipse(circle)
        picture = icons.pixmap("chevron_down", self._theme.text, ratio=self.devicePixelRatioF())
        painter.drawPixmap(circle.center() - QPointF(Size.ICON / 2, Size.ICON / 2), picture)
        painter.end()
