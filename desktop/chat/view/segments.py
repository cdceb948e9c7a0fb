"""Blocks as segments that lay themselves out at a width and paint themselves. Knows no message and no scrolling.

A segment is small, so that laying one out never takes long: one paragraph, some lines of code, some rows of a table.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QFontMetricsF, QPainter, QPen

from desktop.chat.view.blocks import (
    Align, Block, BlockKind, FrameKind, Style, is_right_to_left, utf16_length,
)  # fmt: skip
from desktop.chat.view.style import (
    AFTER_HEADING, HEADING_GAP, INDENT, PARAGRAPH_GAP, QUOTE_INDENT, TIGHT_GAP, TextStyle, utf16_spans,
)  # fmt: skip
from desktop.chat.view.text_run import TextRun
from desktop.theme import Corner, Space

NO_SELECTION = (0, 0)


@dataclass(slots=True)
class Canvas:
    """Where a segment paints: `clip` in the painter's coordinates."""

    painter: QPainter
    style: TextStyle
    clip: QRectF


class Segment:
    """One piece of a block. `height` is an estimate until `laid` has once been true; `gap` stands above it."""

    def __init__(self, block: Block, index: int) -> None:
        self.block = block
        self.index = index
        self.gap = 0.0
        self.height = 0.0
        self.laid = False
        self.joined = 0  # frames shared with the segment above, whose quote bars go on without a break
        self.runs: list[TextRun] = []

    base = 0  # first position in the block

    @property
    def indent(self) -> float:
        """Pixels that quotes and lists take at the left."""
        return sum(INDENT if frame.kind is FrameKind.ITEM else QUOTE_INDENT for frame in self.block.frames)

    @property
    def length(self) -> int:
        """UTF-16 units from the first to the last position of its runs."""
        return self.runs[-1].base + self.runs[-1].length - self.base if self.runs else 0

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
        for run in self.runs:
            area = QRectF(origin.x() + run.x, origin.y() + run.y, 10_000, run.height)
            if area.intersects(canvas.clip):
                run.draw(canvas.painter, origin, canvas.clip, selection, brush)

    def _paint_frames(self, canvas: Canvas, origin: QPointF) -> None:
        x = origin.x()
        for depth, frame in enumerate(self.block.frames):
            if frame.kind is FrameKind.QUOTE:
                top = origin.y() - (self.gap if depth < self.joined else 0)
                bar = QRectF(x, top, 3, origin.y() + self.height - top)
                canvas.painter.fillRect(bar, canvas.style.theme.border)
                x += QUOTE_INDENT
                continue
            if frame.marker:
                canvas.painter.setFont(canvas.style.chat_font)
                canvas.painter.setPen(canvas.style.theme.quiet)
                place = QRectF(x - INDENT, origin.y(), 2 * INDENT - 8, canvas.style.pitch)
                right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
                canvas.painter.drawText(place, right, frame.marker)
            x += INDENT

    def hit(self, point: QPointF) -> int:
        """Returns the position in the block nearest to a point of the segment."""
        near = min(self.runs, key=lambda run: _distance(run, point), default=None)
        return near.hit(point) if near is not None else self.base

    def link_at(self, point: QPointF) -> str:
        """Returns the address of the link under a point, or nothing."""
        return ""

    def caret(self) -> QRectF:
        """Returns where the end of the text is, in the segment."""
        return self.runs[-1].end_point() if self.runs else QRectF(self.indent, 0, 2, self.height)


def _distance(run: TextRun, point: QPointF) -> tuple[float, float]:
    below = max(run.y - point.y(), point.y() - run.y - run.height, 0.0)
    return below, max(run.x - point.x(), point.x() - run.x - run.width, 0.0)


class TextSegment(Segment):
    """A paragraph, a heading, or text as typed."""

    def _font(self, style: TextStyle):  # type: ignore[no-untyped-def]
        return style.heading_font(self.block.level) if self.block.kind is BlockKind.HEADING else style.chat_font

    def estimate(self, style: TextStyle, width: float) -> None:
        self.height = estimated_lines(self.block.text, style.chat_advance, width - self.indent) * style.pitch

    def lay(self, style: TextStyle, width: float) -> None:
        heading = self.block.kind is BlockKind.HEADING
        run = TextRun(self.block.text, x=self.indent)
        run.lay(
            width=max(width - self.indent, 40.0), font=self._font(style),
            formats=style.ranges(self.block.text, self.block.spans, heading=heading),
            rtl=is_right_to_left(self.block.text),
        )  # fmt: skip
        self.runs = [run]
        self.height = run.height
        self.laid = True

    def paint(self, canvas: Canvas, origin: QPointF, selection: tuple[int, int]) -> None:
        for run in self.runs:
            paint_code_grounds(canvas, origin, run, self.block.text, self.block.spans)
        canvas.painter.setPen(canvas.style.theme.text)
        super().paint(canvas, origin, selection)

    def _paint_frames(self, canvas: Canvas, origin: QPointF) -> None:
        super()._paint_frames(canvas, origin)
        canvas.painter.setPen(canvas.style.theme.text)

    def link_at(self, point: QPointF) -> str:
        return next((found for run in self.runs if (found := link_in(run, self.block.text, self.block.spans, point))), "")


