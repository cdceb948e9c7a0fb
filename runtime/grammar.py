"""Checks a grammar before native code reads it: what would exhaust its stack, its memory or the patience is refused.

llama.cpp calls itself for each rule that a rule may begin with, anew each time it meets one, and its own check for
left recursion overlooks rules that are empty only by way of others. Knows no model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from runtime.gbnf import BadGrammar, Rule, Sequence, read_rules
from runtime.text import _

MAX_CHAIN = 100  # rules that begin with a rule that begins with a rule …
MAX_BEGINNINGS = 1000  # ways to come from a rule to its first characters
MAX_SKIPPED = 30  # parts in a row that may all be empty; llama.cpp's time grows with their third power


@lru_cache(maxsize=8)
def check_grammar(text: str) -> None:
    """Raises `BadGrammar` unless `text` is a grammar that can be handed to llama.cpp."""
    rules = read_rules(text)
    _require_definitions(rules)
    _Beginnings(rules).check()
    _require_few_skips(rules)
    root = next(rule for rule in rules if rule.name == "root")
    if not _may_end(rules)[rules.index(root)]:
        words = _("The rule “root” can never end: every way through it comes back to itself.")
        raise BadGrammar(words, root.line)


def _require_definitions(rules: list[Rule]) -> None:
    for rule in rules:
        if not rule.line:
            raise BadGrammar(_("The rule “{name}” is not defined.").format(name=rule.name), rule.used_in)
    names = {rule.name: rule.line for rule in rules}
    if "root" not in names:
        near = next((name for name in names if name.lower() == "root"), None)
        hint = _("Rename “{name}”: the case counts.").format(name=near) if near else ""
        raise BadGrammar(_("There is no rule “root”, with which every grammar begins."), names.get(near or "", 0), hint)


def _may_be_empty(rules: list[Rule]) -> list[bool]:
    return _grown(rules, lambda sequence, empty: None not in sequence.items and all(empty[at] for at in sequence.rules))


def _may_end(rules: list[Rule]) -> list[bool]:
    return _grown(rules, lambda sequence, ends: all(ends[at] for at in sequence.rules))


def _grown(rules: list[Rule], holds: Callable[[Sequence, list[bool]], bool]) -> list[bool]:
    """Returns for which rules something holds, where it holds for a rule once it does for one alternative."""
    users: dict[int, set[int]] = {}
    for at, rule in enumerate(rules):
        for sequence in rule.alternatives:
            for other in sequence.rules:
                users.setdefault(other, set()).add(at)
    found, waiting = [False] * len(rules), dict.fromkeys(range(len(rules)))  # in the order of insertion
    while waiting:
        at = next(iter(waiting))
        del waiting[at]
        if any(holds(sequence, found) for sequence in rules[at].alternatives):
            found[at] = True
            waiting |= dict.fromkeys(user for user in users.get(at, ()) if not found[user])
    return found


def _require_few_skips(rules: list[Rule]) -> None:
    empty = _may_be_empty(rules)
    for rule in rules:
        for sequence in rule.alternatives:
            run = 0
            for item in sequence.items:
                run = run + 1 if item is not None and empty[item] else 0
                if run > MAX_SKIPPED:
                    words = _("More than {limit} parts in a row may be empty.")
                    raise BadGrammar(words.format(limit=MAX_SKIPPED), rule.line)


class _Beginnings:
    """What rules begin with: finds left recursion, long chains, and too many ways. Walks without recursion."""

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        empty = _may_be_empty(rules)
        self._next = [
            [at for sequence in rule.alternatives for at in _leading(sequence, empty)] for rule in rules
        ]
        self._depth = [0] * len(rules)
        self._ways = [0] * len(rules)  # 0: not known yet

    def check(self) -> None:
        for start in range(len(self._rules)):
            self._walk(start)

    def _walk(self, start: int) -> None:
        path, on_path = [(start, iter(self._next[start]))], {start}
        while path:
            at, rest = path[-1]
            then = next(rest, None)
            if then is None:
                path.pop()
                on_path.discard(at)
                self._finish(at)
            elif then in on_path:
                raise self._recursion(then)
            elif not self._ways[then]:
                path.append((then, iter(self._next[then])))
                on_path.add(then)

    def _finish(self, at: int) -> None:
        rule = self._rules[at]
        self._depth[at] = 1 + max((self._depth[then] for then in self._next[at]), default=0)
        self._ways[at] = 1 + sum(self._ways[then] for then in self._next[at])
        if self._depth[at] > MAX_CHAIN:
            words = _("“{name}” begins with a chain of more than {limit} rules.")
            raise BadGrammar(words.format(name=rule.name, limit=MAX_CHAIN), rule.line)
        if self._ways[at] > MAX_BEGINNINGS:
            words = _("“{name}” can begin in more than {limit:,} ways.")
            raise BadGrammar(words.format(name=rule.name, limit=MAX_BEGINNINGS), rule.line)

    def _recursion(self, at: int) -> BadGrammar:
        rule = self._rules[at]
        hint = _("Let the rule begin with something that is written; nothing that may be empty can be repeated.")
        return BadGrammar(_("“{name}” begins with itself.").format(name=rule.name), rule.line, hint)


def _leading(sequence: Sequence, empty: list[bool]) -> list[int]:
    """Returns the rules that an alternative may begin with."""
    found = []
    for item in sequence.items:
        if item is None:
            break
        found.append(item)
        if not empty[item]:
            break
    return found
