"""Guesses the next tokens with a second, small model. Knows nothing of the model whose answer it is.

A pass over several tokens takes little longer than one over a single token, because both wait for the weights; so
guesses are read along and compared with what the model's own draw gives (`runtime.speculation`). After Leviathan et al.
2022 (arXiv:2211.17192), with equality in place of its random acceptance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from runtime.drafts import Guess
from runtime.native.candidates import Scores

_GRADES = 10  # of a draft model's guesses: one for each tenth of probability


class Reader(Protocol):
    """A model with a cache for one text."""

    @property
    def ids(self) -> Sequence[int]:
        """The tokens that are in the cache."""
        ...

    @property
    def context_length(self) -> int: ...

    def read(self, ids: Sequence[int]) -> Scores:
        """Reads tokens behind those in the cache; returns logits (n, V), of which the last row is after the last."""
        ...

    def truncate(self, length: int) -> None:
        """Forgets all tokens in the cache from `length` on."""
        ...


class ModelDrafter:
    """Guesses with a second, small model: always its likeliest token. Implements `runtime.drafts.Drafter`.

    Its cache follows the answer: what it guessed and what was not said is cut off again.
    """

    def __init__(self, reader: Reader, *, n_vocab: int, least_chance: float) -> None:
        """Guesses only tokens below `n_vocab`, and none that it gives less than `least_chance`."""
        self._reader = reader
        self._n_vocab = n_vocab
        self._least_chance = least_chance
        self._ids: list[int] = []
        self._agreed = 0  # so many tokens at the beginning of the cache are those that were told
        self._logits: Scores = np.zeros(0, np.float32)

    def begin(self, ids: Sequence[int]) -> None:
        self._ids = list(ids)
        self._agreed = 0

    def add(self, token: int) -> None:
        self._ids.append(token)

    @property
    def behind(self) -> int:
        self._agree()
        return len(self._ids) - self._agreed

    def catch_up(self) -> None:
        """Reads what was said since the last guess."""
        if len(self._ids) > self._reader.context_length:
            return
        kept = min(len(self._ids) - self.behind, len(self._ids) - 1)  # the logits come from the last token
        self._reader.truncate(kept)
        self._logits = self._reader.read(self._ids[kept:])[-1]
        self._agreed = len(self._ids)

    def guesses(self) -> Iterator[Guess]:
        """Yields a token for each pass of the model, after `catch_up`."""
        if len(self._reader.ids) != len(self._ids):
            return  # the context of the draft is full
        while True:
            guess = self._likeliest()
            if not guess.chance >= self._least_chance:  # also where it is no number
                return
            yield guess
            if len(self._reader.ids) >= self._reader.context_length:
                return
            self._logits = self._reader.read([guess.token])[-1]

    def _agree(self) -> None:
        held, told = self._reader.ids, self._ids
        while self._agreed < min(len(held), len(told)) and held[self._agreed] == told[self._agreed]:
            self._agreed += 1

    def _likeliest(self) -> Guess:
        logits = self._logits[: self._n_vocab]
        token = int(logits.argmax())
        chance = float(1 / np.exp(logits - logits[token]).sum())
        return Guess(token, int(min(chance, 1.0) * (_GRADES - 1)) if chance >= 0 else 0, chance)