def paint_code_grounds(canvas: Canvas, origin: QPointF, run: TextRun, text: str, spans: Sequence) -> None:  # type: ignore[type-arg]
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


def link_in(run: TextRun, text: str, spans: Sequence, point: QPointF) -> str:  # type: ignore[type-arg]
    """Returns the address of the link in `run` under a point, or nothing."""
    links = [span for span in spans if span.href]
    at = run.inside(point) if links else None
    if at is None:
        return ""
    return next((span.href for start, end, span in utf16_spans(text, links) if start <= at - run.base < end), "")


def estimated_lines(text: str, advance: float, width: float) -> int:
    """Guesses how many lines a text takes: letters of the mean width, ideographs of two."""
    columns = max(width / max(advance, 1.0), 8.0)
    weight = 1.0 if text.isascii() else 1.4
    return text.count("\n") + max(1, math.ceil(len(text) * weight / columns))


class RuleSegment(Segment):
    """A line across."""

    _HEIGHT: ClassVar[float] = 17.0

    def estimate(self, style: TextStyle, width: float) -> None:
        self.height = self._HEIGHT

    def lay(self, style: TextStyle, width: float) -> None:
        self.height = self._HEIGHT
        self._width = width
        self.laid = True

    def paint(self, canvas: Canvas, origin: QPointF, selection: tuple[int, int]) -> None:
        self._paint_frames(canvas, origin)
        line = QRectF(origin.x() + self.indent, origin.y() + 8, self._width - self.indent, 1)
        canvas.painter.fillRect(line, canvas.style.theme.border)


CODE_LINES = 40  # in one segment
CODE_HEAD = 32.0
CODE_PAD = float(Space.MEDIUM)
HighlightLookup = Callable[[Block], "Sequence[Sequence[tuple[int, int, str]]] | None"]


class CodeSegment(Segment):
    """Some lines of a code block; the first carries the language and the copy button, the last the lower corners."""

    def __init__(self, block: Block, index: int, *, part: CodePart) -> None:
        super().__init__(block, index)
        self.part = part
        self.base = part.base
        self.highlights: Sequence[Sequence[tuple[int, int, str]]] | None = None
        self._width = 0.0

    def same_as(self, other: Segment) -> bool:
        return (
            isinstance(other, CodeSegment)
            and self.part == other.part
            and _looks(self.block) == _looks(other.block)
        )

    @property
    def _top(self) -> float:
        return CODE_HEAD if self.part.first else 0.0

    @property
    def _bottom(self) -> float:
        return CODE_PAD if self.part.last else 0.0

    def estimate(self, style: TextStyle, width: float) -> None:
        columns = max(int((width - self.indent - 2 * CODE_PAD) / style.code_advance), 4)
        rows = sum(max(1, math.ceil(_columns(line) / columns)) for line in self.part.text.split("\n"))
        self.height = self._top + rows * style.code_pitch + self._bottom

    def lay(self, style: TextStyle, width: float) -> None:
        run = TextRun(self.part.text, base=self.part.base, x=self.indent + CODE_PAD, y=self._top)
        run.lay(
            width=max(width - self.indent - 2 * CODE_PAD, 40.0), font=style.code_font, formats=self._formats(style)
        )
        self.runs = [run]
        self._width = width
        self.height = self._top + run.height + self._bottom
        self.laid = True

    def _formats(self, style: TextStyle) -> list:  # type: ignore[type-arg]
        from desktop.chat.view.highlight import code_formats

        return code_formats(self.part.text, self.highlights, self.part.line, style) if self.highlights else []

    @property
    def ground(self) -> QRectF:
        """The area behind the code, in the segment."""
        return QRectF(self.indent, 0, self._width - self.indent, self.height)

    @property
    def copy_rect(self) -> QRectF:
        """The copy button, in the segment; empty where another segment carries it."""
        if not self.part.first:
            return QRectF()
        return QRectF(self.ground.right() - CODE_HEAD - 2, 2, CODE_HEAD - 2, CODE_HEAD - 4)

    def paint(self, canvas: Canvas, origin: QPointF, selection: tuple[int, int]) -> None:
        painter, theme = canvas.painter, canvas.style.theme
        painter.save()
        ground = self.ground.translated(origin)
        painter.setClipRect(ground.adjusted(-1, 0, 1, 0), Qt.ClipOperation.IntersectClip)
        tall = ground.adjusted(0.5, 0.5 if self.part.first else -20, -0.5, -0.5 if self.part.last else 20)
        painter.setPen(QPen(theme.border, 1))
        painter.setBrush(theme.code_background)
        painter.drawRoundedRect(tall, Corner.CONTROL, Corner.CONTROL)
        painter.restore()
        if self.part.first and self.block.language:
            painter.setFont(canvas.style.quiet_font)
            painter.setPen(theme.quiet)
            head = QRectF(ground.x() + CODE_PAD, ground.y(), ground.width() - 60, CODE_HEAD)
            name = QFontMetricsF(canvas.style.quiet_font).elidedText(
                self.block.language, Qt.TextElideMode.ElideRight, head.width()
            )
            painter.drawText(head, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, name)
        painter.setPen(theme.text)
        super().paint(canvas, origin, selection)

    def _paint_frames(self, canvas: Canvas, origin: QPointF) -> None:
        super()._paint_frames(canvas, origin)
        canvas.painter.setPen(canvas.style.theme.text)


