"""Code blocks: their lines in parts, the ground behind them, the language's name. Knows no lexer."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPen, QTextLayout

from desktop.chat.view.blocks import Block, utf16_length
from desktop.chat.view.highlight import Pieces, code_formats
from desktop.chat.view.segments import Canvas, Segment
from desktop.chat.view.style import TextStyle
from desktop.chat.view.text_run import TextRun
from desktop.theme import Corner, Space

CODE_LINES = 40  # in one segment
CODE_HEAD = 32.0
CODE_PAD = float(Space.MEDIUM)


@dataclass(frozen=True, slots=True)
class CodePart:
    """Some lines of a block's text: where they start in code points (`at`), UTF-16 units (`base`) and lines."""

    text: str
    at: int
    base: int
    line: int
    first: bool
    last: bool


class CodeSegment(Segment):
    """Some lines of a code block; the first carries the language and the copy button, the last the lower corners."""

    def __init__(self, block: Block, index: int, *, part: CodePart) -> None:
        super().__init__(block, index)
        self.part = part
        self.base = part.base
        self.highlights: Sequence[Pieces] | None = None

    def same_as(self, other: Segment) -> bool:
        return (
            isinstance(other, CodeSegment)
            and self.part == other.part
            and _looks(self.block) == _looks(other.block)
        )

    @property
    def _top(self) -> float:
        if not self.part.first:
            return 0.0
        return CODE_HEAD if self.block.language else CODE_PAD  # without a name, the button is beside the code

    def _room(self, width: float) -> float:
        """Returns the width of the code's lines."""
        beside = CODE_HEAD if self.part.first and not self.block.language else 0.0
        return max(width - self.indent - 2 * CODE_PAD - beside, 40.0)

    @property
    def _bottom(self) -> float:
        return CODE_PAD if self.part.last else 0.0

    def estimate(self, style: TextStyle, width: float) -> None:
        columns = max(int(self._room(width) / style.code_advance), 4)
        rows = sum(max(1, math.ceil(_columns(line) / columns)) for line in self.part.text.split("\n"))
        self.height = self._top + rows * style.code_pitch + self._bottom

    def lay(self, style: TextStyle, width: float) -> None:
        run = TextRun(self.part.text, base=self.part.base, x=self.indent + CODE_PAD, y=self._top)
        run.lay(
            width=self._room(width), font=style.code_font, formats=self._formats(style), hanging=True,
        )  # fmt: skip
        self.runs = [run]
        self.column = width
        self.height = self._top + run.height + self._bottom
        self.laid = True

    def _formats(self, style: TextStyle) -> list[QTextLayout.FormatRange]:
        return code_formats(self.part.text, self.highlights, self.part.line, style) if self.highlights else []

    @property
    def ground(self) -> QRectF:
        """The area behind the code, in the segment."""
        return QRectF(self.indent, 0, self.column - self.indent, self.height)

    @property
    def copy_rect(self) -> QRectF:
        """The copy button, in the segment; empty where another segment carries it."""
        if not self.part.first:
            return QRectF()
        return QRectF(self.ground.right() - CODE_HEAD - 2, 2, CODE_HEAD - 2, CODE_HEAD - 4)

    def paint(self, canvas: Canvas, origin: QPointF, selection: tuple[int, int]) -> None:
        painter, theme = canvas.painter, canvas.style.theme
        painter.save()
        ground = self.ground.translated(origin)
        painter.setClipRect(ground.adjusted(-1, 0, 1, 0), Qt.ClipOperation.IntersectClip)
        tall = ground.adjusted(0.5, 0.5 if self.part.first else -20, -0.5, -0.5 if self.part.last else 20)
        painter.setPen(QPen(theme.border, 1))
        painter.setBrush(theme.code_background)
        painter.drawRoundedRect(tall, Corner.CONTROL, Corner.CONTROL)
        painter.restore()
        if self.part.first and self.block.language:
            self._paint_language(canvas, ground)
        painter.setPen(theme.text)
        super().paint(canvas, origin, selection)

    def _paint_language(self, canvas: Canvas, ground: QRectF) -> None:
        font = canvas.style.quiet_font
        canvas.painter.setFont(font)
        canvas.painter.setPen(canvas.style.theme.quiet)
        head = QRectF(ground.x() + CODE_PAD, ground.y(), ground.width() - 60, CODE_HEAD)
        name = QFontMetricsF(font).elidedText(self.block.language, Qt.TextElideMode.ElideRight, head.width())
        canvas.painter.drawText(head, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, name)

    def _paint_frames(self, canvas: Canvas, origin: QPointF) -> None:
        super()._paint_frames(canvas, origin)
        canvas.painter.setPen(canvas.style.theme.text)


def _columns(line: str) -> int:
    line = line.expandtabs(4)
    if line.isascii():
        return len(line)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


def code_segments(block: Block, index: int, old: Sequence[Segment]) -> list[Segment]:
    """Cuts a code block in parts. Parts of a shorter `old` block that this one goes on from are kept, not cut anew."""
    kept: list[Segment] = []
    at = base = line = 0
    if old and isinstance(old[-1], CodeSegment) and len(old) > 1 and block.text.startswith(old[-1].block.text):
        kept = list(old[:-1])
        at, base, line = old[-1].part.at, old[-1].part.base, old[-1].part.line
    lines = block.text[at:].split("\n")
    made: list[Segment] = []
    for start in range(0, len(lines), CODE_LINES):
        some = lines[start : start + CODE_LINES]
        text = "\n".join(some)
        part = CodePart(text, at, base, line, first=line == 0, last=start + CODE_LINES >= len(lines))
        made.append(CodeSegment(block, index, part=part))
        at, base, line = at + len(text) + 1, base + utf16_length(text) + 1, line + len(some)
    if kept and block.closed:
        _take_closed(kept, block)
    return kept + made


def _take_closed(segments: Sequence[Segment], block: Block) -> None:
    """Gives the parts their whole block; those laid out while it was open are laid out again, with colours."""
    for segment in segments:
        segment.laid = segment.laid and _looks(segment.block) == _looks(block)
        segment.block = block


def _looks(block: Block) -> tuple[object, ...]:
    return block.language, block.frames, block.closed  # only closed code has colours
