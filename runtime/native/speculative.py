"""Reads an answer's tokens one by one, or together with guesses at the tokens that follow.

One pass over several tokens takes little longer than one over a single token, because both wait for the weights. So
guesses are read along, and after each place stand the logits that would stand there without them. The token there is
drawn from these by the same sampler: as long as it equals the guess, the pass has saved one. Guesses change neither
what is likely nor, where numbers are exact, the text. After Leviathan et al. 2022 (arXiv:2211.17192), with equality in
place of its random acceptance. Knows no text and draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Protocol

import numpy as np

from runtime.draft_pace import DraftPace
from runtime.drafts import Drafter, Guess
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
        """Reads tokens behind those in the cache; returns the logits (T, V) after each of them."""
        ...

    def truncate(self, length: int) -> None:
        """Forgets all tokens in the cache from `length` on; at least the last few can always be forgotten."""
        ...


class Steps(Protocol):
    """How the tokens of an answer are read."""

    drafted: int  # guesses that were read for this answer
    accepted: int  # and those that came true
    logits: Scores  # (V,), of the next token

    @property
    def length(self) -> int:
        """How many tokens prompt and answer have so far; the cache may hold guesses beyond."""
        ...

    def begin(self, logits: Scores) -> None:
        """An answer begins: its prompt has been read, and these logits (V,) stand behind it."""
        ...

    def append(self, token: int, *, wanted: float) -> None:
        """Takes a token that was drawn; at most `wanted` more will be."""
        ...

    def end(self) -> None:
        """Leaves in the cache what was said. May be called twice, and at any moment."""
        ...


class OneByOne:
    """Reads each token alone. Implements `Steps`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.drafted = self.accepted = 0
        self.logits: Scores = np.zeros(0, np.float32)

    @property
    def length(self) -> int:
        return len(self._reader.ids)

    def begin(self, logits: Scores) -> None:
        self.logits = logits

    def append(self, token: int, *, wanted: float) -> None:
        self.logits = self._reader.read([token])[0]

    def end(self) -> None:
        """There is nothing but what was said."""


class Speculation:
    """Reads tokens together with guesses, as many as the pace thinks worth it. Implements `Steps`."""

    def __init__(
        self, reader: Reader, drafter: Drafter, *, pace: DraftPace, most: int, ends_answer: Callable[[int], bool]
    ) -> None:
        """Reads at most `most` guesses at once: no more than the reader can forget again."""
        self._reader = reader
        self._drafter = drafter
        self._pace = pace
        self._most = most
        self._ends_answer = ends_answer
        self.begin(np.zeros(0, np.float32))

    def begin(self, logits: Scores) -> None:
        self.logits = logits
        self.drafted = self.accepted = 0
        self._length = len(self._reader.ids)
        self._rows: Scores = logits[None]  # after the token that was drawn last, and after each guess
        self._guesses: list[Guess] = []  # those that were read, and then perhaps one that was only looked at
        self._came_true = self._checked = 0
        self._drafter.begin(self._reader.ids)

    @property
    def length(self) -> int:
        return self._length

    def append(self, token: int, *, wanted: float) -> None:
        self._drafter.add(token)
        if self._was_guessed(token):
            self._came_true += 1
            self.accepted += 1
        else:
            self.end()
            self._read(token, wanted)
        self._length += 1
        self.logits = self._rows[self._came_true]

    def end(self) -> None:
        """Drops the guesses that did not come true, or whose turn did not come."""
        if self._length < len(self._reader.ids):
            self._reader.truncate(self._length)
        self._pace.settle(self._came_true)
        self._rows, self._guesses = self._rows[:1], []
        self._came_true = self._checked = 0

    def _was_guessed(self, token: int) -> bool:
        """Whether the token has been read as a guess. A guess that was only looked at teaches the pace, too."""
        if self._checked >= len(self._guesses):
            return False
        guess = self._guesses[self._checked]
        self._pace.checked(guess, guess.token == token)
        self._checked += 1
        return guess.token == token and self._checked < len(self._rows)

    def _read(self, token: int, wanted: float) -> None:
        room = min(self._most, self._reader.context_length - self._length - 1, wanted - 1)
        guesses, count = self._guess(int(room))
        started = self._pace.clock()
        self._rows = self._reader.read([token, *(guess.token for guess in guesses[:count])])
        self._pace.evaluated(count, self._pace.clock() - started)
        self.drafted += count
        self._guesses = guesses[: max(count, 1)]

    def _guess(self, most: int) -> tuple[list[Guess], int]:
        """Returns guesses, and how many of them to read."""
        behind = self._drafter.behind
        if most < 1 or not self._pace.asks(behind):
            return [], 0
        started = self._pace.clock()
        self._drafter.catch_up()
        self._pace.caught_up(behind, self._pace.clock() - started)
        return self._pace.choose(takewhile(self._goes_on, self._drafter.guesses()), most=most)

    def _goes_on(self, guess: Guess) -> bool:
        return not self._ends_answer(guess.token)  # nothing is read after the end


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
