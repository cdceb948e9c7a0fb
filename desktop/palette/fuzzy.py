"""How well a few typed letters fit a name. Knows nothing of what is named."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import TypeVar

_T = TypeVar("_T")
_WORD_START, _IN_A_ROW, _GAP = 8, 5, 1


def folded(text: str) -> str:
    """Returns a text without case and accents: ä and A are typed as a."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


def score(typed: str, name: str) -> int | None:
    """Returns how well folded letters fit a folded name, the more the better; None where they do not occur in order.

    Whole words count more than scattered letters, starts of words more than their middles.
    """
    if not typed:
        return 0
    whole = name.find(typed)
    if whole >= 0:
        return 1000 - whole - len(name) // 8 + (100 if whole == 0 or not name[whole - 1].isalnum() else 0)
    total, at, before = 0, 0, -2
    for letter in typed:
        if letter == " ":
            continue
        found = _next(name, letter, at)
        if found < 0:
            return None
        starts = found == 0 or not name[found - 1].isalnum()
        total += (_IN_A_ROW if found == before + 1 else _WORD_START if starts else 0) - _GAP * (found - at)
        before, at = found, found + 1
    return total


def _next(name: str, letter: str, start: int) -> int:
    """Returns where a letter comes next, at the start of a word where it can be."""
    first = at = name.find(letter, start)
    while at >= 0:
        if at == 0 or not name[at - 1].isalnum():
            return at
        at = name.find(letter, at + 1)
    return first


def best(typed: str, named: Iterable[tuple[str, _T]], *, limit: int) -> Sequence[_T]:
    """Returns what fits best, in order; names that fit alike stay in the order in which they came."""
    wanted = folded(typed.strip())
    found = ((score(wanted, name), number, item) for number, (name, item) in enumerate(named))
    fitting = sorted(((-points, number, item) for points, number, item in found if points is not None),
                     key=lambda one: one[:2])  # fmt: skip
    return [item for _points, _number, item in fitting[:limit]]
