"""What a message is made of once its markdown is read: flat blocks with styled text. Knows no font and no width.

Containers (quotes, list items) are not nested blocks but frames around flat ones, so that a long answer stays a plain
list in which only the tail changes. A new kind of block is a new `BlockKind`, a rule that makes it in `markdown`, and
an entry in the table of `segments`.
"""

from __future__ import annotations

import enum
import unicodedata
from dataclasses import dataclass


class BlockKind(enum.Enum):
    """What a block is."""

    PLAIN = "plain"  # text exactly as typed
    PARAGRAPH = "paragraph"
    HEADING = "heading"
    CODE = "code"
    TABLE = "table"
    RULE = "rule"
    FORMULA = "formula"  # on lines of its own
    REASONING = "reasoning"  # the line that folds and unfolds what a model thought; `label` is its newest line


class Style(enum.IntFlag):
    """How a stretch of text looks."""

    BOLD = 1
    ITALIC = 2
    STRIKE = 4
    CODE = 8
    LINK = 16
    QUIET = 32
    FORMULA = 64


class FrameKind(enum.Enum):
    """What surrounds a block."""

    QUOTE = "quote"
    ITEM = "item"
    THOUGHT = "thought"  # part of a model's reasoning


class Align(enum.Enum):
    """How a table's column stands."""

    LEFT = "left"
    CENTER = "center"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Frame:
    """A quote or list item around a block. The first block in an item carries its `marker` ("•", "3.")."""

    kind: FrameKind
    marker: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """`style` from `start` to `end`, in code points of the text it belongs to; `href` is http or https."""

    start: int
    end: int
    style: Style
    href: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """A block's shown `text` and where its source stands: `source[start:end]`, whole lines.

    `follows_blank` tells loose from tight lists; `continued` marks the next part of a very long paragraph. For a table
    `text` is its cells joined by tabs and line breaks, and `rows` holds the same cells, the header first.
    """

    kind: BlockKind
    text: str
    start: int
    end: int
    spans: tuple[Span, ...] = ()
    frames: tuple[Frame, ...] = ()
    follows_blank: bool = False
    continued: bool = False
    level: int = 0
    language: str = ""
    closed: bool = True
    rows: tuple[tuple[Cell, ...], ...] = ()
    aligns: tuple[Align, ...] = ()
    label: str = ""

    @property
    def thought(self) -> bool:
        """True for a part of a model's reasoning."""
        return bool(self.frames) and self.frames[0].kind is FrameKind.THOUGHT

    @property
    def in_list(self) -> bool:
        """True inside a list item."""
        return any(frame.kind is FrameKind.ITEM for frame in self.frames)


def table_text(rows: tuple[tuple[Cell, ...], ...]) -> str:
    """Returns the text of a table: cells joined by tabs, rows by line breaks."""
    return "\n".join("\t".join(cell.text for cell in row) for row in rows)


_SHOWN = {code: 0x2400 + code for code in range(0x20) if code not in (0x09, 0x0A)}
_SHOWN |= dict.fromkeys((0x0000, 0x202D, 0x202E, 0xFFFC), 0xFFFD)  # overrides could spoof a name: one visible mark
_SHOWN |= dict.fromkeys((0x202A, 0x202B, 0x202C, 0x2066, 0x2067, 0x2068, 0x2069), 0x2060)
_SHOWN |= dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)  # Qt would drop lone surrogates and shift every position
_SHOWN |= {0x7F: 0x2421, 0x0A: 0x2028, 0x2029: 0x2028}  # one paragraph for Qt, with line breaks inside


def displayable(text: str) -> str:
    """Returns `text` as it is handed to Qt: the same length in UTF-16, nothing that reorders or hides other text."""
    return text.translate(_SHOWN)


def is_right_to_left(text: str) -> bool:
    """True where the first strong character is Hebrew, Arabic or another right-to-left letter."""
    for char in text:
        direction = unicodedata.bidirectional(char)
        if direction in ("L", "R", "AL"):
            return direction != "L"
    return False


def utf16_length(text: str) -> int:
    """Returns the length in UTF-16 units, in which Qt counts."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def utf16_slice(text: str, start: int, end: int) -> str:
    """Returns the part of `text` between two positions counted in UTF-16 units."""
    if text.isascii():
        return text[start:end]
    units = text.encode("utf-16-le", "surrogatepass")
    return units[2 * start : 2 * end].decode("utf-16-le", "replace" if _splits(units, start, end) else "surrogatepass")


def _splits(units: bytes, start: int, end: int) -> bool:
    return any(2 * at < len(units) and 0xDC <= units[2 * at + 1] <= 0xDF for at in (start, end))


PLAIN_PART = 2000  # characters of one laid-out part: small enough to lay out in a few milliseconds


def plain_blocks(text: str, *, size: int = PLAIN_PART) -> list[Block]:
    """Returns `text` as typed, in parts of at most about `size` characters, each of one direction."""
    blocks: list[Block] = []
    start = 0
    for end in _plain_cuts(text, size):
        shown = text[start:end].removesuffix("\n").removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n")
        whole_line = start == 0 or text[start - 1] in "\r\n"
        blocks.append(Block(BlockKind.PLAIN, shown, start, end, continued=not whole_line))
        start = end
    return blocks


def _plain_cuts(text: str, size: int) -> list[int]:
    """Where parts end: at a change of direction, or at the last line (else word, else character) that still fits."""
    cuts: list[int] = []
    start = line = 0
    direction: bool | None = None
    while line < len(text):
        end = text.find("\n", line) + 1 or len(text)
        turned = _direction(text[line : min(end, line + size)])
        if line > start and (end - start > size or (None not in (turned, direction) and turned != direction)):
            cuts.append(line)
            start, direction = line, None
        while end - start > size:
            start = text.rfind(" ", start + size // 2, start + size) + 1 or start + size
            cuts.append(start)
        direction = turned if turned is not None else direction
        line = end
    return [*cuts, len(text)] if start < len(text) else cuts


def _direction(line: str) -> bool | None:
    strong = (unicodedata.bidirectional(char) for char in line)
    first = next((kind for kind in strong if kind in ("L", "R", "AL")), None)
    return None if first is None else first != "L"
