"""Where every message and block of a conversation stands, laid out only where it is looked at. Paints nothing.

Heights of what was never seen are estimates. An `Anchor` names the text at the top of the viewport, so that the view can
keep it in place when an estimate is corrected.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from PySide6.QtCore import QRectF

from desktop.chat.view.blocks import Block, plain_blocks
from desktop.chat.view.highlight import Highlighter
from desktop.chat.view.incremental import IncrementalParser
from desktop.chat.view.message_model import ChatItem
from desktop.chat.view.notice import Notice, notice_for
from desktop.chat.view.segments import SEGMENTS, CodeSegment, Segment, estimated_lines, place_after
from desktop.chat.view.style import CARD, TextStyle
from desktop.theme import Space
from runtime.messages import Role

TOP_PAD = float(Space.SMALL)
FOOTER = 30.0
AFTER = float(Space.LARGE)
NAME_GAP = float(Space.TINY)
_READ_AT_ONCE = 24_000  # characters; more of one message is read in the next turns of the event loop
_LAID_KEPT = 700  # segments whose lines are kept; the heights of all are


class PlainReader:
    """Holds the blocks of text shown as typed; the counterpart of `IncrementalParser`."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._length = 0

    def feed(self, text: str) -> int:
        """Adds text. Returns the number of leading blocks that stay as they were."""
        unchanged = len(self.blocks)
        for block in plain_blocks(text):
            moved = Block(
                block.kind, block.text, block.start + self._length, block.end + self._length, continued=block.continued
            )
            self.blocks.append(moved)
        self._length += len(text)
        return unchanged


class ItemLayout:
    """One message: name, text, notice, and the row kept free for its actions. Opened (read) when first looked at."""

    def __init__(self, item: ChatItem) -> None:
        self.item = item
        self.segments: list[Segment] = []
        self.notice = Notice()
        self.unfolded = False
        self.height = 0.0
        self.pending = 0.0  # estimated height of text not read yet
        self._reader: IncrementalParser | PlainReader | None = None
        self._read = 0
        self._first: list[int] = [0]  # the first segment of each block, and the end
        self._tops: list[float] = []
        self._name_height = 0.0
        self._notice_stale = True

    @property
    def plain(self) -> bool:
        """True where the text is shown as typed, on a raised ground."""
        return self.item.role is not Role.ASSISTANT

    @property
    def opened(self) -> bool:
        """True once the text was read, at least its beginning."""
        return self._reader is not None

    @property
    def unread(self) -> int:
        """Characters of an opened message that are not read yet."""
        return len(self.item.text) - self._read if self.opened else 0

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks read so far."""
        return self._reader.blocks if self._reader is not None else ()

    def text_width(self, width: float) -> float:
        """Returns the room for text in a column of `width`."""
        return width - CARD.left() - CARD.right() if self.plain else width

    @property
    def text_left(self) -> float:
        """Where text starts, from the column's left edge."""
        return CARD.left() if self.plain else 0.0

    @property
    def text_top(self) -> float:
        """Where text starts, from the item's top."""
        return TOP_PAD + self._name_height + NAME_GAP + (CARD.top() if self.plain else 0.0)

    @property
    def text_bottom(self) -> float:
        """Where text ends, from the item's top."""
        last = self._tops[-1] + self.segments[-1].height if self.segments else 0.0
        return self.text_top + last + self.pending

    @property
    def notice_top(self) -> float:
        """Where the notice starts, from the item's top."""
        return self.text_bottom + (CARD.bottom() if self.plain else 0.0) + (Space.SMALL if self.notice.height else 0.0)

    @property
    def footer_top(self) -> float:
        """Where the row of actions starts, from the item's top."""
        return self.height - FOOTER - AFTER

    def card(self, width: float) -> QRectF:
        """Returns the raised ground of a message shown as typed, from the column's left edge and the item's top."""
        top = TOP_PAD + self._name_height + NAME_GAP
        bottom = self.text_bottom + CARD.bottom()
        runs = [run for segment in self.segments for run in segment.runs]
        known = len(runs) == len(self.segments) and not self.unread
        if not known or any(run.rtl for run in runs):
            return QRectF(0, top, width, bottom - top)
        widest = max((run.width for run in runs), default=0.0)
        return QRectF(0, top, min(CARD.left() + widest + 1 + CARD.right(), width), bottom - top)

    def set_item(self, item: ChatItem) -> bool:
        """Takes a new record. Returns True where the text did not just grow, so that it is read anew."""
        grown = item.text.startswith(self.item.text) and item.role is self.item.role
        self.item = item
        self._notice_stale = True
        if not grown:
            self._reader, self._read, self.segments, self._first, self._tops = None, 0, [], [0], []
        return not grown

    def estimate(self, style: TextStyle, width: float) -> None:
        """Guesses the height of a message that was not read."""
        self._name_height = style.quiet_pitch + 2
        lines = estimated_lines(self.item.text, style.chat_advance, self.text_width(width))
        self.pending = lines * style.pitch
        self._measure(style, width)

    def read(self, style: TextStyle, width: float) -> int:
        """Reads text that is not read yet, a bounded amount. Returns the number of segments that stayed as they were."""
        self._name_height = style.quiet_pitch + 2
        if self._reader is None:
            self._reader = PlainReader() if self.plain else IncrementalParser()
        text = self.item.text[self._read : self._read + _READ_AT_ONCE]
        if self.plain and self._read + len(text) < len(self.item.text):
            text = text[: text.rfind("\n") + 1] or text
        self._read += len(text)
        kept = self._rebuild(self._reader.feed(text), style, width) if text else len(self.segments)
        rest = self.item.text[self._read :]
        self.pending = estimated_lines(rest, style.chat_advance, width) * style.pitch if rest else 0.0
        self._measure(style, width)
        return kept

    def _rebuild(self, unchanged: int, style: TextStyle, width: float) -> int:
        """Makes segments for the blocks that changed, keeping those that look the same."""
        assert self._reader is not None
        kept = self._first[min(unchanged, len(self._first) - 1)]
        old, old_first = self.segments[kept:], [at - kept for at in self._first[unchanged:]]
        del self.segments[kept:], self._first[unchanged:], self._tops[kept:]
        for index, block in enumerate(self._reader.blocks[unchanged:], start=unchanged):
            number = index - unchanged
            theirs = old[old_first[number] : old_first[number + 1]] if number + 1 < len(old_first) else []
            self._first.append(len(self.segments))
            for segment in _kept(SEGMENTS[block.kind](block, index, theirs), theirs):
                place_after(segment, self.segments[-1] if self.segments else None)
                if not segment.height:
                    segment.estimate(style, self.text_width(width))
                self.segments.append(segment)
        self._first.append(len(self.segments))
        return kept

    def _measure(self, style: TextStyle, width: float) -> None:
        if self._notice_stale and (self.opened or not self.item.text):
            self.notice = notice_for(self.item, style, width, unfolded=self.unfolded)
            self._notice_stale = False
        heights = [0.0, *accumulate(segment.gap + segment.height for segment in self.segments)]
        self._tops = [top + segment.gap for top, segment in zip(heights, self.segments, strict=False)]
        if not self.segments and not self.pending:
            self.pending = style.pitch if not self.notice.height else 0.0
        self.height = self.notice_top + self.notice.height + FOOTER + AFTER

    def relay(self, style: TextStyle, width: float) -> None:
        """Forgets all lines, after a change of width, font or theme; heights become estimates again."""
        self._notice_stale = True
        for segment in self.segments:
            segment.drop()
            segment.estimate(style, self.text_width(width))
        if self.opened:
            self._measure(style, width)
        else:
            self.estimate(style, width)

    def remeasure(self, style: TextStyle, width: float) -> None:
        """Adds the heights up again after segments were laid out."""
        self._measure(style, width)

    def fold(self, style: TextStyle, width: float) -> None:
        """Shows or hides the details of an error."""
        self.unfolded = not self.unfolded
        self._notice_stale = True
        self._measure(style, width)

    def top_of(self, number: int) -> float:
        """Returns where a segment starts, from the item's top."""
        return self.text_top + self._tops[number]

    def segment_at(self, y: float) -> int:
        """Returns the number of the last segment that starts at or above `y`, from the item's top; 0 at least."""
        return max(0, bisect_right(self._tops, y - self.text_top) - 1)

    def segments_of(self, block: int) -> range:
        """Returns the numbers of a block's segments; an empty range for a block that is not there."""
        if block + 1 >= len(self._first):
            return range(len(self.segments), len(self.segments))
        return range(self._first[block], self._first[block + 1])


