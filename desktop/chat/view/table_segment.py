"""Tables: columns as wide as their cells ask for, rows in groups. Knows no scrolling.

Where the columns do not fit, cells wrap between words; where the words do not fit either, letters and margins become
smaller, and only what still does not fit is broken inside words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QFont, QTextCharFormat, QTextLayout

from desktop.chat.view.blocks import Align, Block, Cell, Style, is_right_to_left, utf16_length
from desktop.chat.view.links import Link
from desktop.chat.view.segments import Canvas, Segment, estimated_lines, link_in, paint_code_grounds
from desktop.chat.view.style import TextStyle, pitch_of, scaled, words_of
from desktop.chat.view.text_run import TextRun
from desktop.theme import Space

TABLE_ROWS = 12  # in one segment
_CELL_Y = 6.0
_SIZES = ((1.0, float(Space.MEDIUM)), (0.9, float(Space.SMALL)), (0.8, 5.0))  # of letters, and the margin beside a cell
_HALVINGS = 20  # until a share is exact to a hundredth of a pixel
_SLACK = 2.0  # a text is laid out in a little more than its width
_PIXELS = QTextCharFormat.Property.FontPixelSize
_COMMAND = re.compile(r"\\[a-zA-Z]+|[{}$\\]")
_ALIGNED = {Align.LEFT: 0.0, Align.CENTER: 0.5, Align.RIGHT: 1.0}


@dataclass(frozen=True, slots=True)
class Fit:
    """How a table fits in a width: its columns with their margins, and its fonts."""

    widths: list[float]
    margin: float
    font: QFont
    bold: QFont
    size: float  # of its letters, in those of other text

    @property
    def pitch(self) -> float:
        """The distance of two lines, in pixels."""
        return pitch_of(self.font)

    def room(self, column: int) -> float:
        """Returns the width of a column's text."""
        return max(self.widths[column] - 2 * self.margin, 8.0)


