"""Reads markdown as it arrives: only the text since the last stable boundary is parsed again. Knows no drawing.

A boundary is the start of a top-level block, of an item in a top-level list, or a cut in a very long paragraph, once
the line it stands in is complete: what comes later cannot change the blocks before it. Code in an open fence grows
line by line without being parsed at all. Any chunking of a text gives the same blocks (but see `_set_apart`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from desktop.chat.view.blocks import Block, BlockKind
from desktop.chat.view.markdown import BlockBuilder, ListContext, is_blank, is_closing, tokens_of

if TYPE_CHECKING:
    from markdown_it.token import Token

_LINE_END = re.compile(r"\r\n|\n|\r")
_WHOLE_LINE_END = re.compile(r"\r\n|\n|\r(?=[^\n])")  # a \r at the very end may still become \r\n
_SURELY_WORDS = 200  # no rule or underline is that long and still read as words
_LONGEST_TAIL = 32_000  # characters that are parsed again with each piece, before the beginning is set apart
PARAGRAPH_PART = 4000  # characters after which the beginning of a paragraph is set apart


@dataclass
class _OpenFence:
    block: Block
    markup: str
    indent: int
    content: str = ""


class IncrementalParser:
    """Holds the blocks of one growing text. `parsed` counts the characters read so far, repeats included."""

    def __init__(self, *, paragraph_part: int = PARAGRAPH_PART) -> None:
        self.blocks: list[Block] = []
        self.stable = 0
        self.parsed = 0
        self._limit = paragraph_part
        self._tail = ""
        self._offset = 0
        self._context = ListContext()
        self._blank_before = False
        self._continued = False
        self._fence: _OpenFence | None = None

    def feed(self, text: str) -> int:
        """Reads more text. Returns the number of leading blocks that it left as they were for good."""
        unchanged = self.stable
        self._tail += text
        if self._fence is not None:
            self._grow_fence(self._fence)
        elif len(self._tail) > _LONGEST_TAIL and self.blocks and self.blocks[-1].frames:
            self._set_apart()
        else:
            self._parse()
        return unchanged

    def _set_apart(self) -> None:
        """Takes the whole lines of a very long quote or list item as final, so that the rest stays quick to read.

        This is the one boundary that later text could have moved; it splits a paragraph nobody would write.
        """
        inside = self.blocks[-1].kind is BlockKind.PARAGRAPH
        at = self._tail.rfind("\n") + 1 if inside else 0
        rest = self._tail[at:]
        self._tail = self._tail[:at] or rest
        self._parse()
        if at and self._fence is None:
            self.stable = len(self.blocks)
            self._commit(len(self._tail), context=ListContext(), blank=False)
        if at:
            self.feed(rest)

    def _parse(self) -> None:
        self.parsed += len(self._tail)
        del self.blocks[self.stable :]
        tokens = tokens_of(self._tail, continued=self._continued, limit=self._limit)
        ends = [found.end() for found in _LINE_END.finditer(self._tail)]
        starts = [0, *ends] if not ends or ends[-1] < len(self._tail) else [0, *ends[:-1]]
        builder = BlockBuilder(
            self._tail, [*(self._offset + start for start in starts), self._offset + len(self._tail)],
            limit=self._limit, context=self._context, blank_before=self._blank_before, continued=self._continued,
        )  # fmt: skip
        at = _boundary(tokens, _Lines(self._tail, starts, complete=len(ends)))
        done = builder.build(tokens[:at])
        context = replace(builder.lists[0]) if builder.lists else ListContext()
        rest = builder.build(tokens[at:])
        self.blocks += done
        line = _first_line(tokens[at]) if tokens[at:] else len(ends) and len(starts) - 1
        if line:
            self._commit(starts[line], context=context, blank=is_blank(self._tail[starts[line - 1] : starts[line]]))
        self.stable = len(self.blocks)
        self.blocks += rest
        self._after_parse(tokens[at:], rest)

    def _after_parse(self, tokens: list[Token], rest: list[Block]) -> None:
        """Finds the boundaries inside a last block that may become very long."""
        if len(tokens) == 1 and tokens[0].type == "fence" and not rest[0].closed:
            self._open_fence(tokens[0], rest[0])
        elif len(tokens) == 3 and tokens[0].type == "paragraph_open" and len(rest) > 1:
            self.stable += len(rest) - 1
            self._commit(rest[-1].start - self._offset, context=ListContext(), blank=False)
            self._continued = True

    def _commit(self, at: int, *, context: ListContext, blank: bool) -> None:
        self._tail = self._tail[at:]
        self._offset += at
        self._context, self._blank_before, self._continued = context, blank, False

    def _open_fence(self, token: Token, block: Block) -> None:
        head = _WHOLE_LINE_END.search(self._tail)
        if head is None:
            return
        line = self._tail[: head.start()]
        self._fence = _OpenFence(block, token.markup, len(line) - len(line.lstrip(" ")))
        self._tail = self._tail[head.end() :]
        self._offset += head.end()
        self._grow_fence(self._fence)

    def _grow_fence(self, fence: _OpenFence) -> None:
        self.parsed += len(self._tail)
        at = 0
        lines: list[str] = []
        for found in _WHOLE_LINE_END.finditer(self._tail):
            line = self._tail[at : found.start()]
            at = found.end()
            if is_closing(line, fence.markup):
                return self._close_fence(fence, lines, at)
            lines.append(_dedented(line, fence.indent) + "\n")
        fence.content += "".join(lines)
        self._tail = self._tail[at:]
        self._offset += at
        return self._show_fence(fence)

    def _show_fence(self, fence: _OpenFence) -> None:
        last = self._tail.removesuffix("\r")
        closed = is_closing(last, fence.markup)
        text = fence.content if closed or not last else fence.content + _dedented(last, fence.indent)
        text = text.removesuffix("\n") if closed or not last else text
        self._put_code(fence, text, self._offset + len(self._tail), closed=closed)

    def _close_fence(self, fence: _OpenFence, lines: list[str], at: int) -> None:
        text = (fence.content + "".join(lines)).removesuffix("\n")
        self._put_code(fence, text, self._offset + at, closed=True)
        self.stable = len(self.blocks)
        self._fence = None
        self._commit(at, context=ListContext(), blank=False)
        self._parse()

    def _put_code(self, fence: _OpenFence, text: str, end: int, *, closed: bool) -> None:
        text = text.replace("\0", "\ufffd")
        self.blocks[self.stable :] = [replace(fence.block, text=text, end=end, closed=closed)]


def _dedented(line: str, indent: int) -> str:
    column = at = 0
    while column < indent and line[at : at + 1] in (" ", "\t"):
        column += 4 - column % 4 if line[at] == "\t" else 1
        at += 1
    return " " * max(0, column - indent) + line[at:]


def _first_line(token: Token) -> int:
    assert token.map is not None
    return token.map[0]


@dataclass(frozen=True)
class _Lines:
    text: str
    starts: list[int]
    complete: int

    def settled(self, token: Token) -> bool:
        """True where no later text can make the line that the token starts in part of an earlier block."""
        line = _first_line(token)
        if token.type == "formula":  # what is written on its last line may still show that it is none
            return bool(token.meta["closed"]) and token.map is not None and token.map[1] <= self.complete
        if line < self.complete:
            return True
        words = self.text[self.starts[line] :].lstrip(" ")
        return token.type == "paragraph_open" and (words[:1].isalpha() or len(words) > _SURELY_WORDS)

    def indented(self, token: Token) -> bool:
        return self.text[self.starts[_first_line(token)]] in " \t"


def _boundary(tokens: list[Token], lines: _Lines) -> int:
    """Returns the index of the first token that later text may still change."""
    tops = [at for at, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0 and token.map is not None]
    while len(tops) > 1 and not lines.settled(tokens[tops[-1]]):
        tops.pop()
    if not tops:
        return 0
    last = tops[-1]
    if tokens[last].type not in ("bullet_list_open", "ordered_list_open"):
        return last
    items = (at for at in range(last + 2, len(tokens)) if _is_item(tokens[at]))
    settled = [at for at in items if lines.settled(tokens[at]) and not lines.indented(tokens[at])]
    return settled[-1] if settled else last


def _is_item(token: Token) -> bool:
    return token.type == "list_item_open" and token.level == 1
