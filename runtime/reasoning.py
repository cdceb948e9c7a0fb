"""Tells a model's reasoning from its answer while both are written, and keeps the two in one text where need be.

The marks are those of `reasoning_marks`. They may be cut anywhere, and are never shown. Opening marks count at the
beginning of a line outside a block of code, so that an answer may speak of them. Knows no tokens and no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runtime.messages import Message, Role
from runtime.reasoning_marks import Marks

# How a text that holds both is written, whatever the model's own marks are: the reasoning stands first.
OPEN, CLOSE = "<think>\n", "\n</think>\n\n"
_FENCES = ("```", "~~~")


class Piece(NamedTuple):
    """Some text, and whether the model was thinking."""

    text: str
    reasoning: bool


class ReasoningSplitter:
    """Cuts a text that arrives in pieces into reasoning and answer.

    Held back is what may still become a mark, the line breaks beside marks, and blanks before the first word; `finish`
    releases it. Without families everything is answer, at once.
    """

    def __init__(
        self, families: Iterable[Marks], *, inside: Marks | None = None, silent: Iterable[str] = ()
    ) -> None:  # fmt: skip
        """With `inside`, the text begins within that family's reasoning. `silent` are more marks to leave out."""
        self._families = tuple(families)
        opening = {marks.open for marks in self._families}
        self._silent = ({text for marks in self._families for text in marks.silent} | set(silent)) - opening
        self._all = opening | self._silent
        self._inside = inside
        self._held = ""
        self._trims = inside is not None  # line breaks that come next belong to a mark
        self._line = _Line()
        self._said = False

    @property
    def reasoning(self) -> bool:
        """Whether the model is thinking now."""
        return self._inside is not None

    def feed(self, text: str) -> list[Piece]:
        """Returns what is certain now."""
        if not self._families:
            return [Piece(text, False)] if text else []
        self._held += text
        return list(self._certain())

    def finish(self) -> list[Piece]:
        """Returns what was held back, because no more text comes."""
        text, self._held = self._held, ""
        rest = text.strip("\n") if self._inside is not None or self._trims else text
        return [Piece(rest, self.reasoning)] if rest else []

    def _certain(self) -> Iterator[Piece]:
        while self._held:
            if self._trims:
                self._held = self._held.lstrip("\n")
            if not self._held:
                return
            self._trims = False
            found = self._next_mark()
            if found is None:
                yield from self._release()
                return
            at, mark = found
            yield from self._until(at)
            self._held = self._held[len(mark) :]
            self._pass(mark)

    def _next_mark(self) -> tuple[int, str] | None:
        if self._inside is not None:
            at = self._held.find(self._inside.close)
            return (at, self._inside.close) if at >= 0 else None
        places = [(at, mark) for mark in self._silent if (at := self._held.find(mark)) >= 0]
        places += [(at, marks.open) for marks in self._families if (at := self._opening(marks.open)) >= 0]
        found = min(places, key=lambda place: (place[0], -len(place[1])), default=None)
        return None if found is None or self._may_become_longer(self._held[found[0] :]) else found

    def _may_become_longer(self, text: str) -> bool:
        """Whether a text that begins with a mark is the beginning of a longer one."""
        return any(len(mark) > len(text) and mark.startswith(text) for mark in self._all)

    def _opening(self, mark: str) -> int:
        """Returns where an opening mark stands that counts; -1 where there is none."""
        at = self._held.find(mark)
        while at >= 0 and not self._line.after(self._held[:at]).may_open:
            at = self._held.find(mark, at + 1)
        return at

    def _until(self, at: int) -> Iterator[Piece]:
        """Takes the text before a mark."""
        text, self._held = self._held[:at], self._held[at:]
        if self._inside is not None:
            text = text.rstrip("\n")
        elif not self._said and not text.strip():
            text = ""
        yield from self._say(text)

    def _pass(self, mark: str) -> None:
        """Goes on behind a mark."""
        if self._inside is not None:
            self._inside, self._trims = None, True
        elif mark not in self._silent:
            self._inside = next(marks for marks in self._families if marks.open == mark)
            self._trims = True

    def _release(self) -> Iterator[Piece]:
        shown = len(self._held) - self._undecided()
        text, self._held = self._held[:shown], self._held[shown:]
        yield from self._say(text)

    def _undecided(self) -> int:
        """Returns how many characters at the end may belong to a mark that is not complete."""
        if self._inside is not None:
            held = _beginning_at_end(self._held, self._inside.close)
            before = self._held[: len(self._held) - held]
            return held + len(before) - len(before.rstrip("\n"))
        if not self._said and not self._held.strip():
            return len(self._held)
        held = max((_beginning_at_end(self._held, mark) for mark in self._silent), default=0)
        for marks in self._families:
            length = _beginning_at_end(self._held, marks.open)
            if length and self._line.after(self._held[: len(self._held) - length]).may_open:
                held = max(held, length)
        if not self._said and not self._held[: len(self._held) - held].strip():
            return len(self._held)
        return held

    def _say(self, text: str) -> Iterator[Piece]:
        if not text:
            return
        if self._inside is None:
            self._line = self._line.after(text)
            self._said = self._said or bool(text.strip())
        yield Piece(text, self.reasoning)


class _Line:
    """The line of an answer that is being written, and whether it lies in a block of code."""

    def __init__(self, text: str = "", *, in_code: bool = False) -> None:
        self._text, self._in_code = text, in_code

    @property
    def may_open(self) -> bool:
        return not self._in_code and not self._text.strip()

    def after(self, text: str) -> _Line:
        *complete, last = (self._text + text).split("\n")
        fences = sum(line.lstrip().startswith(_FENCES) for line in complete)
        return _Line(last[:200], in_code=self._in_code != bool(fences % 2))


def _beginning_at_end(text: str, mark: str) -> int:
    """Returns how many characters at the end of a text begin the mark without completing it."""
    longest = min(len(text), len(mark) - 1)
    return next((length for length in range(longest, 0, -1) if text.endswith(mark[:length])), 0)


# --- both in one text ---------------------------------------------------------------------------------------------


class JoinedText:
    """Writes reasoning and answer into one text, with marks that `separated` finds again."""

    def __init__(self, before: str = "") -> None:
        """`before` is the text that goes on, if one does."""
        self._inside = before.startswith(OPEN) and CLOSE not in before
        self._last = before[-1:]

    def feed(self, text: str, *, reasoning: bool) -> str:
        """Returns what the text goes on with."""
        mark = ""
        if reasoning and not self._inside:
            mark = OPEN if self._last in ("", "\n") else "\n" + OPEN
        elif self._inside and not reasoning:
            mark = CLOSE
        self._inside = reasoning
        self._last = text[-1:] or self._last
        return mark + text


def joined(message: Message) -> str:
    """Returns a message's reasoning and content as one text."""
    if not message.reasoning:
        return message.content
    return OPEN + message.reasoning + (CLOSE + message.content if message.content else "")


def separated(message: Message) -> Message:
    """Returns a message whose content may be a joined text with its reasoning apart."""
    if message.role is not Role.ASSISTANT or message.reasoning or not message.content.startswith(OPEN):
        return message
    reasoning, _mark, content = message.content.removeprefix(OPEN).partition(CLOSE)
    return Message(message.role, content, reasoning)
