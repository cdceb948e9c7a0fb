"""Links in messages: where they lead, and the words that are shown for them. Opens nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from desktop.chat.view.blocks import Block, Span


class Link(NamedTuple):
    """An address, http or https, and the words that stand for it."""

    address: str
    text: str


def links_in(blocks: Sequence[Block]) -> Iterator[Link]:
    """Yields the links of a message, in order."""
    for block in blocks:
        yield from _in_text(block.text, block.spans)
        for row in block.rows:
            for cell in row:
                yield from _in_text(cell.text, cell.spans)


def _in_text(text: str, spans: Sequence[Span]) -> Iterator[Link]:
    for span in spans:
        if span.href:
            yield Link(span.href, text[span.start : span.end])
