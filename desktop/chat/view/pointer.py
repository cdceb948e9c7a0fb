"""Turns points into positions, words, lines and links, and keeps the selection. Knows no events and no painting."""

from __future__ import annotations

import enum

from PySide6.QtCore import QPointF, QTextBoundaryFinder

from desktop.chat.view.blocks import BlockKind, displayable, utf16_length
from desktop.chat.view.layout import ConversationLayout, Place
from desktop.chat.view.links import Link
from desktop.chat.view.selection import Position, Selection


class Granularity(enum.Enum):
    """What one step of a selection is."""

    CHARACTER = "character"
    WORD = "word"
    PARAGRAPH = "paragraph"


class Pointer:
    """The selection, and the hits of the mouse in the column's coordinates."""

    def __init__(self, layout: ConversationLayout) -> None:
        self.selection: Selection | None = None
        self._layout = layout
        self._granularity = Granularity.CHARACTER
        self._origin: tuple[Position, Position] | None = None

    @property
    def selecting(self) -> bool:
        """True where something is selected."""
        return self.selection is not None and not self.selection.empty

    def press(self, point: QPointF, *, extend: bool) -> None:
        """Starts a selection, or moves the end of the one there is; a third press on a word takes the paragraph."""
        at = self.position_at(point)
        if at is None:
            return
        if extend and self.selection is not None:
            self.extend(point)
            return
        third = self._granularity is Granularity.WORD and self._just_chosen(at)
        if third:
            self.select(point, Granularity.PARAGRAPH)
        else:
            self._granularity, self._origin = Granularity.CHARACTER, (at, at)
            self.selection = Selection(at, at)

    def _just_chosen(self, at: Position) -> bool:
        chosen = self.selection
        return chosen is not None and not chosen.empty and chosen.start <= at <= chosen.end

    def select(self, point: QPointF, granularity: Granularity) -> None:
        """Selects the word or paragraph at a point."""
        unit = self._unit_at(point, granularity)
        if unit is not None:
            self._granularity, self._origin = granularity, unit
            self.selection = Selection(*unit)

    def extend(self, point: QPointF) -> None:
        """Lets the selection reach to a point, in whole words or paragraphs where it began with one."""
        unit = self._unit_at(point, self._granularity)
        if unit is not None and self._origin is not None:
            self.selection = Selection(min(self._origin[0], unit[0]), max(self._origin[1], unit[1]))

    def forget_from(self, row: int) -> None:
        """Drops a selection that reaches into a row that is gone or has other text."""
        if self.selection is not None and self.selection.end.row >= row:
            self.selection, self._origin = None, None

    def position_at(self, point: QPointF) -> Position | None:
        """Returns the position nearest to a point, None in an empty conversation."""
        row = self._layout.row_at(point.y())
        if row < 0:
            return None
        item, y = self._layout.items[row], point.y() - self._layout.top_of(row)
        if not item.segments or y < item.text_top:
            return Position(row, 0, 0)
        if y >= item.text_bottom:
            last = item.blocks[-1]
            return Position(row, len(item.blocks) - 1, utf16_length(last.text))
        place = self._place_at(row, point)
        if place is None:
            return Position(row, 0, 0)
        return Position(row, place.segment.index, place.segment.hit(point - place.rect.topLeft()))

    def _place_at(self, row: int, point: QPointF) -> Place | None:
        number = self._layout.items[row].segment_at(point.y() - self._layout.top_of(row))
        places = self._layout.places(row, point.y() - 50, point.y() + 50)
        return next((place for place in places if place.number == number), None)

    def _place_under(self, point: QPointF) -> Place | None:
        row = self._layout.row_at(point.y())
        place = self._place_at(row, point) if row >= 0 else None
        return place if place is not None and place.segment.laid and place.rect.contains(point) else None

    def link_at(self, point: QPointF) -> Link | None:
        """Returns the link under a point."""
        place = self._place_under(point)
        return place.segment.link_at(point - place.rect.topLeft()) if place is not None else None

    def over_text(self, point: QPointF) -> bool:
        """True where a press would begin a selection in text."""
        place = self._place_under(point)
        return place is not None and bool(place.segment.runs)

    def _unit_at(self, point: QPointF, granularity: Granularity) -> tuple[Position, Position] | None:
        at = self.position_at(point)
        if at is None or granularity is Granularity.CHARACTER:
            return None if at is None else (at, at)
        item = self._layout.items[at.row]
        if not item.blocks:
            return at, at
        block = item.blocks[at.block]
        whole = granularity is Granularity.PARAGRAPH and block.kind not in (BlockKind.CODE, BlockKind.PLAIN)
        if whole:
            return Position(at.row, at.block, 0), Position(at.row, at.block, utf16_length(block.text))
        if (formula := self._formula_at(at)) is not None:
            return Position(at.row, at.block, formula[0]), Position(at.row, at.block, formula[1])
        text, base = self._text_around(at)
        find = _word if granularity is Granularity.WORD else _line
        start, end = find(text, at.offset - base)
        return Position(at.row, at.block, base + start), Position(at.row, at.block, base + end)

    def _formula_at(self, at: Position) -> tuple[int, int] | None:
        item = self._layout.items[at.row]
        runs = (run for number in item.segments_of(at.block) for run in item.segments[number].runs)
        return next((unit for run in runs if (unit := run.unit_at(at.offset)) is not None), None)

    def _text_around(self, at: Position) -> tuple[str, int]:
        item = self._layout.items[at.row]
        for number in item.segments_of(at.block):
            for run in item.segments[number].runs:
                if run.base <= at.offset <= run.base + run.length:
                    return run.text, run.base
        return "", at.offset


def _word(text: str, at: int) -> tuple[int, int]:
    """Returns the word around a position, or what stands between two words; in UTF-16 units."""
    finder = QTextBoundaryFinder(QTextBoundaryFinder.BoundaryType.Word, displayable(text))
    finder.setPosition(min(at + 1, utf16_length(text)))
    start = finder.toPreviousBoundary()
    end = finder.toNextBoundary()
    return max(start, 0), end if end >= 0 else utf16_length(text)


def _line(text: str, at: int) -> tuple[int, int]:
    units = text.encode("utf-16-le", "surrogatepass")
    newline = "\n".encode("utf-16-le")
    start = end = at
    while start > 0 and units[2 * start - 2 : 2 * start] != newline:
        start -= 1
    while 2 * end < len(units) and units[2 * end : 2 * end + 2] != newline:
        end += 1
    return start, end


