"""Fonts, line pitches and character formats of the conversation, made once for a theme. Knows no message."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from PySide6.QtCore import QMarginsF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QTextCharFormat, QTextLayout

from desktop.chat.view.blocks import Span, Style, utf16_length
from desktop.chat.view.formulas import Drawn, FormulaBook, FormulaKey
from desktop.theme import Space, Theme

INDENT = 28.0  # one list level; a quote takes less
QUOTE_INDENT = float(Space.LARGE)
PARAGRAPH_GAP = float(Space.MEDIUM)
TIGHT_GAP = float(Space.TINY)
HEADING_GAP = float(Space.WIDE)
AFTER_HEADING = float(Space.SMALL)
CARD = QMarginsF(Space.LARGE, Space.MEDIUM, Space.LARGE, Space.MEDIUM)
_LINE_HEIGHT = 1.5
_LEAST_SMALL, _MOST_SMALL = 0.9, 1.25  # of names, numbers and buttons
_WIDTHS_KEPT = 20_000
_CELL_SEEN = 200  # characters of a cell; longer lines wrap in any case
_WORD_SEEN, _WORDS_SEEN = 24, 3  # characters of a word, and the longest ones of a cell
_IDEOGRAPHS = "\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef"  # a line may break between any two
_WORD = re.compile(rf"[{_IDEOGRAPHS}]{{1,5}}|[^\s/{_IDEOGRAPHS}-]+[/-]*|[/-]+")  # one of a few ideographs can be read
_HEADINGS = {1: 20 / 15, 2: 18 / 15, 3: 16 / 15}


@dataclass(slots=True)
class Dressed:
    """How a text looks: Qt's format ranges in UTF-16 units, and drawings of formulas, maybe more later."""

    formats: list[QTextLayout.FormatRange] = field(default_factory=list)
    drawn: list[Drawn] = field(default_factory=list)
    waits: bool = False