@dataclass(frozen=True, slots=True)
class CodePart:
    """Some lines of a block's text: where they start in code points (`at`), UTF-16 units (`base`) and lines."""

    text: str
    at: int
    base: int
    line: int
    first: bool
    last: bool


def _columns(line: str) -> int:
    line = line.expandtabs(4)
    if line.isascii():
        return len(line)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


def code_segments(block: Block, index: int, old: Sequence[Segment]) -> list[Segment]:
    """Cuts a code block in parts. Parts of a shorter `old` block that this one goes on from are kept, not cut anew."""
    kept: list[Segment] = []
    at = base = line = 0
    if old and isinstance(old[-1], CodeSegment) and len(old) > 1 and block.text.startswith(old[-1].block.text):
        kept = list(old[:-1])
        at, base, line = old[-1].part.at, old[-1].part.base, old[-1].part.line
    lines = block.text[at:].split("\n")
    made: list[Segment] = []
    for start in range(0, len(lines), CODE_LINES):
        some = lines[start : start + CODE_LINES]
        text = "\n".join(some)
        part = CodePart(text, at, base, line, first=line == 0, last=start + CODE_LINES >= len(lines))
        made.append(CodeSegment(block, index, part=part))
        at, base, line = at + len(text) + 1, base + utf16_length(text) + 1, line + len(some)
    for segment in kept:
        segment.laid = segment.laid and _looks(segment.block) == _looks(block)
        segment.block = block
    return kept + made


def _looks(block: Block) -> tuple[object, ...]:
    return block.language, block.frames, block.closed  # only closed code has colours


TABLE_ROWS = 12  # in one segment
_CELL_X, _CELL_Y = float(Space.MEDIUM), 6.0
_ALIGNED = {Align.LEFT: 0.0, Align.CENTER: 0.5, Align.RIGHT: 1.0}


class TableSegment(Segment):
    """Some rows of a table; cells wrap where the columns do not fit."""

    def __init__(self, block: Block, index: int, *, first: int, base: int) -> None:
        super().__init__(block, index)
        self.base = base
        self._first = first
        self._rows = block.rows[first : first + TABLE_ROWS]
        self._lines: list[float] = []
        self._widths: list[float] = []
        self._cells: list[tuple[TextRun, int, int]] = []

    def same_as(self, other: Segment) -> bool:
        return super().same_as(other) and isinstance(other, TableSegment) and self._first == other._first

    def estimate(self, style: TextStyle, width: float) -> None:
        widths = column_widths(self.block, style, width - self.indent)
        self.height = sum(
            max(
                estimated_lines(cell.text, style.chat_advance, room - 2 * _CELL_X)
                for cell, room in zip(row, widths, strict=False)
            ) * style.pitch + 2 * _CELL_Y
            for row in self._rows
        )  # fmt: skip

    def lay(self, style: TextStyle, width: float) -> None:
        self._widths = column_widths(self.block, style, width - self.indent)
        self.runs, self._cells, self._lines = [], [], []
        y, base = 0.0, self.base
        for number, row in enumerate(self._rows, start=self._first):
            x, tallest = self.indent, style.pitch
            for column, cell in enumerate(row):
                run = TextRun(cell.text, base=base, x=x + _CELL_X, y=y + _CELL_Y)
                rtl = is_right_to_left(cell.text)
                run.lay(
                    width=max(self._widths[column] - 2 * _CELL_X, 8.0),
                    font=style.bold() if number == 0 else style.chat_font,
                    formats=style.ranges(cell.text, cell.spans), rtl=rtl, align=_ALIGNED[self.block.aligns[column]],
                )  # fmt: skip
                self.runs.append(run)
                self._cells.append((run, number, column))
                base += run.length + 1
                tallest = max(tallest, run.height)
                x += self._widths[column]
            y += tallest + 2 * _CELL_Y
            self._lines.append(y)
        self.height = y
        self.laid = True

    def paint(self, canvas: Canvas, origin: QPointF, selection: tuple[int, int]) -> None:
        theme = canvas.style.theme
        for number, y in enumerate(self._lines, start=self._first):
            colour = theme.strong_border if number == 0 else theme.border
            if number < len(self.block.rows) - 1:
                canvas.painter.fillRect(
                    QRectF(origin.x() + self.indent, round(origin.y() + y) - 1, sum(self._widths), 1), colour
                )
        for run, row, column in self._cells:
            cell = self.block.rows[row][column]
            paint_code_grounds(canvas, origin, run, cell.text, cell.spans)
        canvas.painter.setPen(theme.text)
        super().paint(canvas, origin, selection)

    def _paint_frames(self, canvas: Canvas, origin: QPointF) -> None:
        super()._paint_frames(canvas, origin)
        canvas.painter.setPen(canvas.style.theme.text)

    def link_at(self, point: QPointF) -> str:
        for run, row, column in self._cells:
            cell = self.block.rows[row][column]
            if found := link_in(run, cell.text, cell.spans, point):
                return found
        return ""


