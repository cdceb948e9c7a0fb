"""One message laid out: name, text, notice, and the row kept free for its actions. Knows no other message."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence

from PySide6.QtCore import QRectF

from desktop.chat.view.answer_reader import AnswerReader
from desktop.chat.view.blocks import Block, plain_blocks
from desktop.chat.view.message_model import ChatItem
from desktop.chat.view.notice import Notice, notice_for
from desktop.chat.view.reasoning_segment import ReasoningSegment, reasoning_words
from desktop.chat.view.segment_table import SEGMENTS, place_after
from desktop.chat.view.segments import Segment, columns_in, estimated_lines, lines_in
from desktop.chat.view.style import CARD, TextStyle
from desktop.theme import Space
from runtime.messages import Role
from runtime.reasoning import CLOSE, OPEN

TOP_PAD = float(Space.SMALL)
FOOTER = 32.0
AFTER = float(Space.TINY)
NAME_GAP = float(Space.TINY)
_READ_AT_ONCE = 12_000  # characters; more of one message is read in the next turns of the event loop


class PlainReader:
    """Holds the blocks of text shown as typed; the counterpart of `AnswerReader`."""

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

    def __init__(self, item: ChatItem, *, thought_shown: bool = False, raw: bool = False) -> None:
        """`thought_shown` unfolds the reasoning; `raw` shows the source of an answer as it was written."""
        self.item = item
        self.thought_shown, self.raw = thought_shown, raw
        self.segments: list[Segment] = []
        self.notice = Notice()
        self.unfolded = False
        self.last = True  # only the last answer can go on
        self.height = 0.0
        self.pending = 0.0  # estimated height of text not read yet
        self._reader: AnswerReader | PlainReader | None = None
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
            self._forget()
        self._word_reasoning()
        return not grown

    def _forget(self) -> None:
        self._reader, self._read, self.segments, self._first, self._tops = None, 0, [], [0], []

    def show(self, *, thought: bool, raw: bool) -> None:
        """Shows or hides the reasoning, or the source instead of what it means; the text is read anew."""
        self.thought_shown, self.raw = thought, raw
        self._forget()

    def estimate(self, style: TextStyle, width: float) -> None:
        """Guesses the height of a message that was not read, as `guessed_heights` does."""
        self._name_height = style.quiet_pitch + 2
        shown = self.item.text[self._passed :]
        lines = estimated_lines(shown, style.chat_advance, self.text_width(width))
        self.pending = lines * style.pitch
        self._measure(style, width)

    def read(self, style: TextStyle, width: float) -> int:
        """Reads a bounded amount of text not read yet. Returns the number of segments that stayed as they were."""
        self._name_height = style.quiet_pitch + 2
        if self._reader is None:
            as_typed = self.plain or self.raw
            self._reader = PlainReader() if as_typed else AnswerReader(folded=not self.thought_shown)
        text = self.item.text[self._read : max(self._read, self._passed) + _READ_AT_ONCE]
        if isinstance(self._reader, PlainReader) and self._read + len(text) < len(self.item.text):
            text = text[: text.rfind("\n") + 1] or text
        self._read += len(text)
        kept = self._rebuild(self._reader.feed(text), style, width) if text else len(self.segments)
        self._word_reasoning()
        rest = self.item.text[self._read :]
        self.pending = estimated_lines(rest, style.chat_advance, width) * style.pitch if rest else 0.0
        self._measure(style, width, changed=kept)
        return kept

    @property
    def _passed(self) -> int:
        """Characters of folded reasoning at the beginning, which cost no time to read."""
        return 0 if self.plain or self.raw or self.thought_shown else _reasoning_end(self.item.text)

    @property
    def reasoning(self) -> ReasoningSegment | None:
        """The line that folds and unfolds the reasoning, where the answer has any."""
        first = self.segments[0] if self.segments else None
        return first if isinstance(first, ReasoningSegment) else None

    def _word_reasoning(self) -> None:
        if (line := self.reasoning) is not None:
            line.words = reasoning_words(self.item, closed=line.block.closed)
            line.unfolded = self.thought_shown

    def _rebuild(self, unchanged: int, style: TextStyle, width: float) -> int:
        """Makes segments for the blocks that changed, keeping those that look the same."""
        assert self._reader is not None
        changed = self._reader.blocks[unchanged:]
        begin = self._first[min(unchanged, len(self._first) - 1)]
        old = self.segments[begin:]
        ends = [at - begin for at in self._first[unchanged:]]
        made = [
            _kept(block, unchanged + number, old[slice(*ends[number : number + 2])] if number + 1 < len(ends) else [])
            for number, block in enumerate(changed)
        ]
        same = _same_at_start(made[0], old) if made else 0
        del self.segments[begin + same :], self._first[unchanged:], self._tops[begin + same :]
        for number, segments in enumerate(made):
            self._first.append(len(self.segments) if number else begin)
            for segment in segments[0 if number else same :]:
                place_after(segment, self.segments[-1] if self.segments else None)
                segment.unit = style.unit
                if not segment.height:
                    segment.estimate(style, self.text_width(width))
                self.segments.append(segment)
        self._first.append(len(self.segments))
        return begin + same

    def _measure(self, style: TextStyle, width: float, *, changed: int = 0) -> None:
        """Adds up the heights from the segment `changed` on."""
        if self._notice_stale and (self.opened or not self.item.text):
            self.notice = notice_for(self.item, style, width, unfolded=self.unfolded, last=self.last)
            self._notice_stale = False
        del self._tops[changed:]
        bottom = self._tops[-1] + self.segments[changed - 1].height if self._tops else 0.0
        for segment in self.segments[len(self._tops) :]:
            self._tops.append(bottom + segment.gap)
            bottom += segment.gap + segment.height
        if not self.segments and not self.pending:
            self.pending = style.pitch if not self.notice.height else 0.0
        self.height = self.notice_top + self.notice.height + FOOTER + AFTER

    def relay(self, style: TextStyle, width: float) -> None:
        """Forgets all lines, after a change of width, font or theme; heights become estimates again."""
        self._notice_stale = True
        for segment in self.segments:
            segment.drop()
            segment.unit = style.unit
            segment.estimate(style, self.text_width(width))
        if self.opened:
            self._measure(style, width)
        else:
            self.estimate(style, width)

    def remeasure(self, style: TextStyle, width: float, *, changed: int) -> None:
        """Adds the heights up again after segments from `changed` on were laid out."""
        self._measure(style, width, changed=changed)

    def fold(self, style: TextStyle, width: float) -> None:
        """Shows or hides the details of an error."""
        self.unfolded = not self.unfolded
        self._notice_stale = True
        self._measure(style, width)

    def set_last(self, style: TextStyle, width: float, *, last: bool) -> None:
        """Shows or hides what can be done with the last message only."""
        if last != self.last:
            self.last, self._notice_stale = last, True
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


def guessed_heights(
    items: Sequence[ChatItem], style: TextStyle, width: float, *, unfolded: Collection[str] = ()
) -> list[float]:  # fmt: skip
    """Returns the heights that messages have before they are read, without making their layouts.

    `unfolded` holds the ids of those whose reasoning or source is shown. The height of a message without text depends
    on what is said of its end: it is -1.
    """
    around = TOP_PAD + style.quiet_pitch + 2 + NAME_GAP + FOOTER + AFTER
    around_plain = around + CARD.top() + CARD.bottom()
    columns = columns_in(width, style.chat_advance)
    columns_plain = columns_in(width - CARD.left() - CARD.right(), style.chat_advance)
    heights = []
    for item in items:
        text = item.text
        if not text:
            heights.append(-1.0)
        elif item.role is not Role.ASSISTANT:
            heights.append(around_plain + lines_in(text, columns_plain) * style.pitch)
        else:
            if text.startswith(OPEN) and item.id not in unfolded:
                text = text[_reasoning_end(text) :]
            heights.append(around + lines_in(text, columns) * style.pitch)
    return heights


def _reasoning_end(text: str) -> int:
    """Returns how many characters of reasoning an answer begins with."""
    if not text.startswith(OPEN):
        return 0
    at = text.find(CLOSE)
    return at if at >= 0 else len(text)


def _kept(block: Block, index: int, old: Sequence[Segment]) -> list[Segment]:
    """Returns a block's segments: those of its older self where they look the same, new ones elsewhere."""
    made = SEGMENTS[block.kind](block, index, old)
    for number, (segment, before) in enumerate(zip(made, old, strict=False)):
        if before is not segment and segment.same_as(before):
            before.block = segment.block
            made[number] = before
    return made


def _same_at_start(new: Sequence[Segment], old: Sequence[Segment]) -> int:
    pairs = enumerate(zip(new, old, strict=False))
    return next((number for number, (one, other) in pairs if one is not other), min(len(new), len(old)))