def _kept(new: list[Segment], old: Sequence[Segment]) -> list[Segment]:
    result: list[Segment] = []
    for number, segment in enumerate(new):
        before = old[number] if number < len(old) else None
        if before is not None and before is not segment and segment.same_as(before):
            before.block = segment.block
            result.append(before)
        else:
            result.append(segment)
    return result


@dataclass(frozen=True, slots=True)
class Anchor:
    """The text at the top of the viewport: a segment of an item, and how far below its top, as a part of its height."""

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
        self.items: list[ItemLayout] = []
        self.laid = 0
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
        self.items = [ItemLayout(item) for item in items]
        for layout in self.items:
            layout.estimate(self.style, self.width)
        self._sum_from(0)

    def insert(self, row: int, item: ChatItem) -> None:
        """Adds an item."""
        layout = ItemLayout(item)
        layout.estimate(self.style, self.width)
        self.items.insert(row, layout)
        self._sum_from(row)

    def remove_from(self, row: int) -> None:
        """Removes an item and all that follow."""
        del self.items[row:]
        self._sum_from(row)

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
        for layout in self.items:
            layout.relay(self.style, self.width)
        self._sum_from(0)

    def _sum_from(self, row: int) -> None:
        del self._tops[row + 1 :]
        top = self._tops[row]
        for layout in self.items[row:]:
            top += layout.height
            self._tops.append(top)

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
        changed = False
        for place in self.places(row, top, bottom):
            if not place.segment.laid:
                height = place.segment.height
                self._lay(place.segment, layout)
                changed = changed or height != place.segment.height
            self._kept[id(place.segment)] = place.segment
            self._kept.move_to_end(id(place.segment))
        if changed:
            layout.remeasure(self.style, self.width)
            self._sum_from(row)
        return changed

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

    def anchor_at(self, y: float) -> Anchor | None:
        """Returns what stands at a height."""
        row = self.row_at(y)
        if row < 0:
            return None
        layout, offset = self.items[row], y - self._tops[row]
        number = layout.segment_at(offset)
        if not layout.segments or offset < layout.text_top:
            return Anchor(layout.item.id, -1, 0.0, offset)
        segment = layout.segments[number]
        inside = offset - layout.top_of(number)
        if inside > segment.height:
            return Anchor(layout.item.id, number, 1.0, inside - segment.height)
        return Anchor(layout.item.id, number, inside / max(segment.height, 1.0))

    def y_of(self, anchor: Anchor, row: int) -> float:
        """Returns where an anchor stands now; `row` is its item's."""
        layout = self.items[row]
        if anchor.segment < 0 or anchor.segment >= len(layout.segments):
            return self._tops[row] + anchor.offset
        height = layout.segments[anchor.segment].height
        return self._tops[row] + layout.top_of(anchor.segment) + anchor.part * height + anchor.offset
