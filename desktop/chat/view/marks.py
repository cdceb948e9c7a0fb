"""Marks what was found in the messages that are seen, and brings the reader to one of the hits. Knows no bar."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal

from desktop.chat.view.finding import Hit, Place, hits_in
from desktop.chat.view.item_layout import ItemLayout
from desktop.chat.view.layout import Anchor, ConversationLayout
from desktop.chat.view.segments import Mark

if TYPE_CHECKING:
    from desktop.chat.view.following import FollowingScrollArea

_ROWS_KEPT = 60
_ABOVE = 1 / 3  # where in the viewport a hit is shown


class _Known(NamedTuple):
    text_length: int
    n_blocks: int
    hits: list[Hit]


class Marks(QObject):
    """The hits of a pattern in the messages as they are laid out."""

    unfolded = Signal(int)  # the row of a message whose reasoning holds the hit that was gone to

    def __init__(self, view: FollowingScrollArea, layout: ConversationLayout) -> None:
        super().__init__(view)
        self._view, self._layout = view, layout
        self._pattern: re.Pattern[str] | None = None
        self._current: Place | None = None
        self._known: dict[str, _Known] = {}
        self._wanted: Place | None = None
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._seek)

    def show(self, pattern: re.Pattern[str] | None, current: Place | None) -> None:
        """Marks what a pattern finds, and one hit more strongly."""
        if pattern is not self._pattern:
            self._known.clear()
        if (pattern, current) != (self._pattern, self._current):
            self._pattern, self._current = pattern, current
            self._view.viewport().update()

    def reveal(self, place: Place) -> None:
        """Brings the reader to a hit; reads on in a long message, in turns, until it is there."""
        self._wanted = place
        self._seek()

    def of(self, row: int) -> Mapping[int, Sequence[Mark]]:
        """Returns the marks of a message by block."""
        if self._pattern is None:
            return {}
        now = self._shown_number(row, self._current) if self._current is not None and self._current.row == row else -1
        marks: dict[int, list[Mark]] = {}
        for number, hit in enumerate(self._hits(self._layout.items[row])):
            marks.setdefault(hit.block, []).append(Mark(hit.start, hit.end, number == now))
        return marks

    def _hits(self, item: ItemLayout) -> list[Hit]:
        assert self._pattern is not None
        key = len(item.item.text) - item.unread, len(item.blocks)
        known = self._known.get(item.item.id)
        if known is None or (known.text_length, known.n_blocks) != key:
            while len(self._known) > _ROWS_KEPT:
                del self._known[next(iter(self._known))]
            known = self._known[item.item.id] = _Known(*key, hits_in(item.blocks, self._pattern))
        return known.hits

    def _shown_number(self, row: int, place: Place) -> int:
        """Returns a hit's number among those that are shown; hits in folded reasoning are not."""
        item = self._layout.items[row]
        return place.number - (0 if item.thought_shown or item.raw else place.thoughts)

    def _seek(self) -> None:
        place, self._wanted = self._wanted, None
        if place is None or self._pattern is None or place.row >= len(self._layout.items):
            return
        item = self._layout.items[place.row]
        if place.number < place.thoughts and not item.thought_shown and not item.raw:
            self._layout.toggle_thought(place.row)
            self.unfolded.emit(place.row)
        elif not item.opened:
            self._layout.read_more(place.row)
        hits, number = self._hits(item), self._shown_number(place.row, place)
        if number < len(hits):
            self._show_hit(place.row, hits[number])
        elif item.unread:
            self._layout.read_more(place.row)
            self._wanted = place
            self._timer.start(0)
        elif hits:
            self._show_hit(place.row, hits[-1])

    def _show_hit(self, row: int, hit: Hit) -> None:
        item = self._layout.items[row]
        numbers = [number for number in item.segments_of(hit.block) if item.segments[number].base <= hit.start]
        if not numbers:
            return
        number = numbers[-1]
        height = self._view.viewport().height()
        self._view.show_place(Anchor(row, item.item.id, number, 0.0, -height * _ABOVE), inside=(hit.start, hit.end))
