"""Makes engines speculate on purpose: with guesses that are known to be right or wrong, always checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from runtime.draft_pace import DraftPace
from runtime.drafts import Drafter, Guess
from runtime.engine import Engine
from runtime.speculation import Speculation


class Foreknowing:
    """Guesses a text that is known, but at every `wrong_at`-th place something else. Implements `Drafter`."""

    behind = 0

    def __init__(self, text: Sequence[int], *, wrong_at: int = 5) -> None:
        self._text = list(text)
        self._wrong_at = wrong_at
        self._heard = 0

    def begin(self, ids: Sequence[int]) -> None:
        self._heard = len(ids)

    def add(self, token: int) -> None:
        self._heard += 1

    def catch_up(self) -> None:
        pass

    def guesses(self) -> Iterator[Guess]:
        for place in range(self._heard, len(self._text)):
            wrong = place % self._wrong_at == self._wrong_at - 1
            yield Guess(self._text[place] ^ wrong, grade=1, chance=0.5)


class Eager(DraftPace):
    """Has every guess checked, whatever it costs."""

    def __init__(self) -> None:
        super().__init__(free=True)

    def choose(self, guesses: Iterator[Guess], *, most: int) -> tuple[list[Guess], int]:
        taken = list(islice(guesses, most))
        return taken, len(taken)


def speculate(engine: Engine, drafter: Drafter, *, most: int = 7) -> Engine:
    """Returns the engine, which from now on checks all the drafter's guesses."""
    model = engine._model  # type: ignore[attr-defined]
    engine._steps = Speculation(  # type: ignore[attr-defined]
        engine._cache, drafter, pace=Eager(), most=min(most, model.micro_batch - 1),  # type: ignore[attr-defined]
        context_length=model.context_length, ends_answer=model.vocabulary.ends_answer,
    )  # fmt: skip
    return engine


def check_every_guess(engine: Engine) -> None:
    """Has an engine that speculates check all its guesses, whatever they cost."""
    engine._steps._pace = Eager()  # type: ignore[attr-defined]


def ids_of(engine: Engine) -> list[int]:
    """Returns the tokens that the engine's cache holds."""
    ids: list[int] = list(engine._cache.ids)  # type: ignore[attr-defined]
    return ids
