"""DRY ("don't repeat yourself"): lowers the score of tokens that would carry on a phrase said before.

Where the last n tokens stood earlier, the token that followed then gets multiplier * base ^ (n - allowed length) less.
Breakers (a line's end, a quotation mark) end a phrase. Results are llama.cpp's. Knows token ids and the spelling of
breakers in tokens. The idea: p-e-w, https://github.com/oobabooga/text-generation-webui/pull/5677
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.native.candidates import Scores

_MOST_BYTES, _MOST_TAIL = 40, 20  # of a breaker: bytes of its text, tokens after its first
_MOST_EXPONENT = 88.7228391  # ln of the largest f32

Breakers = Mapping[int, Sequence[tuple[int, ...]]]
"""A breaker's first token, and the tokens that may follow it (none where one token holds the whole breaker)."""


class Spelling(Protocol):
    """What is asked of a tokenizer."""

    size: int

    def raw_piece(self, token: int) -> bytes: ...

    def tokenize(self, text: str) -> list[int]: ...


def breakers_of(texts: Sequence[str], tokenizer: Spelling) -> Breakers:
    """Returns the ways in which tokens can hold the texts: whole, or begin them with their last bytes."""
    found: dict[int, list[tuple[int, ...]]] = {}
    wanted = [text.encode("utf-8", "replace")[:_MOST_BYTES] for text in texts if text]
    tails = [_tails(text, tokenizer) for text in wanted]
    for token in range(tokenizer.size if wanted else 0):
        piece = tokenizer.raw_piece(token)
        for text, rests in zip(wanted, tails, strict=True):
            for tail in _after(piece, text, rests):
                if tail not in found.setdefault(token, []):
                    found[token].append(tail)
    return found


def _tails(text: bytes, tokenizer: Spelling) -> list[tuple[int, ...]]:
    """Returns the tokens of what follows the first 1, 2, … bytes of a breaker."""
    rests = (text[at:].decode("utf-8", "replace") for at in range(1, len(text)))
    return [tuple(tokenizer.tokenize(rest)[:_MOST_TAIL]) for rest in rests]


def _after(piece: bytes, text: bytes, tails: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Returns what completes a breaker after this token."""
    if text in piece:
        return [()]
    return [tails[length - 1] for length in range(1, len(text)) if piece.endswith(text[:length])]


class Dry:
    """The penalties of one answer, over the last `window` tokens."""

    def __init__(
        self, *, window: int, multiplier: float, base: float, allowed_length: int, breakers: Breakers
    ) -> None:
        self._window = window
        self._multiplier, self._base = np.float32(multiplier), np.float32(base)
        self._allowed = allowed_length
        self._breakers = breakers
        self._ids: NDArray[np.int64] = np.zeros(0, np.int64)
        self._heads: NDArray[np.bool_] = np.zeros(0, bool)  # which of them may begin a breaker
        # For each place, how many tokens that end there are also the last tokens of the text.
        self._repeats: NDArray[np.int64] = np.zeros(0, np.int64)

    def add(self, token: int) -> None:
        """Takes note of a token that was said: a repeat that ended before an equal token is one longer now."""
        before = np.concatenate(([0], self._repeats[:-1])) if len(self._ids) else self._repeats
        repeats = np.where(self._ids == token, before + 1, 0)
        self._ids = np.append(self._ids, token)[-self._window :]
        self._heads = np.append(self._heads, token in self._breakers)[-self._window :]
        self._repeats = np.append(repeats, 0)[-self._window :]

    def apply(self, scores: Scores) -> None:
        """Changes the scores (V,) in place."""
        for token, length in self._continuations().items():
            if () not in self._breakers.get(token, ()):
                scores[token] -= np.float32(float(self._multiplier) * math.pow(self._base, self._exponent(length)))

    def _continuations(self) -> dict[int, int]:
        """Returns the tokens that would carry on a phrase, each with the length of the longest such phrase."""
        limit = self._limit()
        if len(self._ids) <= self._allowed or limit < self._allowed:
            return {}
        room = np.arange(1, len(self._ids))
        lengths = np.minimum(np.minimum(self._repeats[:-1], limit), room)
        places = (lengths >= self._allowed).nonzero()[0]
        found: dict[int, int] = {}
        for token, length in zip(self._ids[places + 1].tolist(), lengths[places].tolist(), strict=True):
            found[token] = max(length, found.get(token, 0))
        return found

    def _limit(self) -> int:
        """Returns how many tokens have come since the last breaker."""
        last = len(self._ids) - 1
        for place in self._heads.nonzero()[0][::-1].tolist():
            after = tuple(self._ids[place + 1 : place + 1 + _MOST_TAIL].tolist())
            tails = self._breakers[int(self._ids[place])]
            matching = [len(tail) for tail in tails if after[: len(tail)] == tail]
            if matching:
                return last - int(place) - max(matching)
        return len(self._ids)

    def _exponent(self, length: int) -> int:
        if self._base <= np.float32(1.000001):
            return length - self._allowed
        most = int(_MOST_EXPONENT / math.log(self._base))
        return min(length - self._allowed, most) if most > 0 else length - self._allowed
