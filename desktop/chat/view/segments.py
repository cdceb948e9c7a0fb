"""Blocks as segments that lay themselves out at a width and paint themselves. Knows no message and no scrolling.

A segment is small, so that laying one out never takes long: one paragraph, some lines of code, some rows of a table.
`segment_table` says which segments a kind of block becomes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QFont, QPainter

from desktop.chat.view.blocks import Block, BlockKind, Frame, FrameKind, Span, Style, is_right_to_left
from desktop.chat.view.links import Link
from desktop.chat.view.style import INDENT, QUOTE_INDENT, TextStyle, utf16_spans
from desktop.chat.view.text_run import TextRun

_BAR = 3.0  # of a quote
_MIDDLE = 0.5
_UNDERLINE = 2.0  # of the words that were gone to


@dataclass(frozen=True, slots=True)
class Mark:
    """Words that were found, in UTF-16 units of their block; `current` is the one that was gone to."""

    start: int
    end: int
    current: bool


@dataclass(slots=True)
class Canvas:
    """Where a segment paints: `clip` in the painter's coordinates. `marks` are those of the message, by block."""

    painter: QPainter
    style: TextStyle
    clip: QRectF
    marks: Mapping[int, Sequence[Mark]] = field(default_factory=dict)


class Segment:
    """One piece of a block. `height` is an estimate until `laid` has once been true; `gap` stands above it."""

    def __init__(self, block: Block, index: int) -> None:
        self.block = block
        self.index = index
        self.gap = 0.0
        self.height = 0.0
        self.laid = False
        self.rtl = False  # quotes and lists stand at the right
        self.column = 0.0  # the width it was laid out at
        self.unit = 1.0  # how much wider than usual lists stand in, where the text is larger
        self.waits = False  # for the drawing of a formula, which may have another size than its source
        self.joined = 0  # frames shared with the segment above, whose quote bars go on without a break
        self.runs: list[TextRun] = []

    base = 0  # first position in the block

    @property
    def indent(self) -> float:
        """Pixels that quotes and lists take at the left."""
        return sum(self._indent_of(frame) for frame in self.block.frames)

    def _indent_of(self, frame: Frame) -> float:
        return self.unit * INDENT if frame.kind is FrameKind.ITEM else QUOTE_INDENT

    def same_as(self, other: Segment) -> bool:
        """True where `other` would look the same, so that its layout can be kept."""
        mine = replace(self.block, start=0, end=0, follows_blank=False)
        return type(other) is type(self) and mine == replace(other.block, start=0, end=0, follows_blank=False)

    def estimate(self, style: TextStyle, width: float) -> None:
        """Guesses the height without laying out."""
        raise NotImplementedError

    def lay(self, style: TextStyle, width: float) -> None:
        """Lays out at a width of the column."""
        raise NotImplementedError

    def drop(self) -> None:
        """Frees the lines and keeps the height."""
        self.laid = False
        for run in self.runs:
            run.drop()

    def paint(self, canvas: Canvas, origin: QPointF, selection: tuple[int, int]) -> None:
        """Paints at `origin`, the segment's top left corner in the painter's coordinates."""
        self._paint_frames(canvas, origin)
        brush = QBrush(canvas.style.theme.selection)
        marks = canvas.marks.get(self.index, ())
        for run in self.runs:
            area = QRectF(origin.x() + run.x, origin.y() + run.y, 10_000, run.height)
            if area.intersects(canvas.clip):
                _paint_marks(canvas, origin, run, marks)
                run.draw(canvas.painter, origin, canvas.clip, selection, brush)

    def _paint_frames(self, canvas: Canvas, origin: QPointF) -> None:
        x = 0.0
        for depth, frame in enumerate(self.block.frames):
            if frame.kind is not FrameKind.ITEM:
                top = -self.gap if depth < self.joined else 0.0
                bar = self._mirrored(QRectF(x, top, _BAR, self.height - top))
                canvas.painter.fillRect(bar.translated(origin), canvas.style.theme.border)
                x += QUOTE_INDENT
                continue
            if frame.marker:
                self._paint_marker(canvas, origin, frame.marker, x)
            x += self._indent_of(frame)

    def _paint_marker(self, canvas: Canvas, origin: QPointF, marker: str, x: float) -> None:
        canvas.painter.setFont(canvas.style.chat_font)
        canvas.painter.setPen(canvas.style.theme.quiet)
        indent = self.unit * INDENT
        place = self._mirrored(QRectF(x - indent, 0, 2 * indent - 8, canvas.style.pitch)).translated(origin)
        side = Qt.AlignmentFlag.AlignLeft if self.rtl else Qt.AlignmentFlag.AlignRight
        upright = Qt.AlignmentFlag.AlignAbsolute | Qt.AlignmentFlag.AlignVCenter
        canvas.painter.drawText(place, side | upright, marker)

    def _mirrored(self, rect: QRectF) -> QRectF:
        if not self.rtl:
            return rect
        return QRectF(self.column - rect.right(), rect.y(), rect.width(), rect.height())

    def hit(self, point: QPointF) -> int:
        """Returns the position in the block nearest to a point of the segment."""
        near = min(self.runs, key=lambda run: _distance(run, point), default=None)
        return near.hit(point) if near is not None else self.base

    def link_at(self, point: QPointF) -> Link | None:
        """Returns the link under a point."""
        return None

    def caret(self) -> QRectF:
        """Returns where the end of the text is, in the segment."""
        return self.runs[-1].end_point() if self.runs else QRectF(self.indent, 0, 2, self.height)


