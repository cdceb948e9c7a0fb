"""Finds words in a conversation, a few milliseconds at a time. Knows no painting.

What is searched is the text as it is shown, reasoning included, whether it was laid out yet or not. A message whose
source lacks the longest word is passed over without being read. Hits of a message are counted, not kept: where they
stand is worked out again where they are seen.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from PySide6.QtCore import QModelIndex, QObject, QTimer, Signal

from desktop.chat.view.answer_reader import AnswerReader
from desktop.chat.view.blocks import Block, BlockKind, plain_blocks, utf16_length
from desktop.chat.view.message_model import ChatItem, MessageListModel
from runtime.messages import Role

_SLICE = 0.006  # seconds of work between two turns of the event loop
_CHUNK = 6_000  # characters read at once
_SETTLE_MS = 400  # after which a message that grows is searched again
_WORD = re.compile(r"\w+")


class Hit(NamedTuple):
    """Where words stand: a block of a message and UTF-16 units in its text."""

    block: int
    start: int
    end: int
    thought: bool


class Place(NamedTuple):
    """One hit of the conversation: its message's row, and its number among the message's hits.

    The first `thoughts` of them are in the message's reasoning.
    """

    row: int
    number: int
    thoughts: int = 0


class Count(NamedTuple):
    """How many hits a message has, and how many of them are in its reasoning."""

    hits: int = 0
    thoughts: int = 0


def pattern_of(words: str) -> re.Pattern[str] | None:
    """Returns what finds `words`: any case, any blanks between them; None for nothing."""
    parts = words.split()
    return re.compile(r"\s+".join(map(re.escape, parts)), re.IGNORECASE) if parts else None


def hits_in(blocks: Sequence[Block], pattern: re.Pattern[str]) -> list[Hit]:
    """Returns all hits in a message's blocks, in order."""
    return [
        Hit(number, *_units(block.text, found.start(), found.end()), block.thought)
        for number, block in enumerate(blocks)
        if block.kind is not BlockKind.REASONING
        for found in pattern.finditer(block.text)
    ]


def _units(text: str, start: int, end: int) -> tuple[int, int]:
    if text.isascii():
        return start, end
    first = utf16_length(text[:start])
    return first, first + utf16_length(text[start:end])


class Finder(QObject):
    """Counts the hits in every message, from the one that is read on, and keeps the one that was gone to."""

    changed = Signal()  # counts, or the current hit
    moved = Signal(object)  # Place: the reader is to be brought there

    def __init__(self, model: MessageListModel, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.pattern: re.Pattern[str] | None = None
        self.current: Place | None = None
        self._model = model
        self._word = ""
        self._counts: dict[int, Count] = {}
        self._work: Iterator[None] | None = None
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self._step)
        self._again = QTimer(self, singleShot=True, interval=_SETTLE_MS)
        self._again.timeout.connect(self._search_dirty)
        self._dirty: set[int] = set()
        # Bound methods only: the list of messages outlives this object, and Qt forgets them with it.
        model.modelReset.connect(self._restart)
        model.rowsRemoved.connect(self._restart)
        model.rowsInserted.connect(self._note_rows)
        model.dataChanged.connect(self._note_change)
        model.text_appended.connect(self._note_text)

    @property
    def searching(self) -> bool:
        """True while some messages have not been searched."""
        return self._work is not None

    @property
    def total(self) -> int:
        """How many hits are known."""
        return sum(count.hits for count in self._counts.values())

    @property
    def index(self) -> int:
        """The number of the current hit among all known, from 1; 0 where there is none."""
        if self.current is None:
            return 0
        before = sum(count.hits for row, count in self._counts.items() if row < self.current.row)
        return before + self.current.number + 1

    def search(self, words: str, *, start: int = 0) -> None:
        """Looks for `words`, from the row `start` on and then from the beginning, and goes to the first hit."""
        self.pattern = pattern_of(words)
        self._word = max(_WORD.findall(words.casefold()), key=len, default="")
        self._begin(start, go=True)

    def _begin(self, start: int, *, go: bool) -> None:
        self._counts, self._work, self._dirty = {}, None, set()
        self.current = None
        if self.pattern is not None:
            count = self._model.rowCount()
            rows = [*range(start, count), *range(min(start, count))]
            self._work = self._searched(rows, self.pattern, go=go)
            self._timer.start(0)
        self.changed.emit()

    def stop(self) -> None:
        """Forgets everything."""
        self.search("")

    def step(self, by: int) -> None:
        """Goes to the next hit, or with -1 to the one before, around the ends."""
        rows = sorted(row for row, count in self._counts.items() if count.hits)
        if not rows:
            return
        if self.current is None or self.current.row not in rows:
            row = rows[0] if by > 0 else rows[-1]
            number = 0 if by > 0 else self._counts[row].hits - 1
        else:
            row, number = self.current.row, self.current.number + by
        if not 0 <= number < self._counts[row].hits:
            row = rows[(rows.index(row) + by) % len(rows)]
            number = 0 if by > 0 else self._counts[row].hits - 1
        self._go(Place(row, number, self._counts[row].thoughts))

    def _go(self, place: Place) -> None:
        self.current = place
        self.changed.emit()
        self.moved.emit(place)

    # --- working in slices -----------------------------------------------------------------------------------------

    def _step(self) -> None:
        until = time.perf_counter() + _SLICE
        while self._work is not None and time.perf_counter() < until:
            if next(self._work, self) is self:
                self._work = None
        self.changed.emit()
        if self._work is not None:
            self._timer.start(0)

    def _searched(self, rows: Sequence[int], pattern: re.Pattern[str], *, go: bool) -> Iterator[None]:
        for row in rows:
            count = Count()
            item = self._model.item(row)
            if self._word in item.text.casefold():
                for found in counted(item, pattern):
                    count = found
                    yield
            self._counts[row] = count
            if count.hits and go and self.current is None:
                self._go(Place(row, 0, count.thoughts))
            yield

    def _note_rows(self, _parent: QModelIndex, first: int, last: int) -> None:
        self._note(range(first, last + 1))

    def _note_change(self, top: QModelIndex, bottom: QModelIndex) -> None:
        self._note(range(top.row(), bottom.row() + 1))

    def _note_text(self, row: int) -> None:
        self._note(range(row, row + 1))

    def _note(self, rows: range) -> None:
        if self.pattern is not None:
            self._dirty.update(rows)
            if not self._again.isActive():
                self._again.start()

    def _search_dirty(self) -> None:
        if self._work is not None:
            self._again.start()
        elif self.pattern is not None and self._dirty:
            rows, self._dirty = sorted(self._dirty), set()
            self._work = self._searched(rows, self.pattern, go=False)
            self._timer.start(0)

    def _restart(self) -> None:
        if self.pattern is not None:
            self._begin(0, go=False)


def counted(item: ChatItem, pattern: re.Pattern[str]) -> Iterator[Count]:
    """Yields between chunks of a message that is read; the last count is that of all of it."""
    if item.role is not Role.ASSISTANT:
        yield Count(len(hits_in(plain_blocks(item.text), pattern)))
        return
    reader = AnswerReader(folded=False)
    for start in range(0, len(item.text), _CHUNK):
        reader.feed(item.text[start : start + _CHUNK])
        yield Count()
    hits = hits_in(reader.blocks, pattern)
    yield Count(len(hits), sum(hit.thought for hit in hits))
