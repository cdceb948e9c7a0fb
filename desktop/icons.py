"""Our own outline icons, tinted from the theme and crisp at every scale. Knows the drawings' names only."""

from __future__ import annotations

from functools import cache

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QGuiApplication, QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

import resources
from desktop.theme import Size, Theme


def icon(name: str, theme: Theme, *, colour: QColor | None = None, size: int = Size.ICON) -> QIcon:
    """Returns a drawing in `colour` (the text's where none is given), and in the disabled colour for that state."""
    made = QIcon()
    for ratio in _ratios():
        made.addPixmap(pixmap(name, colour or theme.text, size=size, ratio=ratio), QIcon.Mode.Normal)
        made.addPixmap(pixmap(name, theme.disabled, size=size, ratio=ratio), QIcon.Mode.Disabled)
    return made


def pixmap(name: str, colour: QColor, *, size: int = Size.ICON, ratio: float = 1.0) -> QPixmap:
    """Returns a drawing of `size` device-independent pixels for a screen with `ratio` pixels to each of them."""
    return _drawn(name, colour.name(), size, ratio)


def screen_ratio() -> float:
    """Returns the largest pixel ratio of the screens."""
    return max((screen.devicePixelRatio() for screen in QGuiApplication.screens()), default=1.0)


def _ratios() -> tuple[float, ...]:
    return tuple(sorted({1.0, screen_ratio()}))


@cache
def _drawn(name: str, colour: str, size: int, ratio: float) -> QPixmap:
    drawing = _drawing(name).replace("currentColor", colour)
    picture = QPixmap(QSize(round(size * ratio), round(size * ratio)))
    picture.setDevicePixelRatio(ratio)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    QSvgRenderer(QByteArray(drawing.encode())).render(painter, QRectF(0, 0, size, size))
    painter.end()
    return picture


@cache
def _drawing(name: str) -> str:
    return resources.read_text("icons", f"{name}.svg")