def column_widths(block: Block, style: TextStyle, width: float) -> list[float]:
    """Returns the columns' widths: what their cells ask for where that fits, else the wide ones share what is left."""
    metrics, bold = QFontMetricsF(style.chat_font), QFontMetricsF(style.bold())
    wanted = [0.0] * len(block.aligns)
    for number, row in enumerate(block.rows):
        for column, cell in enumerate(row):
            widest = max(
                (bold if number == 0 else metrics).horizontalAdvance(line[:200]) for line in cell.text.split("\n")
            )
            wanted[column] = max(wanted[column], widest + 2 * _CELL_X + 2)
    return shared_widths(wanted, width)


def shared_widths(wanted: list[float], width: float) -> list[float]:
    """Gives each column what it wants, or an equal share of what the modest ones leave."""
    if sum(wanted) <= width:
        return wanted
    left, open_columns = width, sorted(range(len(wanted)), key=lambda column: wanted[column])
    given = list(wanted)
    while open_columns:
        share = left / len(open_columns)
        column = open_columns.pop(0)
        given[column] = min(wanted[column], share)
        left -= given[column]
    return given


def table_segments(block: Block, index: int, old: Sequence[Segment]) -> list[Segment]:
    """Cuts a table in groups of rows."""
    made: list[Segment] = []
    base = 0
    for first in range(0, len(block.rows), TABLE_ROWS):
        made.append(TableSegment(block, index, first=first, base=base))
        some = block.rows[first : first + TABLE_ROWS]
        base += sum(utf16_length(cell.text) + 1 for row in some for cell in row)
    return made


def _single(kind: type[Segment]) -> Callable[[Block, int, Sequence[Segment]], list[Segment]]:
    return lambda block, index, old: [kind(block, index)]


SEGMENTS: dict[BlockKind, Callable[[Block, int, Sequence[Segment]], list[Segment]]] = {
    BlockKind.PLAIN: _single(TextSegment),
    BlockKind.PARAGRAPH: _single(TextSegment),
    BlockKind.HEADING: _single(TextSegment),
    BlockKind.RULE: _single(RuleSegment),
    BlockKind.CODE: code_segments,
    BlockKind.TABLE: table_segments,
}


def place_after(segment: Segment, before: Segment | None) -> None:
    """Sets the gap above a segment, and which quotes go on from the one before."""
    segment.joined = 0
    if before is None:
        segment.gap = 0.0
        return
    for mine, theirs in zip(segment.block.frames, before.block.frames, strict=False):
        if mine.kind is not theirs.kind or mine.marker:
            break
        segment.joined += 1
    segment.gap = _gap(segment.block, before.block, same_block=segment.index == before.index)


def _gap(block: Block, before: Block, *, same_block: bool) -> float:
    if same_block or block.continued or block.kind is BlockKind.PLAIN:
        return 0.0
    if block.kind is BlockKind.HEADING:
        return HEADING_GAP if before.kind is not BlockKind.HEADING else PARAGRAPH_GAP
    if before.kind is BlockKind.HEADING:
        return AFTER_HEADING
    if block.in_list and before.in_list and not block.follows_blank:
        return TIGHT_GAP
    return PARAGRAPH_GAP
