"""Tables: columns as wide as their cells ask for, rows in groups. Knows no scrolling."""

from __future__ import annotations

import re
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF

from desktop.chat.view.blocks import Align, Block, Cell, Style, is_right_to_left, utf16_length
from desktop.chat.view.links import Link
from desktop.chat.view.segments import Canvas, Segment, estimated_lines, link_in, paint_code_grounds
from desktop.chat.view.style import TextStyle
from desktop.chat.view.text_run import TextRun
from desktop.theme import Space

TABLE_ROWS = 12  # in one segment
_CELL_X, _CELL_Y = float(Space.MEDIUM), 6.0
_COMMAND = re.compile(r"\\[a-zA-Z]+|[{}$\\]")
_ALIGNED = {Align.LEFT: 0.0, Align.CENTER: 0.5, Align.RIGHT: 1.0}


class Columns:
    """The widths of a table's columns, worked out once for all its segments."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._known: tuple[TextStyle, float] | None = None
        self._widths: list[float] = []

    def widths(self, style: TextStyle, width: float) -> list[float]:
        """Returns what the cells ask for where that fits; else the wide columns share what the others leave."""
        if self._known != (style, width):
            self._known = (style, width)
            self._widths = shared_widths(self._wanted(style), width)
        return self._widths

    def _wanted(self, style: TextStyle) -> list[float]:
        wanted = [0.0] * len(self._block.aligns)
        for number, row in enumerate(self._block.rows):
            for column, cell in enumerate(row):
                wanted[column] = max(wanted[column], style.text_width(_about(cell), bold=number == 0) + 2 * _CELL_X + 2)
        return wanted


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
        self._widths: list[float] = []
        self._cells: list[tuple[TextRun, int, int]] = []

    def same_as(self, other: Segment) -> bool:
        return super().same_as(other) and isinstance(other, TableSegment) and self._first == other._first

    def estimate(self, style: TextStyle, width: float) -> None:
        widths = self._columns.widths(style, width - self.indent)
        self.height = sum(
            max(
                estimated_lines(cell.text, style.chat_advance, room - 2 * _CELL_X)
                for cell, room in zip(row, widths, strict=False)
            ) * style.pitch + 2 * _CELL_Y
            for row in self._rows
        )  # fmt: skip

    def lay(self, style: TextStyle, width: float) -> None:
        self._widths = self._columns.widths(style, width - self.indent)
        self.runs, self._cells, self._lines, self.waits = [], [], [], False
        y, base = 0.0, self.base
        for number, row in enumerate(self._rows, start=self._first):
            runs = self._lay_row(style, number, row, QPointF(self.indent, y), base)
            self.runs += runs
            base = runs[-1].base + runs[-1].length + 1
            y += max(style.pitch, *(run.height for run in runs)) + 2 * _CELL_Y
            self._lines.append(y)
        self.height = y
        self.laid = True

    def _lay_row(
        self, style: TextStyle, number: int, row: tuple[Cell, ...], corner: QPointF, base: int
    ) -> list[TextRun]:
        runs = []
        font = style.bold() if number == 0 else style.chat_font
        for column, cell in enumerate(row):
            x = corner.x() + sum(self._widths[:column]) + _CELL_X
            run = TextRun(cell.text, base=base, x=x, y=corner.y() + _CELL_Y)
            room = max(self._widths[column] - 2 * _CELL_X, 8.0)
            look = style.dressed(cell.text, cell.spans, font, room=room)
            run.lay(
                width=room, font=font, formats=look.formats, rtl=is_right_to_left(cell.text),
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

    def link_at(self, point: QPointF) -> Link | None:
        for run, row, column in self._cells:
            cell = self.block.rows[row][column]
            if found := link_in(run, cell.text, cell.spans, point):
                return found
        return None


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
    base, columns = 0, Columns(block)
    for first in range(0, len(block.rows), TABLE_ROWS):
        made.append(TableSegment(block, index, columns=columns, first=first, base=base))
        some = block.rows[first : first + TABLE_ROWS]
        base += sum(utf16_length(cell.text) + 1 for row in some for cell in row)
    return made
