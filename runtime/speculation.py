"""Evaluates an answer's tokens one by one, or together with guesses at the tokens that follow.

The token at every place is drawn from the model's own logits by the very samplers that would draw it without guesses,
so guesses change neither what is likely nor, where numbers are exact, the text: they only decide how many places are
evaluated at once. After Leviathan et al., "Fast inference from Transformers via speculative decoding", 2022, with
equality in place of its random acceptance. Knows no text and draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Protocol

from runtime.draft_pace import DraftPace
from runtime.drafts import Drafter, Guess
from runtime.evaluation import LAST, Cache


class Steps(Protocol):
    """How the tokens of an answer are evaluated."""

    speculates: bool
    row: int  # after which token of the last draft the logits of the next token stand, for `Draw.draw`
    drafted: int  # guesses that were evaluated for this answer
    accepted: int  # and those that came true

    @property
    def length(self) -> int:
        """How many tokens prompt and answer have so far; the cache may hold guesses beyond."""
        ...

    def begin(self) -> None:
        """An answer begins: its prompt has been evaluated."""
        ...

    def append(self, token: int, *, wanted: float) -> None:
        """Takes a token that was drawn; at most `wanted` more will be. Raises `Stopped` and `EvaluationFailed`."""
        ...

    def shift(self, keep: int) -> int:
        """Does what `Cache.shift` does."""
        ...

    def end(self) -> None:
        """Leaves in the cache what was said. May be called twice, and at any moment."""
        ...


class OneByOne:
    """Evaluates each token alone. Implements `Steps`."""

    speculates = False
    row = LAST
    drafted = accepted = 0

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    @property
    def length(self) -> int:
        return len(self._cache)

    def begin(self) -> None:
        pass

    def append(self, token: int, *, wanted: float) -> None:
        self._cache.append(token)

    def shift(self, keep: int) -> int:
        return self._cache.shift(keep)

    def end(self) -> None:
        pass


class Speculation:
    """Evaluates tokens together with guesses, as many as the pace thinks worth it. Implements `Steps`."""

    speculates = True

    def __init__(
        self, cache: Cache, drafter: Drafter, *, pace: DraftPace, most: int, context_length: int,
        ends_answer: Callable[[int], bool],
    ) -> None:  # fmt: skip
        """Evaluates at most `most` guesses at once: no more than the cache takes, and can take back."""
        self._cache = cache
        self._drafter = drafter
        self._pace = pace
        self._ends_answer = ends_answer
        self._context_length = context_length
        self._most = most
        self._reset()

    def _reset(self) -> None:
        self.row = LAST
        self.drafted = self.accepted = 0
        self._length = len(self._cache)
        self._guesses: list[Guess] = []
        self._evaluated = self._checked = self._came_true = 0  # of the guesses, in this order

    @property
    def length(self) -> int:
        return self._length

    def begin(self) -> None:
        self._reset()
        self._drafter.begin(self._cache.ids)

    def append(self, token: int, *, wanted: float) -> None:
        self._drafter.add(token)
        if self._was_guessed(token):
            self.row += 1
            self.accepted += 1
            self._came_true += 1
        else:
            self._cut_back()
            self._evaluate(token, wanted)
        self._length += 1

    def shift(self, keep: int) -> int:
        self._cut_back()
        taken = self._cache.shift(keep)
        if taken:
            self._length = len(self._cache)
            self._drafter.begin(self._cache.ids)
        return taken

    def end(self) -> None:
        self._cut_back()

    def _was_guessed(self, token: int) -> bool:
        """Whether the token has been evaluated as a guess. A guess that was only looked at teaches the pace, too."""
        if self._checked >= len(self._guesses):
            return False
        guess = self._guesses[self._checked]
        self._pace.checked(guess, guess.token == token)
        self._checked += 1
        return guess.token == token and self._checked <= self._evaluated

    def _cut_back(self) -> None:
        """Drops the guesses that did not come true, or whose turn did not come."""
        if self._length < len(self._cache):
            went_back = self._cache.take_back(self._length)
            assert went_back, "models that cannot go back are answered one by one"
        self._pace.settle(self._came_true)
        self._guesses = []
        self._evaluated = self._checked = self._came_true = 0

    def _evaluate(self, token: int, wanted: float) -> None:
        room = min(self._most, self._context_length - self._length - 1, wanted - 1)
        guesses, count = self._guess(int(room))
        started = self._pace.clock()
        if count:
            self._cache.append_draft([token, *(guess.token for guess in guesses[:count])])
        else:
            self._cache.append(token)
        self._cache.settle()
        self._pace.evaluated(count, self._pace.clock() - started)
        self.row = 0 if count else LAST
        self.drafted += count
        self._guesses = guesses[: max(count, 1)]
        self._evaluated = count

    def _guess(self, most: int) -> tuple[list[Guess], int]:
        """Returns guesses, and how many of them to evaluate."""
        behind = self._drafter.behind
        if most < 1 or not self._pace.asks(behind):
            return [], 0
        started = self._pace.clock()
        self._drafter.catch_up()
        self._pace.caught_up(behind, self._pace.clock() - started)
        return self._pace.choose(takewhile(self._goes_on, self._drafter.guesses()), most=most)

    def _goes_on(self, guess: Guess) -> bool:
        return not self._ends_answer(guess.token)  # nothing is evaluated after the end