class TextStyle:
    """What laying out and painting need to know of a theme."""

    def __init__(
        self, theme: Theme, *, formulas: FormulaBook | None = None, ratio: float = 1.0, zoom: float = 1.0
    ) -> None:  # fmt: skip
        """`formulas` draws for a screen of `ratio` pixels a length; without it, formulas are shown as written.

        `zoom` makes the text larger or smaller, and with it, within the room they have, names and numbers.
        """
        self.theme = theme
        self.unit = max(zoom, 1.0)
        self.ratio = ratio
        self._formulas = formulas
        small = min(max(zoom, _LEAST_SMALL), _MOST_SMALL)
        self.chat_font = scaled(theme.chat_font, zoom)
        self.code_font = scaled(theme.code_font, zoom)
        self.quiet_font = scaled(theme.quiet_font, small)
        self.body_font = scaled(theme.body_font, small)
        self.name_font = scaled(theme.body_font, small)
        self.name_font.setWeight(QFont.Weight.DemiBold)
        self.pitch = pitch_of(self.chat_font)
        self.code_pitch = pitch_of(self.code_font)
        self.quiet_pitch = pitch_of(self.quiet_font)
        self._widths: dict[tuple[str, bool], float] = {}
        self._word_widths: dict[tuple[str, bool], float] = {}
        self._formats: dict[tuple[Style, bool], QTextCharFormat] = {}

    @cached_property
    def code_advance(self) -> float:
        """Width of one column of code, in pixels."""
        return QFontMetricsF(self.code_font).horizontalAdvance("M")

    @cached_property
    def chat_advance(self) -> float:
        """Mean width of a letter of running text, for estimates."""
        return QFontMetricsF(self.chat_font).averageCharWidth()

    def heading_font(self, level: int) -> QFont:
        """Returns the font of a heading, 1 the largest."""
        font = QFont(self.chat_font)
        font.setPixelSize(round(font.pixelSize() * _HEADINGS.get(level, 1.0)))
        font.setWeight(QFont.Weight.DemiBold)
        return font

    def bold(self) -> QFont:
        """Returns the font of a table's header."""
        font = QFont(self.chat_font)
        font.setWeight(QFont.Weight.DemiBold)
        return font

    def text_width(self, text: str, *, bold: bool) -> float:
        """Returns the width of the longest line of a table's cell."""
        key = (text, bold)
        if key not in self._widths:
            if len(self._widths) > _WIDTHS_KEPT:
                self._widths.clear()
            metrics = QFontMetricsF(self.bold() if bold else self.chat_font)
            self._widths[key] = max(metrics.horizontalAdvance(line[:_CELL_SEEN]) for line in text.split("\n"))
        return self._widths[key]

    def word_width(self, text: str, *, bold: bool) -> float:
        """Returns the width of the widest word of a table's cell; of a very long one, of its beginning."""
        key = (text, bold)
        if key not in self._word_widths:
            if len(self._word_widths) > _WIDTHS_KEPT:
                self._word_widths.clear()
            self._word_widths[key] = max((self.text_width(word, bold=bold) for word in words_of(text)), default=0.0)
        return self._word_widths[key]

    def code_width(self, text: str) -> float:
        """Returns the width of code inside a line."""
        return min(len(text), _CELL_SEEN) * self.code_advance * self._inline_code_size / self.code_font.pixelSize()

    @property
    def _inline_code_size(self) -> float:
        return self.code_font.pixelSize() + 0.5

    def format_of(self, style: Style, *, heading: bool = False) -> QTextCharFormat:
        """Returns the character format of a style."""
        key = (style, heading)
        if key not in self._formats:
            self._formats[key] = self._made_format(style, heading)
        return self._formats[key]

    def _made_format(self, style: Style, heading: bool) -> QTextCharFormat:
        made = QTextCharFormat()
        if style & (Style.CODE | Style.FORMULA):
            made.setFontFamilies(self.code_font.families() or [self.code_font.family()])
            made.setFontFixedPitch(True)
            if not heading:
                made.setProperty(QTextCharFormat.Property.FontPixelSize, self._inline_code_size)
        if style & Style.BOLD:
            made.setFontWeight(QFont.Weight.Bold)
        if style & Style.ITALIC:
            made.setFontItalic(True)
        made.setFontStrikeOut(bool(style & Style.STRIKE))
        if style & Style.LINK:
            made.setForeground(self.theme.accent)
            made.setFontUnderline(True)
        elif style & (Style.QUIET | Style.FORMULA):
            made.setForeground(self.theme.quiet)
        return made

    def colour_format(self, colour: QColor, *, italic: bool = False) -> QTextCharFormat:
        """Returns a format that only colours."""
        made = QTextCharFormat()
        made.setForeground(colour)
        if italic:
            made.setFontItalic(True)
        return made

    def dressed(
        self, text: str, spans: Iterable[Span], font: QFont, *, room: float, heading: bool = False
    ) -> Dressed:  # fmt: skip
        """Returns how a text with spans in code points looks; no drawing of a formula is wider than `room`."""
        made = Dressed()
        for start, end, span in utf16_spans(text, spans):
            drawn = None
            if span.style & Style.FORMULA and self._formulas is not None:
                key = FormulaKey(text[span.start : span.end], float(font.pixelSize()), self.ratio)
                drawn = self._formulas.drawing(key)
                made.waits = made.waits or not self._formulas.is_known(key)
            if drawn is None:
                made.formats.append(format_range(start, end, self.format_of(span.style, heading=heading)))
            else:
                made.drawn.append(Drawn(start, end, drawn, min(1.0, room / drawn.width)))
        return made


def words_of(text: str) -> list[str]:
    """Returns the longest words of a text, each cut to what a table's column may be made wide for."""
    return sorted({word[:_WORD_SEEN] for word in _WORD.findall(text)}, key=len)[-_WORDS_SEEN:]


def scaled(font: QFont, factor: float) -> QFont:
    """Returns a font so many times as large, in whole pixels."""
    made = QFont(font)
    made.setPixelSize(max(round(font.pixelSize() * factor), 1))
    return made


def pitch_of(font: QFont) -> float:
    """Returns the distance of two lines in `font`, in pixels."""
    return float(round(font.pixelSize() * _LINE_HEIGHT))


def format_range(start: int, end: int, made: QTextCharFormat) -> QTextLayout.FormatRange:
    """Returns a format range from `start` to `end`, in UTF-16 units."""
    found = QTextLayout.FormatRange()
    found.start, found.length, found.format = start, end - start, made
    return found


def utf16_spans(text: str, spans: Iterable[Span]) -> list[tuple[int, int, Span]]:
    """Returns each span with its start and end in UTF-16 units."""
    if text.isascii():
        return [(span.start, span.end, span) for span in spans]
    found = []
    at = units = 0
    for span in spans:  # in order, so the text is walked once
        units += utf16_length(text[at : span.start])
        length = utf16_length(text[span.start : span.end])
        found.append((units, units + length, span))
        at, units = span.end, units + length
    return found
