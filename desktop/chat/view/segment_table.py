"""Which segments a block becomes, and how far apart they stand. A new kind of block gets its entry here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from desktop.chat.view.blocks import Block, BlockKind
from desktop.chat.view.code_segment import code_segments
from desktop.chat.view.reasoning_segment import ReasoningSegment
from desktop.chat.view.segments import FormulaSegment, RuleSegment, Segment, TextSegment
from desktop.chat.view.style import AFTER_HEADING, HEADING_GAP, PARAGRAPH_GAP, TIGHT_GAP
from desktop.chat.view.table_segment import table_segments


def _single(kind: type[Segment]) -> Callable[[Block, int, Sequence[Segment]], list[Segment]]:
    return lambda block, index, old: [kind(block, index)]


SEGMENTS: dict[BlockKind, Callable[[Block, int, Sequence[Segment]], list[Segment]]] = {
    BlockKind.PLAIN: _single(TextSegment),
    BlockKind.PARAGRAPH: _single(TextSegment),
    BlockKind.HEADING: _single(TextSegment),
    BlockKind.RULE: _single(RuleSegment),
    BlockKind.FORMULA: _single(FormulaSegment),
    BlockKind.REASONING: _single(ReasoningSegment),
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
