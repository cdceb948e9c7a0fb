"""Reads GBNF, llama.cpp's notation for grammars, exactly as llama.cpp reads it. Knows no model.

What llama.cpp accepts without a word and then reads otherwise is refused, with the line: `{0,5000}` (without limit),
`{3,2}` (an endless loop), a second definition (in place of the first). So are references to tokens, as in `<think>`:
after other text they can end the process.
The notation: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.errors import UserError
from runtime.text import _

MAX_CHARACTERS = 65_536
MAX_RULES = 20_000  # those that groups and repetitions become included
MAX_NESTING = 50  # llama.cpp's parser calls itself for each parenthesis
MAX_REPETITIONS = 2000  # llama.cpp's own limit, for a count and for nested counts multiplied

_NAME = frozenset(string.ascii_letters + string.digits + "-")
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
_COUNT = re.compile(r"\{[ \t]*(\d{1,4000})[ \t]*(?:(,)[ \t]*(\d{1,4000})?[ \t]*)?\}")


class BadGrammar(UserError):
    """A grammar that cannot be used, and the line that is at fault (0: the whole of it)."""

    code = "bad_grammar"

    def __init__(self, reason: str, line: int = 0, hint: str = "") -> None:
        where = _("Line {line}: {reason}").format(line=line, reason=reason) if line else reason
        super().__init__(
            _("The grammar cannot be used."), where, hint or _("Change the grammar, or clear it to write freely.")
        )
        self.line = line


class Characters(NamedTuple):
    """One character out of some ranges of code points, ends included; or out of all others."""

    ranges: tuple[tuple[int, int], ...]
    others: bool = False


class Text(NamedTuple):
    """Characters one after the other, as code points."""

    codes: tuple[int, ...]


class Term(NamedTuple):
    """A part of an alternative as it is written: a rule by its number, characters or a text, so many times."""

    what: int | Characters | Text | Term
    low: int = 1
    high: int | None = 1


class Sequence(NamedTuple):
    """One alternative of a rule: the rules it refers to by number, and None for characters; then as it is written.

    In `items`, groups and repetitions are the rules that llama.cpp makes of them; in `terms`, only groups are.
    """

    items: tuple[int | None, ...]
    terms: tuple[Term, ...] = ()

    @property
    def rules(self) -> tuple[int, ...]:
        return tuple(item for item in self.items if item is not None)


@dataclass
class Rule:
    """A rule that is written, or that a group or a repetition becomes."""

    name: str
    line: int = 0  # 0: used, and not defined so far
    used_in: int = 0
    alternatives: list[Sequence] = field(default_factory=list)


@dataclass
class _Last:
    """What a repetition would repeat: the items of the sequence from `start` on."""

    start: int
    copies: int  # rules in it, multiplied by how often it is repeated


_Item = int | None  # a rule, or None for characters


def read_rules(text: str) -> list[Rule]:
    """Returns the rules of a grammar with those that groups and repetitions become. Raises `BadGrammar`."""
    if not text.strip():
        raise BadGrammar(_("It is empty."))
    if len(text) > MAX_CHARACTERS:
        raise BadGrammar(_("It has {n:,} characters; {limit:,} are allowed.").format(n=len(text), limit=MAX_CHARACTERS))
    return _Parser(text).rules()


class _Parser:
    """Reads the notation exactly as llama.cpp does."""

    def __init__(self, text: str) -> None:
        self._text = text + "\n\0"
        self._at = 0
        self._ids: dict[str, int] = {}
        self._rules: list[Rule] = []

    def rules(self) -> list[Rule]:
        if "\0" in self._text[:-1]:
            raise BadGrammar(_("It holds a zero character."), self._text[: self._text.index("\0")].count("\n") + 1)
        self._space(newlines=True)
        while self._next != "\0":
            self._rule()
            self._space(newlines=True)
        return self._rules

    @property
    def _next(self) -> str:
        return self._text[self._at]

    @property
    def _line(self) -> int:
        return self._text.count("\n", 0, min(self._at, len(self._text) - 2)) + 1

    def _fail(self, reason: str) -> BadGrammar:
        return BadGrammar(reason, self._line)

    def _unexpected(self) -> BadGrammar:
        if self._at >= len(self._text) - 2:
            return self._fail(_("The grammar ends too early."))
        if self._next == "\n":
            return self._fail(_("The line ends too early."))
        return self._fail(_("“{character}” cannot stand here.").format(character=self._next))

    def _space(self, *, newlines: bool) -> None:
        while self._next in " \t#" or (newlines and self._next in "\r\n"):
            if self._next == "#":
                self._at = self._text.index("\n", self._at)
                if not newlines:
                    return
            else:
                self._at += 1

    def _name(self) -> str:
        start = self._at
        while self._next in _NAME:
            self._at += 1
        if self._at == start:
            raise self._unexpected()
        return self._text[start : self._at]

    def _id(self, name: str) -> int:
        if name not in self._ids:
            self._ids[name] = self._new(name)
        return self._ids[name]

    def _new(self, name: str) -> int:
        if len(self._rules) >= MAX_RULES:
            raise self._fail(_("It has more than {limit:,} rules, groups and repetitions.").format(limit=MAX_RULES))
        self._rules.append(Rule(name))
        return len(self._rules) - 1

    def _rule(self) -> None:
        line, name = self._line, self._name()
        rule = self._rules[self._id(name)]
        if rule.line:
            words = _("The rule “{name}” is defined a second time; first in line {line}.")
            raise BadGrammar(words.format(name=name, line=rule.line), line)
        rule.line = line
        self._space(newlines=False)
        if not self._text.startswith("::=", self._at):
            raise self._unexpected()
        self._at += 3
        self._space(newlines=True)
        rule.alternatives = self._alternatives(name, depth=0)
        if self._next not in "\r\n":
            raise self._unexpected()

    def _alternatives(self, name: str, *, depth: int) -> list[Sequence]:
        found = [self._sequence(name, depth=depth)]
        while self._next == "|":
            self._at += 1
            self._space(newlines=True)
            found.append(self._sequence(name, depth=depth))
        return found

    def _sequence(self, name: str, *, depth: int) -> Sequence:
        items: list[_Item] = []
        terms: list[Term] = []
        last = _Last(0, 1)
        while True:
            if self._next in "*+?{":
                low, high = self._repeat(name, items, last)
                terms[-1] = Term(terms[-1], low, high)
            else:
                before, start = len(self._rules), len(items)
                named = self._next in _NAME
                if not self._take_item(name, items, terms, depth=depth):
                    return Sequence(tuple(items), tuple(terms))
                # Like llama.cpp, which counts what a group holds, but not the rule that a name stands for.
                last = _Last(start, 1 if named else max(len(self._rules) - before, 1))
            self._space(newlines=depth > 0)

    def _take_item(self, name: str, items: list[_Item], terms: list[Term], *, depth: int) -> bool:
        """Reads the next item, if one comes; the empty text adds nothing."""
        term = self._term(name, depth=depth)
        if term is None:
            return False
        terms.append(Term(term))
        if term != Text(()):
            items.append(term if isinstance(term, int) else None)
        return True

    def _term(self, name: str, *, depth: int) -> int | Characters | Text | None:
        match self._next:
            case '"':
                return self._literal()
            case "[":
                return self._characters()
            case ".":
                self._at += 1
                return Characters((), others=True)
            case "(":
                return self._group(name, depth=depth)
            case "<" | "!":
                raise self._fail(_("Tokens such as <think> cannot be used in a grammar; write their text in quotes."))
            case character if character in _NAME:
                return self._used()
        return None

    def _used(self) -> int:
        line, rule = self._line, self._id(self._name())
        self._rules[rule].used_in = self._rules[rule].used_in or line
        return rule

    def _group(self, name: str, *, depth: int) -> int:
        if depth >= MAX_NESTING:
            raise self._fail(_("Parentheses are nested more than {limit} deep.").format(limit=MAX_NESTING))
        rule = self._new(name)
        self._rules[rule].line = self._line
        self._at += 1
        self._space(newlines=True)
        self._rules[rule].alternatives = self._alternatives(name, depth=depth + 1)
        if self._next != ")":
            raise self._unexpected()
        self._at += 1
        return rule

    def _repeat(self, name: str, items: list[_Item], last: _Last) -> tuple[int, int | None]:
        """Repeats the last item in place, with the very rules that llama.cpp makes for it; returns how often."""
        repeated = items[last.start :]
        if not repeated:
            raise self._fail(_("There is nothing before “{character}” to repeat.").format(character=self._next))
        low, high = self._counts()
        last.copies *= max(high if high is not None else low, 1)
        if last.copies > MAX_REPETITIONS:
            words = _("Something is repeated more than {limit:,} times, nested repetitions multiplied.")
            raise self._fail(words.format(limit=MAX_REPETITIONS))
        items[last.start :] = repeated * min(low, 1)  # how many copies there are makes no difference to any check
        if high is None:
            rule = self._made(name)
            self._rules[rule].alternatives = [Sequence((*repeated, rule)), Sequence(())]
            items.append(rule)
        elif high > low:
            items.append(self._optional(name, repeated, high - low))
        return low, high

    def _optional(self, name: str, repeated: list[_Item], times: int) -> int:
        """Returns a rule for "up to so many times": each holds the item and the rule before, or nothing."""
        rest: list[_Item] = []
        for _time in range(times):
            rule = self._made(name)
            self._rules[rule].alternatives = [Sequence((*repeated, *rest)), Sequence(())]
            rest = [rule]
        return rule

    def _made(self, name: str) -> int:
        rule = self._new(name)
        self._rules[rule].line = self._line
        return rule

    def _counts(self) -> tuple[int, int | None]:
        """Reads a repetition; returns the least and the greatest count, None for no limit."""
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._next)
        if simple:
            self._at += 1
            return simple
        found = _COUNT.match(self._text, self._at)
        if not found:
            raise self._fail(_("A repetition is written {{3}}, {{3,}} or {{3,5}}.").format())
        low = int(found[1])
        high = int(found[3]) if found[3] else None if found[2] else low
        if max(low, high or 0) > MAX_REPETITIONS or (high is not None and high < low):
            words = _("A repetition counts from 0 to {limit:,}, the smaller number first.")
            raise self._fail(words.format(limit=MAX_REPETITIONS))
        self._at = found.end()
        return low, high

    def _literal(self) -> Text:
        """Reads a text in quotes."""
        self._at += 1
        codes = []
        while self._next != '"':
            codes.append(self._character())
        self._at += 1
        return Text(tuple(codes))

    def _characters(self) -> Characters:
        """Reads a class of characters in brackets."""
        self._at += 1
        others = self._next == "^"
        self._at += others
        if self._next == "]":
            raise self._fail(_("A class of characters is empty."))
        ranges = []
        while self._next != "]":
            low = high = self._character()
            if self._next == "-" and self._text[self._at + 1] != "]":
                self._at += 1
                high = self._character()
                if high < low:
                    raise self._fail(_("A range of characters runs backwards."))
            ranges.append((low, high))
        self._at += 1
        return Characters(tuple(ranges), others)

    def _character(self) -> int:
        character = self._next
        if self._at >= len(self._text) - 2:
            raise self._unexpected()
        self._at += 1
        if character != "\\":
            return ord(character)
        kind = self._next
        if kind in _HEX_ESCAPES:
            return self._hex(_HEX_ESCAPES[kind])
        if kind not in _ESCAPES:
            raise self._fail(_("There is no escape “\\{character}”.").format(character=kind))
        self._at += 1
        return ord(_ESCAPES[kind])

    def _hex(self, size: int) -> int:
        digits = self._text[self._at + 1 : self._at + 1 + size]
        if len(digits) < size or not set(digits) <= set(string.hexdigits) or int(digits, 16) > 0x10FFFF:
            raise self._fail(_("An escape for a character has {n} hexadecimal digits, up to 10FFFF.").format(n=size))
        self._at += 1 + size
        return int(digits, 16)
