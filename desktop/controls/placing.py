"""Where something that lies over the window stands on the screen. Knows no widget."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QRect, QSize


def kept_inside(place: QPoint, size: QSize, room: QRect) -> QPoint:
    """Returns the place nearest to the one that is wanted at which all is inside `room`, or at least its beginning."""
    return QPoint(
        max(min(place.x(), room.x() + room.width() - size.width()), room.x()),
        max(min(place.y(), room.y() + room.height() - size.height()), room.y()),
    )
