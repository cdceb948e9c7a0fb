"""Colours for closed code blocks, worked out with pygments a few milliseconds at a time. Knows no layout."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QTextLayout

from desktop.background import Background
from desktop.chat.view.blocks import Block, utf16_length
from desktop.chat.view.style import TextStyle, format_range

Pieces = list[tuple[int, int, str]]  # start, end in UTF-16 units of the line, kind
_SLICE = 0.006  # seconds of work between two turns of the event loop
_KEPT = 200  # code blocks whose colours are remembered
_LONGEST = 400_000  # characters; longer code is read as plain text
_KINDS = frozenset({
    "Comment", "Keyword", "String", "Number", "Builtin", "Function", "Class", "Decorator", "Tag", "Deleted", "Inserted",
})  # fmt: skip


class Highlighter(QObject):
    """Answers at once with what it knows of a code block, and says when it knows more."""

    ready = Signal(str, str)  # language, text

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: OrderedDict[tuple[str, str], list[Pieces]] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._work: Iterator[None] | None = None
        self._lexers: dict[str, Any] = {}  # by language; None where pygments knows it not
        self._fetched = ""  # the language whose lexer is on its way
        self._background = Background(self)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._step)

    def lines_of(self, block: Block) -> Sequence[Pieces] | None:
        """Returns the coloured pieces of each line; None while they are not known, and then the block is queued."""
        if not block.closed or not block.language or len(block.text) > _LONGEST:
            return None
        key = (block.language, block.text)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        self._waiting[key] = None
        if not self._timer.isActive():
            self._timer.start(0)
        return None

    def _step(self) -> None:
        until = time.perf_counter() + _SLICE
        while time.perf_counter() < until:
            if self._work is None and not self._begin():
                return
            if self._work is not None and next(self._work, self) is self:
                self._work = None
        self._timer.start(0)

    def _begin(self) -> bool:
        """Begins with the next block; returns False where none waits, or its lexer first has to be brought."""
        if not self._waiting:
            return False
        language, text = next(iter(self._waiting))
        if language not in self._lexers:
            if self._fetched != language:
                self._fetched = language
                self._background.run(lambda: _lexer(language), lambda lexer: self._take_lexer(language, lexer))
            return False
        del self._waiting[language, text]
        self._work = self._read(language, text)
        return True

    def _take_lexer(self, language: str, lexer: Any) -> None:
        self._lexers[language], self._fetched = lexer, ""
        self._timer.start(0)

    def _read(self, language: str, text: str) -> Iterator[None]:
        lines: list[Pieces] = [[]]
        at = 0
        lexer = self._lexers[language]
        for number, (kind, value) in enumerate(lexer.get_tokens(text) if lexer is not None else ()):
            at = _add(lines, at, _kind_of(kind), value)
            if number % 64 == 0:
                yield
        self._known[language, text] = lines
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        self.ready.emit(language, text)


def _lexer(language: str) -> Any:
    """Returns what reads a language, for a thread: bringing it takes up to a tenth of a second, once."""
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]  # only where there is code to colour
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
        next(iter(lexer.get_tokens("x")), None)  # some make their tables only now
    except ClassNotFound:
        return None
    return lexer


def _kind_of(token: object) -> str:
    names = str(token).split(".")
    return next((name for name in reversed(names) if name in _KINDS), "")


def _add(lines: list[Pieces], at: int, kind: str, value: str) -> int:
    for number, part in enumerate(value.split("\n")):
        if number:
            lines.append([])
            at = 0
        end = at + utf16_length(part)
        if kind and part:
            lines[-1].append((at, end, kind))
        at = end
    return at


def code_formats(
    text: str, lines: Sequence[Pieces], first: int, style: TextStyle
) -> list[QTextLayout.FormatRange]:
    """Returns the format ranges of some lines of code, the first of which is line `first` of the block."""
    colours = {
        "Comment": style.theme.quiet, "Keyword": style.theme.accent, "Tag": style.theme.accent,
        "String": style.theme.good, "Inserted": style.theme.good, "Deleted": style.theme.bad,
        "Number": style.theme.bad, "Builtin": style.theme.caution, "Decorator": style.theme.caution,
        "Function": style.theme.caution, "Class": style.theme.caution,
    }  # fmt: skip
    formats = {kind: style.colour_format(colour, italic=kind == "Comment") for kind, colour in colours.items()}
    ranges, at = [], 0
    for number, line in enumerate(text.split("\n"), start=first):
        pieces = lines[number] if number < len(lines) else ()
        ranges += [format_range(at + start, at + end, formats[kind]) for start, end, kind in pieces]
        at += utf16_length(line) + 1
    return ranges
