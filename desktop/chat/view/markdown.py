"""Markdown into flat blocks, with markdown-it's block and inline parsers. Knows nothing about streaming or drawing.

CommonMark with tables and strikethrough. HTML, entities and reference definitions are off: angle brackets and
ampersands stay as written, and no line further down changes a paragraph already shown. Formulas keep their source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from desktop.chat.view.blocks import Align, Block, BlockKind, Cell, Frame, FrameKind, Span, Style, table_text
from desktop.chat.view.formula_rules import block_rule, inline_rule

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

_DEEPEST = 30  # containers; deeper marks are shown as text, where markdown-it would drop what follows
_WEB = ("http://", "https://")
_ADDRESS = re.compile(r"https?://[^\s<>\"'`，。；！？、（）「」]+")
_MARKS = {
    "strong_open": Style.BOLD, "em_open": Style.ITALIC, "s_open": Style.STRIKE,
}  # fmt: skip
_SPACES = " \t\n\r\v\f"  # what CommonMark trims
_PLAIN = Style(0)
_BULLETS = ("•", "◦", "▪")
_TASKS = {"[ ] ": "☐", "[x] ": "☑", "[X] ": "☑"}


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # after the first paint: nothing to show needs it before

    made = MarkdownIt("commonmark", {"html": False, "maxNesting": 4 * _DEEPEST})
    made.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline", "entity"])
    made.validateLink = lambda url: url.lower().startswith(_WEB)  # type: ignore[method-assign]
    made.inline.ruler.before("escape", "formula", inline_rule)
    made.block.ruler.before("table", "formula", block_rule, {"alt": ["paragraph", "blockquote", "list"]})
    rules = {rule.name: rule for rule in made.block.ruler.__rules__}
    for name in ("blockquote", "list"):
        made.block.ruler.at(name, _bounded(rules[name].fn), {"alt": rules[name].alt})
    for name in ("table", "lheading"):
        made.block.ruler.at(name, _not_in_long_paragraph(rules[name].fn), {"alt": rules[name].alt})
    return made


_Rule = Callable[["StateBlock", int, int, bool], bool]


def _bounded(rule: _Rule) -> _Rule:
    def bounded(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        return state.level < 2 * _DEEPEST and rule(state, start, end, silent)

    return bounded


def _not_in_long_paragraph(rule: _Rule) -> _Rule:
    """A paragraph whose beginning was already set apart can no longer become a heading or a table."""

    def guarded(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        if start == 0 and state.env.get("continued"):
            return False
        before, parent = len(state.tokens), state.parentType
        if not rule(state, start, end, silent):
            return False
        if silent or state.level or state.tokens[before].type != "heading_open":
            return True
        limit = state.env["limit"]
        if not paragraph_cut(state.src[state.bMarks[start] : state.bMarks[state.line - 1]], limit):
            return True
        del state.tokens[before:]
        state.parentType, state.line = parent, start
        return False

    return guarded


def tokens_of(source: str, *, continued: bool, limit: int) -> list[Token]:
    """Returns markdown-it's block tokens. `continued` reads the first line as the rest of a paragraph."""
    tokens: list[Token] = []
    normal = source.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    if normal.strip():
        prefix = CONTINUES if continued else ""
        parser = _parser()
        parser.block.parse(prefix + normal, parser, {"continued": continued, "limit": limit}, tokens)
    return tokens


CONTINUES = "x "  # stands before a continued paragraph, so that its first word opens no list, heading or fence


def paragraph_cut(text: str, limit: int) -> int:
    """Where a paragraph longer than `limit` is set apart, 0 where it is not. Decided by the text before the cut alone.

    After a sentence if one ends soon, else after a word, else anywhere; and only inside a line.
    """
    if len(text) <= limit:
        return 0
    for pattern, begin, end in _cut_patterns(limit):
        found = pattern.search(text, begin, end)
        if found:
            return found.end()
    at = 2 * limit
    return at if text[at : at + 1].strip() else 0


