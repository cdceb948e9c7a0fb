"""Where every message and block of a conversation stands, laid out only where it is looked at. Paints nothing.

Heights of what was never seen are estimates. An `Anchor` names the text at the top of the viewport, so that the view
can keep it in place when an estimate is corrected.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from PySide6.QtCore import QRectF

from desktop.chat.view.code_segment import CodeSegment
from desktop.chat.view.highlight import Highlighter
from desktop.chat.view.item_layout import ItemLayout
from desktop.chat.view.item_layouts import ItemLayouts
from desktop.chat.view.message_model import ChatItem
from desktop.chat.view.segments import Segment
from desktop.chat.view.style import TextStyle

_LAID_KEPT = 700  # segments whose lines are kept; the heights of all are


@dataclass(frozen=True, slots=True)
class Anchor:
    """The text at the top of the viewport: a segment of an item, and how far below its top, as a part of its height."""

    row: int
    item_id: str
    segment: int
    part: float
    offset: float = 0.0  # pixels from the item's top, where there is no segment


@dataclass(frozen=True, slots=True)
class Place:
    """A segment and its rectangle in the conversation."""

    row: int
    number: int
    segment: Segment
    rect: QRectF


class ConversationLayout:
    """All items below each other in a column. `laid` counts the segments laid out so far, for tests and curiosity."""

    def __init__(self, style: TextStyle, highlighter: Highlighter) -> None:
        self.style = style
        self.width = 600.0
        self.items = ItemLayouts(self._made)
        self.laid = 0
        self.thoughts_shown: set[str] = set()  # ids of messages whose reasoning is unfolded
        self.raw: set[str] = set()  # ids of messages shown as they were written
        self._highlighter = highlighter
        self._tops: list[float] = [0.0]
        self._kept: OrderedDict[int, Segment] = OrderedDict()

    @property
    def height(self) -> float:
        """The height of everything, estimates included."""
        return self._tops[-1]

    def reset(self, items: Sequence[ChatItem]) -> None:
        """Shows other items."""
        self._kept.clear()
        self.items.reset(items, self.style, self.width, unfolded=self.thoughts_shown | self.raw)
        self._sum_from(0)

    def _made(self, item: ChatItem, row: int) -> ItemLayout:
        layout = ItemLayout(item, thought_shown=item.id in self.thoughts_shown, raw=item.id in self.raw)
        layout.last = row == len(self.items) - 1
        layout.estimate(self.style, self.width)
        return layout

    def insert(self, row: int, item: ChatItem) -> None:
        """Adds an item."""
        self.items.insert(row, item)
        self._sum_from(self._set_last(row - 1, last=False))

    def remove_from(self, row: int) -> None:
        """Removes an item and all that follow."""
        self.items.remove_from(row)
        self._sum_from(self._set_last(row - 1, last=True))

    def _set_last(self, row: int, *, last: bool) -> int:
        """Tells an item whether it is the last one. Returns the first row whose top may have moved."""
        if row >= 0:
            self.items[row].set_last(self.style, self.width, last=last)
        return max(row, 0)

    def change(self, row: int, item: ChatItem) -> None:
        """Takes a new record of an item; text that only grew is read from where it ended."""
        layout = self.items[row]
        if layout.set_item(item) or not layout.opened:
            layout.estimate(self.style, self.width)
        else:
            layout.read(self.style, self.width)
        self._sum_from(row)

    def read_more(self, row: int) -> None:
        """Reads more of a long message."""
        self.items[row].read(self.style, self.width)
        self._sum_from(row)

    def fold(self, row: int) -> None:
        """Shows or hides the details of an item's error."""
        self.items[row].fold(self.style, self.width)
        self._sum_from(row)

    def toggle_thought(self, row: int) -> None:
        """Unfolds or folds an item's reasoning; it stays so when the conversation is shown again."""
        self._toggle(row, self.thoughts_shown)

    def toggle_raw(self, row: int) -> None:
        """Shows an item's source, or what it means again."""
        self._toggle(row, self.raw)

    def _toggle(self, row: int, chosen: set[str]) -> None:
        layout = self.items[row]
        chosen ^= {layout.item.id}
        layout.show(thought=layout.item.id in self.thoughts_shown, raw=layout.item.id in self.raw)
        layout.read(self.style, self.width)
        self._sum_from(row)

    def set_width(self, width: float) -> None:
        """Lays everything out anew for another width."""
        if width != self.width:
            self.width = width
            self._relay()

    def set_style(self, style: TextStyle) -> None:
        """Lays everything out anew for another theme or font."""
        self.style = style
        self._relay()

    def _relay(self) -> None:
        self._kept.clear()
        self.items.relay(self.style, self.width, unfolded=self.thoughts_shown | self.raw)
        self._sum_from(0)

    def _sum_from(self, row: int) -> None:
        self._tops[row:] = accumulate(self.items.heights(row), initial=self._tops[row])

    def top_of(self, row: int) -> float:
        """Returns where an item starts."""
        return self._tops[row]

    def row_at(self, y: float) -> int:
        """Returns the item at a height; the first or last one beyond the ends, -1 where there is none."""
        return min(max(0, bisect_right(self._tops, y) - 1), len(self.items) - 1)

    def rows_between(self, top: float, bottom: float) -> range:
        """Returns the rows of the items that meet a strip."""
        return range(self.row_at(top), self.row_at(bottom) + 1) if self.items else range(0)

    def places(self, row: int, top: float, bottom: float) -> list[Place]:
        """Returns the segments of an item that meet a strip of the conversation."""
        layout, start = self.items[row], self._tops[row]
        found = []
        for number in range(layout.segment_at(top - start), len(layout.segments)):
            segment = layout.segments[number]
            y = start + layout.top_of(number)
            if y > bottom:
                break
            if y + segment.height >= top:
                found.append(Place(row, number, segment, QRectF(layout.text_left, y, self.width, segment.height)))
        return found

    def lay_between(self, top: float, bottom: float) -> bool:
        """Reads and lays out what meets a strip. Returns True where a height changed, so that places moved."""
        before = self.height
        changed = False
        for row in self.rows_between(top, bottom):
            layout = self.items[row]
            if not layout.opened:
                layout.read(self.style, self.width)
                self._sum_from(row)
                changed = True
            changed = self._lay_item(row, top, bottom) or changed
        return changed or before != self.height

    def _lay_item(self, row: int, top: float, bottom: float) -> bool:
        layout = self.items[row]
        changed = []
        for place in self.places(row, top, bottom):
            if not place.segment.laid:
                height = place.segment.height
                self._lay(place.segment, layout)
                changed += [place.number] if height != place.segment.height else []
            self._kept[id(place.segment)] = place.segment
            self._kept.move_to_end(id(place.segment))
        if changed:
            layout.remeasure(self.style, self.width, changed=changed[0])
            self._sum_from(row)
        return bool(changed)

    def _lay(self, segment: Segment, layout: ItemLayout) -> None:
        if isinstance(segment, CodeSegment):
            segment.highlights = self._highlighter.lines_of(segment.block)
        segment.lay(self.style, layout.text_width(self.width))
        self.laid += 1

    def forget_far(self) -> None:
        """Frees the lines of segments that were not looked at for long."""
        while len(self._kept) > _LAID_KEPT:
            self._kept.popitem(last=False)[1].drop()

    def recolour(self, language: str, text: str) -> None:
        """Lays a code block out again where its colours have become known."""
        for segment in list(self._kept.values()):
            block = segment.block
            if isinstance(segment, CodeSegment) and block.language == language and block.text == text:
                segment.laid = False

    def redraw_formulas(self) -> None:
        """Lays out again what waits for drawings of formulas, some of which have been made."""
        for segment in self._kept.values():
            segment.laid = segment.laid and not segment.waits

    def anchor_at(self, y: float) -> Anchor | None:
        """Returns what stands at a height."""
        row = self.row_at(y)
        if row < 0:
            return None
        layout, offset = self.items[row], y - self._tops[row]
        number = layout.segment_at(offset)
        if not layout.segments or offset < layout.text_top:
            return Anchor(row, layout.item.id, -1, 0.0, offset)
        segment = layout.segments[number]
        inside = offset - layout.top_of(number)
        if inside > segment.height:
            return Anchor(row, layout.item.id, number, 1.0, inside - segment.height)
        return Anchor(row, layout.item.id, number, inside / max(segment.height, 1.0))

    def y_of(self, anchor: Anchor) -> float | None:
        """Returns where an anchor stands now, None where its item is gone."""
        row = anchor.row
        if row >= len(self.items) or self.items[row].item.id != anchor.item_id:
            return None
        layout = self.items[row]
        if anchor.segment < 0 or anchor.segment >= len(layout.segments):
            return self._tops[row] + anchor.offset
        height = layout.segments[anchor.segment].height
        return self._tops[row] + layout.top_of(anchor.segment) + anchor.part * height + anchor.offset
