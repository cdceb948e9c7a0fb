"""The line above an answer that says how long the model thought, and unfolds what it thought. Knows no clock."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF

from desktop import icons
from desktop.chat.view.blocks import displayable
from desktop.chat.view.message_model import ChatItem, ItemState
from desktop.chat.view.segments import Canvas, Segment
from desktop.chat.view.style import TextStyle
from desktop.theme import Size, Space
from runtime.text import _, ngettext

_ICON = 16.0
_LONG = 100  # seconds from which minutes are enough


class ReasoningSegment(Segment):
    """A chevron, words, and while the model thinks the newest line of it. `words` come from `reasoning_words`."""

    words = ""
    unfolded = False
    hovered = False

    def estimate(self, style: TextStyle, width: float) -> None:
        self.height = float(max(Size.BUTTON - Space.TINY, style.quiet_pitch))

    def lay(self, style: TextStyle, width: float) -> None:
        self.estimate(style, width)
        self.column = width
        self.laid = True

    def button(self, style: TextStyle) -> QRectF:
        """Returns what can be clicked, in the segment: the chevron and the words."""
        return QRectF(-Space.TINY, 0, _ICON + 3 * Space.TINY + self._words_width(style), self.height)

    def _words_width(self, style: TextStyle) -> float:
        return QFontMetricsF(style.quiet_font).horizontalAdvance(self.words)

    def paint(self, canvas: Canvas, origin: QPointF, selection: tuple[int, int]) -> None:
        painter, style = canvas.painter, canvas.style
        colour = style.theme.text if self.hovered else style.theme.quiet
        drawing = "chevron_down" if self.unfolded else "chevron_right"
        ratio = painter.device().devicePixelRatio()
        picture = icons.pixmap(drawing, colour, size=int(_ICON), ratio=ratio)
        painter.drawPixmap(QPointF(origin.x(), round(origin.y() + (self.height - _ICON) / 2)), picture)
        painter.setFont(style.quiet_font)
        painter.setPen(colour)
        left = _ICON + Space.TINY
        room = QRectF(origin.x() + left, origin.y(), self.column - left, self.height)
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.words)
        if self.block.label:
            self._paint_label(canvas, room.adjusted(self._words_width(style) + Space.MEDIUM, 0, 0, 0))

    def _paint_label(self, canvas: Canvas, room: QRectF) -> None:
        """The end of the newest line, so that what is being thought can be seen passing by."""
        metrics = QFontMetricsF(canvas.style.quiet_font)
        text = metrics.elidedText(displayable(self.block.label), Qt.TextElideMode.ElideLeft, room.width())
        canvas.painter.setPen(canvas.style.theme.quiet)
        canvas.painter.drawText(room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, text)

    def caret(self) -> QRectF:
        return QRectF()


def reasoning_words(item: ChatItem, *, closed: bool) -> str:
    """Returns what the line says: that the model thinks, how long it did, or that it was cut off."""
    if not closed and item.state is ItemState.STREAMING:
        return _("Thinking…")
    if not closed:
        return _("The reasoning was cut off")
    seconds = round(item.thought_seconds)
    if seconds < 1:
        return _("Thought for a moment") if item.thought_seconds else _("Thought before answering")
    if seconds < _LONG:
        return ngettext("Thought for {n} second", "Thought for {n} seconds", seconds).format(n=seconds)
    minutes = round(seconds / 60)
    return ngettext("Thought for {n} minute", "Thought for {n} minutes", minutes).format(n=minutes)