def _paint_marks(canvas: Canvas, origin: QPointF, run: TextRun, marks: Sequence[Mark]) -> None:
    theme = canvas.style.theme
    for mark in marks:
        for rect in run.rects(mark.start, mark.end):
            place = rect.translated(origin)
            canvas.painter.fillRect(place, theme.found_now if mark.current else theme.found)
            if mark.current:
                canvas.painter.fillRect(place.adjusted(0, place.height() - _UNDERLINE, 0, 0), theme.accent)


def _distance(run: TextRun, point: QPointF) -> tuple[float, float]:
    below = max(run.y - point.y(), point.y() - run.y - run.height, 0.0)
    return below, max(run.x - point.x(), point.x() - run.x - run.width, 0.0)


class TextSegment(Segment):
    """A paragraph, a heading, or text as typed."""

    def _font(self, style: TextStyle) -> QFont:
        return style.heading_font(self.block.level) if self.block.kind is BlockKind.HEADING else style.chat_font

    def _spans(self) -> Sequence[Span]:
        return self.block.spans

    def estimate(self, style: TextStyle, width: float) -> None:
        self.height = estimated_lines(self.block.text, style.chat_advance, width - self.indent) * style.pitch

    def lay(self, style: TextStyle, width: float) -> None:
        heading = self.block.kind is BlockKind.HEADING
        self.rtl = is_right_to_left(self.block.text) and self.block.kind is not BlockKind.FORMULA
        self.column = width
        run = TextRun(self.block.text, x=0.0 if self.rtl else self.indent)
        room, font = max(width - self.indent, 40.0), self._font(style)
        look = style.dressed(self.block.text, self._spans(), font, room=room, heading=heading)
        align = _MIDDLE if look.drawn and self.block.kind is BlockKind.FORMULA else 0.0
        run.lay(width=room, font=font, formats=look.formats, rtl=self.rtl, align=align, drawn=look.drawn)
        self.runs, self.waits = [run], look.waits
        self.height = run.height
        self.laid = True

    def paint(self, canvas: Canvas, origin: QPointF, selection: tuple[int, int]) -> None:
        for run in self.runs:
            paint_code_grounds(canvas, origin, run, self.block.text, self.block.spans)
        super().paint(canvas, origin, selection)

    def _paint_frames(self, canvas: Canvas, origin: QPointF) -> None:
        super()._paint_frames(canvas, origin)
        theme = canvas.style.theme
        canvas.painter.setPen(theme.quiet if self.block.thought else theme.text)

    def link_at(self, point: QPointF) -> Link | None:
        found = (link_in(run, self.block.text, self.block.spans, point) for run in self.runs)
        return next((link for link in found if link is not None), None)


class FormulaSegment(TextSegment):
    """A formula on lines of its own, in the middle; its source where it cannot be drawn."""

    def _spans(self) -> Sequence[Span]:
        return (Span(0, len(self.block.text), Style.FORMULA),)

    def estimate(self, style: TextStyle, width: float) -> None:
        self.height = 2 * style.pitch


def paint_code_grounds(canvas: Canvas, origin: QPointF, run: TextRun, text: str, spans: Sequence[Span]) -> None:
    """Paints the rounded grounds of inline code."""
    code = [span for span in spans if span.style & Style.CODE]
    if not code:
        return
    painter = canvas.painter
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(canvas.style.theme.raised)
    for start, end, _span in utf16_spans(text, code):
        for rect in run.rects(run.base + start, run.base + end):
            painter.drawRoundedRect(rect.translated(origin).adjusted(-2, 2, 2, -2), 4, 4)
    painter.setBrush(Qt.BrushStyle.NoBrush)


def link_in(run: TextRun, text: str, spans: Sequence[Span], point: QPointF) -> Link | None:
    """Returns the link in `run` under a point."""
    links = [span for span in spans if span.href]
    at = run.inside(point) if links else None
    if at is None:
        return None
    under = (span for start, end, span in utf16_spans(text, links) if start <= at - run.base < end)
    return next((Link(span.href, text[span.start : span.end]) for span in under), None)


def estimated_lines(text: str, advance: float, width: float) -> int:
    """Guesses how many lines a text takes in a column of `width`; `advance` is the mean width of a letter."""
    return lines_in(text, columns_in(width, advance))


def columns_in(width: float, advance: float) -> float:
    """Returns how many letters stand beside each other."""
    return max(width / max(advance, 1.0), 8.0)


def lines_in(text: str, columns: float) -> int:
    """Guesses how many lines a text takes: letters of the mean width, ideographs of two."""
    weight = 1.0 if text.isascii() else 1.4
    return text.count("\n") + max(1, math.ceil(len(text) * weight / columns))


class RuleSegment(Segment):
    """A line across."""

    _HEIGHT: ClassVar[float] = 17.0

    def estimate(self, style: TextStyle, width: float) -> None:
        self.height = self._HEIGHT

    def lay(self, style: TextStyle, width: float) -> None:
        self.height = self._HEIGHT
        self.column = width
        self.laid = True

    def paint(self, canvas: Canvas, origin: QPointF, selection: tuple[int, int]) -> None:
        self._paint_frames(canvas, origin)
        line = QRectF(origin.x() + self.indent, origin.y() + 8, self.column - self.indent, 1)
        canvas.painter.fillRect(line, canvas.style.theme.border)
