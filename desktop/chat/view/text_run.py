"""One piece of text laid out with QTextLayout: lines, hits, selection. Knows no block and no message."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QFont, QFontMetricsF, QPainter, QTextCharFormat, QTextLayout, QTextLine, QTextOption

from desktop.chat.view.blocks import displayable, utf16_length
from desktop.chat.view.formulas import Drawn
from desktop.chat.view.style import format_range, pitch_of

_WRAP = QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere
_TAB_COLUMNS = 4
_HANG_COLUMNS = 2
# A letter stretched to the drawing's width stands for it, and joiners without width for the rest of its source, so
# that every position means the same in the source and in the layout.
_STAND_IN, _JOINER = "x", "\u2060"
_AIR = 2.0  # above and below a drawing taller than its line


class TextRun:
    """Text at (`x`, `y`) inside its segment; `base` is its first position in its block, in UTF-16 units."""

    def __init__(self, text: str, *, base: int = 0, x: float = 0.0, y: float = 0.0) -> None:
        self.text = text
        self.base = base
        self.x = x
        self.y = y
        self.height = 0.0
        self.width = 0.0  # of the longest line
        self.length = utf16_length(text)
        self.rtl = False
        self._mixed = not text.isascii() and any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in text)
        self._pitch = 0.0
        self._layout: QTextLayout | None = None
        self._tops: list[float] = []
        self._heights: list[float] = []
        self._drawn: Sequence[Drawn] = ()

    def lay(
        self, *, width: float, font: QFont, formats: Sequence[QTextLayout.FormatRange] = (), rtl: bool = False,
        align: float = 0.0, hanging: bool = False, drawn: Sequence[Drawn] = (),
    ) -> None:  # fmt: skip
        """Breaks the text in lines. `align` is 0 for left, 0.5 for the middle, 1 for right.

        With `hanging`, what does not fit in a line goes on below it where the line's own indentation ends. `drawn`
        are drawings instead of parts of the text, in order.
        """
        self.rtl = rtl
        self._drawn = drawn
        layout = QTextLayout(self._with_stand_ins(), font)
        option = QTextOption()
        option.setWrapMode(_WRAP)
        option.setTextDirection(Qt.LayoutDirection.RightToLeft if rtl else Qt.LayoutDirection.LeftToRight)
        option.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute)
        option.setTabStopDistance(_TAB_COLUMNS * QFontMetricsF(font).horizontalAdvance(" "))
        layout.setTextOption(option)
        layout.setFormats([*formats, *(_stand_in_format(one, font) for one in drawn)])
        layout.setCacheEnabled(True)
        self._pitch = pitch_of(font)
        self._layout = layout
        self._break_lines(layout, width, font, 1.0 if rtl else align, self._hangs(font, width) if hanging else {})

    def _with_stand_ins(self) -> str:
        shown = displayable(self.text)
        if not self._drawn:
            return shown
        units, at, parts = shown.encode("utf-16-le"), 0, []
        for one in self._drawn:
            parts += [units[2 * at : 2 * one.start].decode("utf-16-le"), _STAND_IN, _JOINER * (one.end - one.start - 1)]
            at = one.end
        return "".join(parts) + units[2 * at :].decode("utf-16-le")

    def _hangs(self, font: QFont, width: float) -> dict[int, float]:
        """Returns where the rest of each indented line stands, by the line's first position."""
        hangs: dict[int, float] = {}
        at = 0
        column = QFontMetricsF(font).horizontalAdvance(" ")
        for line in self.text.split("\n"):
            tabbed = line.expandtabs(_TAB_COLUMNS)
            indent = (len(tabbed) - len(tabbed.lstrip(" ")) + _HANG_COLUMNS) * column
            hangs[at] = min(indent, width / 2)
            at += utf16_length(line) + 1
        return hangs

    def _break_lines(
        self, layout: QTextLayout, width: float, font: QFont, align: float, hangs: dict[int, float]
    ) -> None:
        metrics = QFontMetricsF(font)
        baseline = (self._pitch + metrics.ascent() - metrics.descent()) / 2
        self._tops, self._heights = [], []
        self.width = 0.0
        layout.beginLayout()
        top = hang = 0.0
        while (line := layout.createLine()).isValid():
            goes_on = line.textStart() not in hangs
            left = hang if goes_on else 0.0
            hang = hang if goes_on else hangs[line.textStart()]
            line.setLineWidth(width - left)
            natural = line.naturalTextWidth()
            x = left + max(0.0, width - natural) * align
            above, below = self._room(line, baseline)
            line.setPosition(QPointF(x, round(top + above - line.ascent())))
            self._tops.append(top)
            self._heights.append(above + below)
            self.width = max(self.width, left + natural)
            top += above + below
        layout.endLayout()
        self.height = max(top, self._pitch)

    def _room(self, line: QTextLine, baseline: float) -> tuple[float, float]:
        """Returns how far a line reaches above and below its baseline; more than usual for tall drawings."""
        above, below = baseline, self._pitch - baseline
        for one in self._drawn:
            if line.textStart() <= one.start < line.textStart() + line.textLength():
                above = max(above, float(round(one.drawing.ascent * one.scale + _AIR)))
                below = max(below, float(round(one.drawing.descent * one.scale + _AIR)))
        return above, below

    def drop(self) -> None:
        """Forgets the lines, not the height."""
        self._layout = None

    def hit(self, point: QPointF) -> int:
        """Returns the position in the block nearest to a point of the segment."""
        line = self._line_at(point.y() - self.y)
        if line is None:
            return self.base
        at = int(line.xToCursor(point.x() - self.x))
        if (whole := self._around(at)) is not None:
            return self.base + whole[at > whole[0]]
        if at == line.textStart() + line.textLength() and line.lineNumber() < len(self._tops) - 1:
            at = max(line.textStart(), self._before(at))
        return self.base + at

    def _around(self, at: int) -> tuple[int, int] | None:
        """Returns the range of the drawing that a position is inside of."""
        return next(((one.start, one.end) for one in self._drawn if one.start < at < one.end), None)

    def unit_at(self, at: int) -> tuple[int, int] | None:
        """Returns the range of the drawing at a position of the block: it can only be chosen as a whole."""
        at -= self.base
        found = next(((one.start, one.end) for one in self._drawn if one.start <= at < one.end), None)
        return None if found is None else (self.base + found[0], self.base + found[1])

    def _before(self, at: int) -> int:
        assert self._layout is not None
        return self._layout.previousCursorPosition(at)

    def inside(self, point: QPointF) -> int | None:
        """Returns the position of the character under a point, None beside the text."""
        line = self._line_at(point.y() - self.y)
        if line is None or not line.naturalTextRect().adjusted(0, -4, 0, 4).contains(point - QPointF(self.x, self.y)):
            return None
        return self.base + int(line.xToCursor(point.x() - self.x, QTextLine.CursorPosition.CursorOnCharacter))

    def _line_at(self, y: float) -> QTextLine | None:
        if self._layout is None or not self._tops:
            return None
        return self._layout.lineAt(max(bisect_right(self._tops, y) - 1, 0))

    def end_point(self) -> QRectF:
        """Returns where a caret after the last character stands, in the segment."""
        if self._layout is None or not self._tops:
            return QRectF(self.x, self.y, 2, self._pitch)
        line = self._layout.lineAt(len(self._tops) - 1)
        x = _x(line, line.textStart() + line.textLength())
        return QRectF(self.x + x, self.y + self._tops[-1], 2, self._heights[-1])

    def rects(self, start: int, end: int) -> list[QRectF]:
        """Returns the rectangles of a range of the block, one a line, in the segment."""
        first, last = max(0, start - self.base), min(self.length, end - self.base)
        if self._layout is None or first >= last:
            return []
        first, last = (self._around(first) or (first,))[0], (self._around(last) or (last,))[-1]
        found = []
        for number, top in enumerate(self._tops):
            line = self._layout.lineAt(number)
            begin, finish = max(first, line.textStart()), min(last, line.textStart() + line.textLength())
            if begin < finish:
                edges = sorted((_x(line, begin), _x(line, finish)))
                found.append(QRectF(self.x + edges[0], self.y + top, edges[1] - edges[0], self._heights[number]))
        return found

    def draw(self, painter: QPainter, origin: QPointF, clip: QRectF, selection: tuple[int, int], brush: QBrush) -> None:
        """Paints the lines that meet `clip`; `selection` is a range of the block, empty where nothing is selected."""
        if self._layout is None:
            return
        ranges = []
        if selection[0] < selection[1] and self._mixed:
            ranges = self._selected_format(selection, brush)
        elif selection[0] < selection[1]:
            for rect in self.rects(*selection):
                painter.fillRect(rect.translated(origin), brush)
        self._layout.draw(painter, origin + QPointF(self.x, self.y), ranges, clip)
        self._draw_drawings(self._layout, painter, origin + QPointF(self.x, self.y))

    def _draw_drawings(self, layout: QTextLayout, painter: QPainter, corner: QPointF) -> None:
        for one in self._drawn:
            line = layout.lineForTextPosition(one.start)
            top = line.y() + line.ascent() - one.drawing.ascent * one.scale
            picture = one.drawing.pixmap(painter.pen().color())
            left = min(_x(line, one.start), _x(line, one.start + 1))  # the other way round in right-to-left text
            place = QRectF(left, top, one.drawing.width * one.scale, 0).translated(corner)
            place.setHeight((one.drawing.ascent + one.drawing.descent) * one.scale)
            if one.scale == 1.0:
                painter.drawPixmap(_on_device(place.topLeft(), painter), picture)
            else:
                painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
                painter.drawPixmap(place, picture, QRectF(picture.rect()))

    def _selected_format(self, selection: tuple[int, int], brush: QBrush) -> list[QTextLayout.FormatRange]:
        made = QTextCharFormat()
        made.setBackground(brush)
        start, end = max(0, selection[0] - self.base), min(self.length, selection[1] - self.base)
        return [format_range(start, end, made)] if start < end else []


def _stand_in_format(one: Drawn, font: QFont) -> QTextLayout.FormatRange:
    made = QTextCharFormat()
    made.setForeground(Qt.GlobalColor.transparent)
    made.setFontLetterSpacingType(QFont.SpacingType.AbsoluteSpacing)
    made.setFontLetterSpacing(one.drawing.width * one.scale - QFontMetricsF(font).horizontalAdvance(_STAND_IN))
    return format_range(one.start, one.start + 1, made)


def _on_device(point: QPointF, painter: QPainter) -> QPointF:
    """Returns the nearest point that lies on a pixel of the device, where a drawing is as sharp as it was made."""
    on_device = painter.deviceTransform().map(point)
    whole = QPointF(round(on_device.x()), round(on_device.y()))
    return painter.deviceTransform().inverted()[0].map(whole)


def _x(line: QTextLine, position: int) -> float:
    x: Any = line.cursorToX(position)  # the binding also returns the position
    return float(x[0] if isinstance(x, tuple) else x)
