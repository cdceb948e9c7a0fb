"""The field for plain text: what Qt's own would leave undone."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QRect
from PySide6.QtGui import QPaintEvent
from pytestqt.qtbot import QtBot

from desktop.controls.plain_field import PlainField


class Painted(QObject):
    """Keeps what was drawn anew of a widget."""

    def __init__(self) -> None:
        super().__init__()
        self.rects: list[QRect] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QPaintEvent):
            self.rects.append(event.rect())
        return False


def test_a_new_hint_is_drawn_at_once(qtbot: QtBot) -> None:
    field, painted = PlainField(), Painted()
    qtbot.addWidget(field)
    field.set_hint("Message, sent when the answer is finished")
    with qtbot.waitExposed(field):
        field.show()
    field.viewport().installEventFilter(painted)
    qtbot.wait(50)
    painted.rects.clear()

    field.set_hint("Message")

    qtbot.waitUntil(lambda: field.viewport().rect() in painted.rects)
