"""Keeps what people write apart from what a chat template writes, so that no message can forge a control token.

Before rendering, `guard` breaks every control text found in a message by putting a sentinel, a character that occurs
nowhere else, behind its first character. After rendering, a control text that is still whole was written by the
template: `split_rendered` finds those, and takes the sentinels out of the text between. Knows no tokens and no Jinja.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

import msgspec

from runtime.messages import Message

# Noncharacters are "reserved for internal use" by the Unicode standard (section 23.7) and stand in no real text.
_NONCHARACTERS = tuple(map(chr, range(0xFDD0, 0xFDF0)))


class Segment(msgspec.Struct, frozen=True):
    """A piece of a rendered prompt: one control token's text, or text that is tokenized as plain text."""

    text: str
    control: bool = False


def guard(
    messages: tuple[Message, ...], control_texts: Iterable[str], *, strict: bool = False
) -> tuple[tuple[Message, ...], str]:
    """Returns the messages with every control text in their texts broken, and the sentinel that was used.

    The sentinel is empty, and the messages are unchanged, where no content could become a control text. Broken as
    well is a content whose end begins a control text, so that the next content cannot complete it. With `strict`,
    every character with which a control text begins gets a sentinel: not even a template that cuts pieces out of a
    content, or changes its case, can then make a control text from it.
    """
    marks = _marks(tuple(control_texts))
    texts = [text for message in messages for text in (message.content, message.reasoning)]
    breaks = [marks.breaks(text, strict=strict) if text else [] for text in texts]
    if not any(breaks):
        return messages, ""
    sentinel = unused_character("".join(texts) + marks.alphabet)
    guarded = iter([_with_sentinels(text, places, sentinel) for text, places in zip(texts, breaks, strict=True)])
    return tuple(Message(message.role, next(guarded), next(guarded)) for message in messages), sentinel


def split_rendered(text: str, control_texts: Iterable[str], sentinel: str) -> list[Segment]:
    """Returns the rendered text in pieces: control texts (the longest first) and what lies between, without sentinels.

    A sentinel right behind a control text says that a person wrote it: only a text of one character can be marked so.
    """
    segments, done = [], 0
    for start, end in _marks(tuple(control_texts)).found(text, sentinel):
        segments += [Segment(_without(text[done:start], sentinel)), Segment(text[start:end], control=True)]
        done = end
    segments.append(Segment(_without(text[done:], sentinel)))
    return [segment for segment in segments if segment.text]


def unused_character(text: str) -> str:
    """Returns a noncharacter that `text` does not contain. Raises ValueError where it contains all of them."""
    used = set(text)
    for char in _NONCHARACTERS:
        if char not in used:
            return char
    raise ValueError("the text contains all noncharacters from U+FDD0 to U+FDEF")


def holds_all(text: str, messages: tuple[Message, ...]) -> bool:
    """Returns whether every content stands in the text as it is, one after the other."""
    place = 0
    for content in (message.content.strip() for message in messages):
        place = text.find(content, place) + len(content)
        if place < len(content):
            return False
    return True


def whole_characters(text: str) -> str:
    """Returns text that is valid Unicode: halves of characters, as some clipboards give, are joined or replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class _Marks:
    """A set of control texts that is searched in time independent of its size (some models have 6,000)."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._texts = frozenset(text for text in texts if text)
        self._lengths = sorted({len(text) for text in self._texts}, reverse=True)
        self._beginnings = {text[:size] for text in self._texts for size in range(1, len(text))}
        self.alphabet = "".join(set().union(*self._texts))
        self._first = _beginning_of({text[0] for text in self._texts})
        self._start = _beginning_of(self._texts)

    def breaks(self, content: str, *, strict: bool) -> list[int]:
        """Returns the places in `content`, ascending, where a sentinel belongs."""
        starts = (match.start() for match in (self._first if strict else self._start).finditer(content))
        places = {start + 1 for start in starts if strict or self._length_at(content, start)}
        return sorted(places | self._open_end(content))

    def found(self, text: str, sentinel: str) -> Iterator[tuple[int, int]]:
        """Yields where whole control texts lie, from left to right, without overlap."""
        place = 0
        while match := self._start.search(text, place):
            place = match.start() + 1
            length = self._length_at(text, match.start())
            if length and not (sentinel and length == 1 and text.startswith(sentinel, place)):
                place = match.start() + length
                yield match.start(), place

    def _length_at(self, text: str, start: int) -> int:
        """Returns the length of the longest control text that begins at `start`; 0 where none does."""
        return next((size for size in self._lengths if text[start : start + size] in self._texts), 0)

    def _open_end(self, content: str) -> set[int]:
        end = len(content.rstrip())
        longest = min(self._lengths[0] if self._lengths else 0, end)
        is_open = any(content[end - size : end] in self._beginnings for size in range(1, longest + 1))
        return {end} if is_open else set()


def _beginning_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Returns a pattern of one character that finds where one of the texts may begin, by their first two characters."""
    seconds: dict[str, set[str]] = {}
    for text in texts:
        seconds.setdefault(text[0], set()).add(text[1:2])
    branches = (
        re.escape(first) + ("" if "" in after else f"(?=[{''.join(map(re.escape, sorted(after)))}])")
        for first, after in sorted(seconds.items())
    )
    return re.compile("|".join(branches) or "(?!)")


@lru_cache(maxsize=8)
def _marks(texts: tuple[str, ...]) -> _Marks:
    return _Marks(texts)


def _with_sentinels(content: str, places: list[int], sentinel: str) -> str:
    edges = [0, *places, len(content)]
    return sentinel.join(content[start:end] for start, end in pairwise(edges))


def _without(text: str, sentinel: str) -> str:
    return text.replace(sentinel, "") if sentinel else text
