"""Breaks a text that arrives in pieces between its words, so that a terminal does not break it inside one.

Knows nothing about where the text is printed. Lines between ``` marks keep their own length: they are code, and
somebody will copy them.
"""

from __future__ import annotations

from collections.abc import Callable

from desktop.cli.layout import cell_width

_FENCE = "```"


class WordWrap:
    """Holds the word that is being written until it is known whether it fits. `cells` tells the width of a line."""

    def __init__(self, cells: Callable[[], int]) -> None:
        self._cells = cells
        self._column = 0
        self._word = ""
        self._line_start = ""
        self._fenced = False

    def feed(self, text: str) -> str:
        """Returns what can be printed now."""
        return "".join(map(self._next, text))

    def finish(self) -> str:
        """Returns what was held back."""
        return self._release()

    def _next(self, character: str) -> str:
        if character == "\n":
            return self._end_line()
        if len(self._line_start) < len(_FENCE):
            self._line_start = (self._line_start + character).lstrip()
        if character == " ":
            return self._release() + self._space()
        if character == "\t" or cell_width(character) == 2:  # the terminal breaks beside wide characters, as is right
            return self._release() + self._put(character)
        self._word += character
        return self._release() if cell_width(self._word) >= self._cells() else ""

    def _space(self) -> str:
        """A space that does not fit becomes the break itself, or the next line would begin with it."""
        if self._column < self._cells() or self._keeps_lines():
            return self._put(" ")
        self._column = 0
        return "\n"

    def _keeps_lines(self) -> bool:
        return self._fenced or self._line_start == _FENCE

    def _end_line(self) -> str:
        out = self._release() + "\n"
        if self._line_start == _FENCE:
            self._fenced = not self._fenced
        self._column, self._line_start = 0, ""
        return out

    def _release(self) -> str:
        word, self._word = self._word, ""
        too_long = self._column + cell_width(word) > self._cells()
        if word and self._column and too_long and not self._keeps_lines():
            self._column = 0
            return "\n" + self._put(word)
        return self._put(word)

    def _put(self, text: str) -> str:
        self._column += cell_width(text)
        if self._column > self._cells():
            self._column %= self._cells()
        return text
