"""Text for a terminal: its width in cells, its wrapping, and nothing in it that could drive the terminal.

Knows nothing about where the text is printed.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence

_C0 = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t\r"}
_C1 = dict.fromkeys(range(0x80, 0xA0), "\ufffd")
# A carriage return would let a later text write over an earlier one; line feeds alone end lines here.
_VISIBLE = {**_C0, **_C1, 0x7F: "␡", ord("\r"): None}


def harmless(text: str) -> str:
    """Returns `text` with control characters made visible, so that it can colour, move or answer nothing."""
    return text.translate(_VISIBLE)


def one_line(text: str, *, line_end: str = "␊") -> str:
    """Returns `text` harmless and on one line; `line_end` stands where it ended lines."""
    return harmless(text).replace("\n", line_end)


def shown_path(path: str | os.PathLike[str]) -> str:
    """Returns a path as it can be printed: bytes that are no text as U+FFFD, control characters visible."""
    return harmless(os.fsencode(path).decode("utf-8", "replace")).replace("\n", "␊")


def cell_width(text: str) -> int:
    """Returns how many terminal cells `text` takes: two for wide characters, none for combining ones."""
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, cells: int) -> str:
    """Returns `text` shortened to `cells` cells, with an ellipsis where something was cut."""
    if cell_width(text) <= cells:
        return text
    kept, used = "", 0
    for character in text:
        used += _cells(character)
        if used > cells - 1:
            break
        kept += character
    return kept + "…"


def wrapped(text: str, cells: int) -> list[str]:
    """Returns the lines of one paragraph. A line may break at a space and beside a wide character."""
    lines = [""]
    for chunk in _chunks(text):
        if lines[-1] and cell_width(lines[-1] + chunk.rstrip()) > cells:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
            chunk = chunk.lstrip()
        lines[-1] += chunk
    return [line.rstrip() for line in lines]


def _chunks(text: str) -> Iterator[str]:
    """Yields the pieces between which a line may break; brackets and quotes stay with what they enclose."""
    chunk = ""
    for character in text:
        together = unicodedata.category(character) in ("Pe", "Po", "Pf") or character == " "
        if chunk and not together and _may_end(chunk[-1], before_wide=_cells(character) == 2):
            yield chunk
            chunk = ""
        chunk += character
    if chunk:
        yield chunk


def _may_end(character: str, *, before_wide: bool) -> bool:
    """Returns whether a line may end with a character that has another one after it."""
    if unicodedata.category(character) in ("Ps", "Pi"):  # an opening mark
        return False
    return before_wide or character == " " or _cells(character) == 2


def two_columns(rows: Iterable[tuple[str, str]], cells: int, *, left_limit: int = 30) -> list[str]:
    """Returns lines with a term on the left and its text beside it, or below it where the term is long."""
    rows = list(rows)
    fitting = [cell_width(term) for term, _text in rows if cell_width(term) <= left_limit]
    left = max(fitting, default=left_limit) + 4
    lines: list[str] = []
    for term, text in rows:
        beside = wrapped(text, max(20, cells - left))
        head = "  " + term
        if cell_width(head) + 2 > left:
            lines.append(head)
        else:
            lines.append((head + " " * (left - cell_width(head)) + beside.pop(0)).rstrip())
        lines += [" " * left + line for line in beside]
    return lines


def columns(rows: Sequence[Sequence[str]], *, right: Collection[int] = (), cells: int = 0) -> list[str]:
    """Returns rows as lines whose cells stand below each other; columns named in `right` end below each other.

    Where that needs more than `cells`, each row becomes a paragraph, its first cell above the others.
    """
    widths = [max(cell_width(row[number]) for row in rows) for number in range(len(rows[0]))] if rows else []
    if cells and sum(widths) + 2 * (len(widths) - 1) > cells:
        return ["\n".join(_stacked(row, cells)) for row in rows]
    return ["  ".join(_padded(row, widths, right)).rstrip() for row in rows]


def _stacked(row: Sequence[str], cells: int) -> Iterator[str]:
    first, *others = row
    if first:
        yield from _folded(first, cells)
    for other in filter(None, others):
        yield from ("  " + line for line in _folded(other, max(2, cells - 2)))


def _folded(text: str, cells: int) -> Iterator[str]:
    """Yields a cell's lines; words that are longer than a line are cut into pieces."""
    for line in wrapped(text, cells):
        piece = ""
        for character in line:
            if piece and cell_width(piece + character) > cells:
                yield piece
                piece = ""
            piece += character
        yield piece


def _padded(row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> Iterator[str]:
    for number, (cell, cells) in enumerate(zip(row, widths, strict=True)):
        space = " " * (cells - cell_width(cell))
        yield space + cell if number in right else cell + space
