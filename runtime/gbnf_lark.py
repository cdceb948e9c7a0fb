"""Writes a GBNF grammar as llguidance reads grammars: in its dialect of Lark. Knows no model.

llguidance's lexer takes the longest match, GBNF has no lexer at all: `[a-z]* "x"` matches "x" in GBNF only. So every
terminal here is one single character, and the classes of characters are cut into pieces that do not overlap: then no
match is longer than another, and the grammar decides alone.
The dialect: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from runtime.gbnf import Characters, Rule, Term, Text

_HEADER = '%llguidance {"no_forcing": true}'  # a text may be spelled in other tokens than the tokenizer's own
_FIRST, _LAST = 1, 0x10FFFF  # the zero character ends llama.cpp's texts, and nothing matches it
_SURROGATES = (0xD800, 0xDFFF)  # no characters: UTF-8 cannot hold them

Ranges = tuple[tuple[int, int], ...]


def to_lark(rules: Sequence[Rule]) -> str:
    """Returns the grammar of rules as `runtime.gbnf.read_rules` gives them; `root` is where it starts."""
    root = next(at for at, rule in enumerate(rules) if rule.name == "root")
    used = _used(rules, root)
    classes = [found for at in used for sequence in rules[at].alternatives for found in _classes(sequence.terms)]
    alphabet = _Alphabet(dict.fromkeys(classes))
    names = {at: f"r{at}" for at in used} | {root: "start"}
    lines = [f"{names[at]}: {_alternatives(rules[at], names, alphabet)}" for at in used]
    return "\n".join([_HEADER, *lines, *alphabet.terminals(), ""])


def _used(rules: Sequence[Rule], root: int) -> list[int]:
    """Returns the rules that the root leads to as they are written, itself first."""
    found = {root: None}
    waiting = [root]
    while waiting:
        for sequence in rules[waiting.pop()].alternatives:
            new = [at for at in map(_rule_of, sequence.terms) if at is not None and at not in found]
            found |= dict.fromkeys(new)
            waiting += new
    return list(found)


def _rule_of(term: Term) -> int | None:
    if isinstance(term.what, Term):
        return _rule_of(term.what)
    return term.what if isinstance(term.what, int) else None


def _alternatives(rule: Rule, names: dict[int, str], alphabet: _Alphabet) -> str:
    sequences = (" ".join(_term(term, names, alphabet) for term in each.terms) for each in rule.alternatives)
    return " | ".join(sequence or '""' for sequence in sequences)


def _term(term: Term, names: dict[int, str], alphabet: _Alphabet) -> str:
    match term.what:
        case Term():
            inner = _term(term.what, names, alphabet)
        case Text(codes):
            inner = " ".join(alphabet.spelled(((code, code),)) for code in codes) or '""'
        case Characters():
            inner = alphabet.spelled(_ranges(term.what))
        case rule:
            inner = names[rule]
    if (term.low, term.high) == (1, 1):
        return inner
    if term.high == 0:
        return '""'
    return f"({inner}){{{term.low},{'' if term.high is None else term.high}}}"


def _classes(terms: Sequence[Term]) -> Iterator[Ranges]:
    """Yields all classes of characters in some terms, those of single characters too."""
    for term in terms:
        match term.what:
            case Term():
                yield from _classes((term.what,))
            case Text(codes):
                yield from (((code, code),) for code in codes)
            case Characters():
                yield _ranges(term.what)


def _ranges(characters: Characters) -> Ranges:
    """Returns the ranges of a class, in order and apart."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(characters.ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return tuple(_complement(found)) if characters.others else tuple(found)


def _complement(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start = 0
    for low, high in ranges:
        if start < low:
            yield start, low - 1
        start = high + 1
    if start <= _LAST:
        yield start, _LAST


class _Alphabet:
    """The pieces into which some classes cut all characters: each lies within or without every class."""

    def __init__(self, classes: dict[Ranges, None]) -> None:
        edges = sorted({edge for ranges in classes for low, high in ranges for edge in (low, high + 1)} | {*_edges()})
        pieces: dict[frozenset[int], list[tuple[int, int]]] = {}
        for low, after in pairwise(edges):
            within = frozenset(at for at, ranges in enumerate(classes) if any(a <= low <= b for a, b in ranges))
            if within and low >= _FIRST and low != _SURROGATES[0]:
                pieces.setdefault(within, []).append((low, after - 1))
        self._pieces = list(pieces.values())
        self._spelling = {
            ranges: [f"C{number}" for number, within in enumerate(pieces) if at in within]
            for at, ranges in enumerate(classes)
        }

    def spelled(self, ranges: Ranges) -> str:
        """Returns a class as a choice among pieces. One that no character is in becomes a terminal without matches."""
        pieces = self._spelling[ranges]
        return pieces[0] if len(pieces) == 1 else f"({' | '.join(pieces or ['NOTHING'])})"

    def terminals(self) -> Iterator[str]:
        for number, ranges in enumerate(self._pieces):
            yield f"C{number}: /[{''.join(f'{_escaped(low)}-{_escaped(high)}' for low, high in ranges)}]/"
        if not all(self._spelling.values()):
            yield "NOTHING: /[^\\x{0}-\\x{10FFFF}]/"


def _edges() -> tuple[int, ...]:
    return _FIRST, _SURROGATES[0], _SURROGATES[1] + 1, _LAST + 1


def _escaped(code: int) -> str:
    return f"\\x{{{code:X}}}"