@cache
def _cut_patterns(limit: int) -> tuple[tuple[re.Pattern[str], int, int], ...]:
    sentence = re.compile(r"(?:[.!?…:;][ ]+|[。！？；])(?=[^\s。！？；”’」』）)])")
    return (sentence, limit, limit + limit // 2), (re.compile(r" +(?=\S)"), limit + limit // 2, 2 * limit)


@lru_cache(maxsize=2048)
def inline(content: str) -> tuple[str, tuple[Span, ...]]:
    """Returns the shown text of inline markdown, and its styled stretches."""
    parser = _parser()
    tokens: list[Token] = []
    parser.inline.parse(content, parser, {}, tokens)
    writer = _InlineWriter()
    for token in tokens:
        writer.write(token)
    return "".join(writer.parts), tuple(writer.spans)


@dataclass
class _InlineWriter:
    parts: list[str] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    length: int = 0
    styles: list[Style] = field(default_factory=list)
    hrefs: list[str] = field(default_factory=list)

    def write(self, token: Token) -> None:
        if token.type in _MARKS:
            self.styles.append(_MARKS[token.type])
        elif token.type == "link_open":
            self.styles.append(Style.LINK)
            self.hrefs.append(str(token.attrs.get("href", "")))
        elif token.nesting < 0:
            if self.styles.pop() is Style.LINK:
                self.hrefs.pop()
        elif token.type in ("softbreak", "hardbreak"):
            self.put("\n")
        elif token.type == "code_inline":
            self.put(token.content, Style.CODE)
        elif token.type == "formula":
            self.put(token.content, Style.FORMULA)
        elif token.type == "image":
            self.put(_image_text(token), Style.QUIET)
        elif self.hrefs:
            self.put(token.content)
        else:
            self.put_with_addresses(token.content)

    def put(self, text: str, extra: Style = _PLAIN, href: str = "") -> None:
        style = extra
        for mark in self.styles:
            style |= mark
        end = self.length + len(text)
        if style and text:
            self.spans.append(Span(self.length, end, style, href or (self.hrefs[-1] if self.hrefs else "")))
        self.parts.append(text)
        self.length = end

    def put_with_addresses(self, text: str) -> None:
        at = 0
        for found in _ADDRESS.finditer(text):
            address = _without_trailing_marks(found.group())
            self.put(text[at : found.start()])
            self.put(address, Style.LINK, _parser().normalizeLink(address))
            at = found.start() + len(address)
        self.put(text[at:])


def _without_trailing_marks(address: str) -> str:
    address = address.rstrip(".,:;!?*_~")
    while address.endswith(")") and address.count(")") > address.count("("):
        address = address[:-1].rstrip(".,:;!?*_~")
    return address


def _image_text(token: Token) -> str:
    alt = "".join(child.content for child in token.children or ()) or token.content
    return " ".join(part for part in (alt, f"({token.attrs.get('src', '')})") if part)


@dataclass
class ListContext:
    """The list that an earlier part of the text was in: its mark and the number its next item has."""

    mark: str = ""
    number: int = 1


class BlockBuilder:
    """Turns tokens into blocks. `starts` holds the offset of each line, and the end, in the whole source."""

    def __init__(
        self, source: str, starts: Sequence[int], *, limit: int, context: ListContext, blank_before: bool,
        continued: bool,
    ) -> None:  # fmt: skip
        self.blocks: list[Block] = []
        self.lists: list[ListContext] = []
        self._source, self._starts, self._limit = source, starts, limit
        self._context, self._blank_before, self._continued = context, blank_before, continued
        self._frames: list[Frame] = []
        self._item_lines: list[int] = []
        self._table: _TableWriter | None = None
        self._level = 0

    def build(self, tokens: Sequence[Token]) -> list[Block]:
        """Returns the blocks of a run of tokens that is balanced."""
        self.blocks = []
        for token in tokens:
            if self._table is not None and token.type != "table_close":
                self._table.write(token)
            else:
                getattr(self, f"_{token.type}", _ignore)(token)
        return self.blocks

    def _blockquote_open(self, token: Token) -> None:
        self._frames.append(Frame(FrameKind.QUOTE))

    def _blockquote_close(self, token: Token) -> None:
        self._frames.pop()

    def _bullet_list_open(self, token: Token) -> None:
        self.lists.append(ListContext(mark=token.markup))

    def _ordered_list_open(self, token: Token) -> None:
        goes_on = _lines(token)[0] == 0 and not self._frames and self._context.mark == token.markup
        number = self._context.number if goes_on else int(token.attrs.get("start", 1))
        self.lists.append(ListContext(mark=token.markup, number=number))

    def _bullet_list_close(self, token: Token) -> None:
        self.lists.pop()

    _ordered_list_close = _bullet_list_close

    def _list_item_open(self, token: Token) -> None:
        current = self.lists[-1]
        marker = _BULLETS[min(len(self.lists), 3) - 1] if current.mark in "-+*" else f"{current.number}{current.mark}"
        current.number += 1
        self._frames.append(Frame(FrameKind.ITEM, marker))
        self._item_lines.append(_lines(token)[0])

    def _list_item_close(self, token: Token) -> None:
        if self._frames[-1].marker:
            self._add(BlockKind.PARAGRAPH, token, "", lines=(self._item_lines[-1], self._item_lines[-1] + 1))
        self._frames.pop()
        self._item_lines.pop()

    def _heading_open(self, token: Token) -> None:
        self._level = int(token.tag[1:])

    def _heading_close(self, token: Token) -> None:
        self._level = 0

    def _inline(self, token: Token) -> None:
        if self._level:
            text, spans = inline(token.content)
            self._add(BlockKind.HEADING, token, text, spans=spans, level=self._level)
        elif self._frames:
            text, spans = inline(self._without_task(token.content))
            self._add(BlockKind.PARAGRAPH, token, text, spans=spans)
        else:
            first, last = _lines(token)
            self._long_paragraph(token, self._starts[first], self._starts[last])

    def _without_task(self, content: str) -> str:
        mark = _TASKS.get(content[:4]) if self._frames[-1].marker else None
        if mark is None:
            return content
        self._frames[-1] = replace(self._frames[-1], marker=mark)
        return content[4:]

    def _long_paragraph(self, token: Token, start: int, end: int) -> None:
        raw = self._source[start - self._starts[0] : end - self._starts[0]]
        goes_on = self._continued and _lines(token)[0] == 0
        content = token.content.removeprefix(CONTINUES) if goes_on else token.content
        while cut := paragraph_cut(raw, self._limit):
            self._part(raw[:cut].strip(_SPACES), start, start + cut, token, continued=goes_on)
            raw, start, goes_on = raw[cut:], start + cut, True
            content = raw.strip(_SPACES)
        self._part(content, start, end, token, continued=goes_on)

    def _part(self, content: str, start: int, end: int, token: Token, *, continued: bool) -> None:
        text, spans = inline(content.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd"))
        blank = not continued and self._follows_blank(_lines(token)[0])
        self.blocks.append(
            Block(BlockKind.PARAGRAPH, text, start, end, spans, follows_blank=blank, continued=continued)
        )

    def _fence(self, token: Token) -> None:
        first, last = _lines(token)
        line = self._line(last - 1)
        closed = last - first > 1 and is_closing(line.strip(" \t>") if self._frames else line, token.markup)
        words = token.info.split()
        self._add(
            BlockKind.CODE, token, token.content.removesuffix("\n"),
            language=words[0] if words else "", closed=closed,
        )  # fmt: skip

    def _code_block(self, token: Token) -> None:
        self._add(BlockKind.CODE, token, token.content.removesuffix("\n"))

    def _formula(self, token: Token) -> None:
        """A formula that nothing closes is text, untouched."""
        kind = BlockKind.FORMULA if token.meta["closed"] else BlockKind.PARAGRAPH
        self._add(kind, token, token.content)

    def _hr(self, token: Token) -> None:
        self._add(BlockKind.RULE, token, "")

    def _table_open(self, token: Token) -> None:
        self._table = _TableWriter(token)

    def _table_close(self, token: Token) -> None:
        assert self._table is not None
        rows = tuple(tuple(row) for row in self._table.rows)
        aligns = tuple(self._table.aligns)
        self._add(BlockKind.TABLE, self._table.token, table_text(rows), rows=rows, aligns=aligns)
        self._table = None

    def _add(self, kind: BlockKind, token: Token, text: str, *, lines: tuple[int, int] = (0, 0), **more: Any) -> None:
        first, last = lines if lines[1] else _lines(token)
        last = min(last, len(self._starts) - 1)
        fresh = [line for frame, line in zip(self._item_frames(), self._item_lines, strict=True) if frame.marker]
        first = min([first, *fresh])
        block = Block(
            kind, text, self._starts[first], self._starts[last],
            frames=tuple(self._frames), follows_blank=self._follows_blank(first), **more,
        )  # fmt: skip
        self.blocks.append(block)
        self._frames = [replace(frame, marker="") if frame.marker else frame for frame in self._frames]

    def _item_frames(self) -> list[Frame]:
        return [frame for frame in self._frames if frame.kind is FrameKind.ITEM]

    def _follows_blank(self, line: int) -> bool:
        return is_blank(self._line(line - 1)) if line else self._blank_before

    def _line(self, number: int) -> str:
        base = self._starts[0]
        return self._source[self._starts[number] - base : self._starts[number + 1] - base].rstrip("\r\n")


class _TableWriter:
    def __init__(self, token: Token) -> None:
        self.token = token
        self.rows: list[list[Cell]] = []
        self.aligns: list[Align] = []

    def write(self, token: Token) -> None:
        if token.type == "tr_open":
            self.rows.append([])
        elif token.type == "th_open":
            style = str(token.attrs.get("style", ""))
            self.aligns.append(next((align for align in Align if align.value in style), Align.LEFT))
        elif token.type == "inline":
            self.rows[-1].append(Cell(*inline(token.content)))


def is_blank(line: str) -> bool:
    """True for a line without words, inside quotes too."""
    return not line.strip(" \t\r\n>")


def is_closing(line: str, markup: str) -> bool:
    """True where `line` closes a fence that `markup` opened."""
    return re.fullmatch(rf" {{0,3}}{re.escape(markup[0])}{{{len(markup)},}}[ \t]*", line) is not None


def _lines(token: Token) -> tuple[int, int]:
    assert token.map is not None
    return token.map[0], token.map[1]


def _ignore(token: Token) -> None:
    """Paragraph marks say nothing that their inline token does not."""
