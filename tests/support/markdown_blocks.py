"""Reads a whole text at once with the parser that reads it in pieces."""

from __future__ import annotations

from desktop.chat.view.blocks import Block
from desktop.chat.view.incremental import IncrementalParser


def parse(text: str) -> list[Block]:
    """Returns the blocks of `text`."""
    parser = IncrementalParser()
    parser.feed(text)
    return parser.blocks