class Columns:
    """How a table fits, worked out once for all its segments."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._known: tuple[TextStyle, float] | None = None
        self._fit: Fit | None = None

    def fit(self, style: TextStyle, width: float) -> Fit:
        """Returns what the cells ask for where that fits; else the wide columns share what the others leave."""
        if self._fit is None or self._known != (style, width):
            self._known, self._fit = (style, width), self._fitted(style, width)
        return self._fit

    def _fitted(self, style: TextStyle, width: float) -> Fit:
        wanted = self._most(lambda cell, bold: _width(style, cell, bold=bold))
        if sum(wanted) + len(wanted) * (2 * _SIZES[0][1] + _SLACK) <= width:
            return _fit_of(style, wanted, wanted, width, *_SIZES[0])
        words = self._most(lambda cell, bold: _word_width(style, cell, bold=bold))
        fitting = (fit for fit in _SIZES if fit[0] * sum(words) + len(words) * (2 * fit[1] + _SLACK) <= width)
        return _fit_of(style, wanted, words, width, *next(fitting, _SIZES[-1]))

    def _most(self, measure: Callable[[Cell, bool], float]) -> list[float]:
        most = [0.0] * len(self._block.aligns)
        for number, row in enumerate(self._block.rows):
            for column, cell in enumerate(row):
                most[column] = max(most[column], measure(cell, number == 0))
        return most


def _fit_of(
    style: TextStyle, wanted: list[float], words: list[float], width: float, size: float, margin: float
) -> Fit:  # fmt: skip
    font, bold = scaled(style.chat_font, size), scaled(style.bold(), size)
    size = font.pixelSize() / style.chat_font.pixelSize()
    besides = 2 * margin + _SLACK
    widths = shared_widths([size * x + besides for x in wanted], width, [size * x + besides for x in words])
    return Fit(widths, margin, font, bold, size)


def _width(style: TextStyle, cell: Cell, *, bold: bool) -> float:
    more = (style.code_width(code) - style.text_width(code, bold=bold) for code in _codes(cell))
    return style.text_width(_about(cell), bold=bold) + sum(max(extra, 0.0) for extra in more)


def _word_width(style: TextStyle, cell: Cell, *, bold: bool) -> float:
    words = [word for code in _codes(cell) for word in words_of(code)]
    return max(style.word_width(_about(cell), bold=bold), *(style.code_width(word) for word in words), 0.0)


def _codes(cell: Cell) -> Iterator[str]:
    return (cell.text[span.start : span.end] for span in cell.spans if span.style & Style.CODE)


def _resized(formats: list[QTextLayout.FormatRange], size: float) -> list[QTextLayout.FormatRange]:
    """Returns formats with their own size of letters, as code has it, so many times as large."""
    for one in formats:
        if one.format.hasProperty(_PIXELS):
            made = QTextCharFormat(one.format)
            made.setProperty(_PIXELS, one.format.doubleProperty(_PIXELS) * size)
            one.format = made
    return formats


def _about(cell: Cell) -> str:
    """Returns a text about as wide as the cell with its formulas drawn, which may not have been drawn yet."""
    parts, at = [], 0
    for span in cell.spans:
        if span.style & Style.FORMULA:
            parts += [cell.text[at : span.start], _COMMAND.sub("m", cell.text[span.start : span.end])]
            at = span.end
    return "".join(parts) + cell.text[at:]


class TableSegment(Segment):
    """Some rows of a table; cells wrap where the columns do not fit."""

    def __init__(self, block: Block, index: int, *, columns: Columns, first: int, base: int) -> None:
        super().__init__(block, index)
        self.base = base
        self._columns = columns
        self._first = first
        self._rows = block.rows[first : first + TABLE_ROWS]
        self._lines: list[float] = []
        self._width = 0.0
        self._cells: list[tuple[TextRun, int, int]] = []

    def same_as(self, other: Segment) -> bool:
        return super().same_as(other) and isinstance(other, TableSegment) and self._first == other._first

    def estimate(self, style: TextStyle, width: float) -> None:
        fit = self._columns.fit(style, width - self.indent)
        advance, rooms = style.chat_advance * fit.size, [fit.room(column) for column in range(len(fit.widths))]
        self.height = sum(
            max(estimated_lines(cell.text, advance, room) for cell, room in zip(row, rooms, strict=False)) * fit.pitch
            + 2 * _CELL_Y
            for row in self._rows
        )

    def lay(self, style: TextStyle, width: float) -> None:
        fit = self._columns.fit(style, width - self.indent)
        self._width = sum(fit.widths)
        self.runs, self._cells, self._lines, self.waits = [], [], [], False
        y, base = 0.0, self.base
        for number, row in enumerate(self._rows, start=self._first):
            runs = self._lay_row(style, fit, number, row, QPointF(self.indent, y), base)
            self.runs += runs
            base = runs[-1].base + runs[-1].length + 1
            y += max(fit.pitch, *(run.height for run in runs)) + 2 * _CELL_Y
            self._lines.append(y)
        self.height = y
        self.laid = True

    def _lay_row(
        self, style: TextStyle, fit: Fit, number: int, row: tuple[Cell, ...], corner: QPointF, base: int
    ) -> list[TextRun]:
        runs = []
        font = fit.bold if number == 0 else fit.font
        for column, cell in enumerate(row):
            x = corner.x() + sum(fit.widths[:column]) + fit.margin
            run = TextRun(cell.text, base=base, x=x, y=corner.y() + _CELL_Y)
            room = fit.room(column)
            look = style.dressed(cell.text, cell.spans, font, room=room)
            run.lay(
                width=room, font=font, formats=_resized(look.formats, fit.size), rtl=is_right_to_left(cell.text),
                align=_ALIGNED[self.block.aligns[column]], drawn=look.drawn,
            )  # fmt: skip
            self.waits = self.waits or look.waits
            self._cells.append((run, number, column))
            base += run.length + 1
            runs.append(run)
        return runs

    def paint(self, canvas: Canvas, origin: QPointF, selection: tuple[int, int]) -> None:
        theme = canvas.style.theme
        for number, y in enumerate(self._lines, start=self._first):
            colour = theme.strong_border if number == 0 else theme.border
            if number < len(self.block.rows) - 1:
                canvas.painter.fillRect(
                    QRectF(origin.x() + self.indent, round(origin.y() + y) - 1, self._width, 1), colour
                )
        for run, row, column in self._cells:
            cell = self.block.rows[row][column]
            paint_code_grounds(canvas, origin, run, cell.text, cell.spans)
        canvas.painter.setPen(theme.text)
        super().paint(canvas, origin, selection)

    def _paint_frames(self, canvas: Canvas, origin: QPointF) -> None:
        super()._paint_frames(canvas, origin)
        canvas.painter.setPen(canvas.style.theme.text)

    def link_at(self, point: QPointF) -> Link | None:
        for run, row, column in self._cells:
            cell = self.block.rows[row][column]
            if found := link_in(run, cell.text, cell.spans, point):
                return found
        return None


def shared_widths(wanted: list[float], width: float, least: list[float]) -> list[float]:
    """Gives each column what it wants, or an equal share of what the modest ones leave.

    No column gets less than its `least`, where all of them fit; else these are what is wanted.
    """
    if sum(wanted) <= width:
        return wanted
    if sum(least) > width:
        return shared_widths(least, width, [0.0] * len(least))
    low, high = 0.0, width
    for _halving in range(_HALVINGS):
        share = (low + high) / 2
        given = [min(want, max(needs, share)) for want, needs in zip(wanted, least, strict=True)]
        low, high = (share, high) if sum(given) <= width else (low, share)
    return [min(want, max(needs, low)) for want, needs in zip(wanted, least, strict=True)]


def table_segments(block: Block, index: int, old: Sequence[Segment]) -> list[Segment]:
    """Cuts a table in groups of rows."""
    made: list[Segment] = []
    base, columns = 0, Columns(block)
    for first in range(0, len(block.rows), TABLE_ROWS):
        made.append(TableSegment(block, index, columns=columns, first=first, base=base))
        some = block.rows[first : first + TABLE_ROWS]
        base += sum(utf16_length(cell.text) + 1 for row in some for cell in row)
    return made
