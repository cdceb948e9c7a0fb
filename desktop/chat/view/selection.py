"""What is selected, over any number of messages, and the source text it stands for. Knows no mouse and no widget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from desktop.chat.view.blocks import Block, BlockKind, utf16_length, utf16_slice
from desktop.chat.view.message_model import ChatItem
from runtime.reasoning import CLOSE

END = 1 << 60  # beyond every block and offset


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the conversation: a message's row, a block of it, and UTF-16 units in the block's text."""

    row: int
    block: int
    offset: int


@dataclass(frozen=True, slots=True)
class Selection:
    """From `start` to `end`, in reading order."""

    start: Position
    end: Position

    @property
    def empty(self) -> bool:
        """True where nothing is selected."""
        return self.start >= self.end

    def within(self, row: int, block: int) -> tuple[int, int]:
        """Returns the selected range of a block, (0, 0) where none of it is selected."""
        here = (row, block)
        if self.empty or here < (self.start.row, self.start.block) or here > (self.end.row, self.end.block):
            return 0, 0
        start = self.start.offset if here == (self.start.row, self.start.block) else 0
        return start, self.end.offset if here == (self.end.row, self.end.block) else END


def source_of(selection: Selection, items: Sequence[tuple[ChatItem, Sequence[Block]]]) -> str:
    """Returns the source text of what is selected; `items` are the messages of its rows, with their blocks.

    Blocks that are selected as a whole give their markdown, parts of a block what is shown of them; a part of one code
    block is code without its fence. Messages stand apart by an empty line. Reasoning is left out, unless the selection
    starts or ends in it.
    """
    parts = (_item_source(*part) for part in _parts(selection, items))
    return "\n\n".join(part for part in parts if part)


def shown_of(selection: Selection, items: Sequence[tuple[ChatItem, Sequence[Block]]]) -> str:
    """Returns what is selected as it reads, without marks; `items` as for `source_of`."""
    parts = (_item_shown(*part) for part in _parts(selection, items))
    return "\n\n".join(part for part in parts if part)


_Part = tuple[str, Sequence[Block], Position, Position]


def _parts(selection: Selection, items: Sequence[tuple[ChatItem, Sequence[Block]]]) -> list[_Part]:
    """Returns text, blocks, start and end of what is selected of each message."""
    found = []
    for row, (item, blocks) in enumerate(items, start=selection.start.row):
        start = selection.start if row == selection.start.row else Position(row, 0, 0)
        end = selection.end if row == selection.end.row else Position(row, END, END)
        found.append(_without_reasoning(item, blocks, start, end))
    return found


def _without_reasoning(item: ChatItem, blocks: Sequence[Block], start: Position, end: Position) -> _Part:
    thoughts = sum(block.kind is BlockKind.REASONING or block.thought for block in blocks)
    if not blocks and start.block == 0:
        return item.answer, blocks, start, end
    if not thoughts or start.block > 0 or end.block < thoughts:
        return item.text, blocks, start, end
    answer = item.answer
    before = len(item.text) - len(answer)
    moved = [replace(block, start=block.start - before, end=block.end - before) for block in blocks[thoughts:]]
    return answer, moved, Position(start.row, 0, 0), replace(end, block=end.block - thoughts)


def _item_shown(text: str, blocks: Sequence[Block], start: Position, end: Position) -> str:
    if not blocks:
        return text
    chosen = Selection(start, end)
    parts: list[str] = []
    for number, block in enumerate(blocks):
        first, last = chosen.within(start.row, number)
        shown = utf16_slice(block.text, first, min(last, utf16_length(block.text)))
        if not shown:
            continue
        marker = next((frame.marker for frame in block.frames if frame.marker), "") if first == 0 else ""
        apart = "" if not parts else "" if block.continued else "\n" if block.in_list else "\n\n"
        parts.append(apart + (f"{marker} " if marker else "") + shown)
    return "".join(parts)


def _item_source(text: str, blocks: Sequence[Block], start: Position, end: Position) -> str:
    starts_whole = (start.block, start.offset) == (0, 0)
    last = blocks[end.block] if end.block < len(blocks) else None
    ends_whole = last is None or (end.block == len(blocks) - 1 and end.offset >= utf16_length(last.text))
    if not blocks or (starts_whole and ends_whole and not (len(blocks) == 1 and blocks[0].kind is BlockKind.CODE)):
        return text
    if start.block == end.block and last is not None:
        return _inside(text, last, start.offset, end.offset)
    first = blocks[min(start.block, len(blocks) - 1)]
    head = text[first.start : first.end] if start.offset == 0 else _tail_of(text, first, start.offset)
    if last is None:
        return _without_mark(head + text[first.end :])
    whole = end.offset >= utf16_length(last.text)
    tail = text[last.start : last.end] if whole else utf16_slice(last.text, 0, end.offset)
    return _without_mark(head + text[first.end : last.start] + tail)


def _without_mark(text: str) -> str:
    return text.replace(CLOSE, "\n\n").rstrip("\n")


def _inside(text: str, block: Block, start: int, end: int) -> str:
    whole = start == 0 and end >= utf16_length(block.text)
    if whole and block.kind is not BlockKind.CODE:
        return text[block.start : block.end].rstrip("\r\n")
    return utf16_slice(block.text, start, min(end, utf16_length(block.text)))


def _tail_of(text: str, block: Block, offset: int) -> str:
    source = text[block.start : block.end]
    return utf16_slice(block.text, offset, utf16_length(block.text)) + source[len(source.rstrip()) :]
