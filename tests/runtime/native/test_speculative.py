"""Guesses never change an answer: the same tokens with the same seed, whoever guesses and however well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, cast

import numpy as np
import pytest

from both_chains import Numbers
from runtime.draft_pace import DraftPace
from runtime.drafts import Drafter, Guess
from runtime.native.sampling import TokenSampler
from runtime.native.speculative import ModelDrafter
from runtime.ngram import NgramDrafter
from runtime.params import SamplingParams
from runtime.speculation import OneByOne, Speculation, Steps

V, END = 12, 0
PROMPT = [3, 4, 5, 3, 4]


class TableReader:
    """A model whose next token depends on the last two tokens, with a cache that counts what it reads."""

    def __init__(self, seed: int, *, context_length: int = 400, spread: float = 2.0) -> None:
        self._table = np.random.default_rng(seed).normal(0, spread, (V, V, V)).astype(np.float32)
        self.ids: list[int] = []
        self.context_length = context_length
        self.passes = 0
        self.longest = 0
        self.rows = np.zeros((0, V), np.float32)  # of what was read last

    def read(self, ids: Sequence[int]) -> np.ndarray:
        self.passes += 1
        self.longest = max(self.longest, len(ids))
        rows = []
        for token in ids:
            self.ids.append(token)
            assert len(self.ids) <= self.context_length
            rows.append(self._table[(0, *self.ids)[-2:]])
        self.rows = np.array(rows)
        return self.rows

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, token: int) -> None:
        self.read([token])

    def append_draft(self, ids: Sequence[int]) -> None:
        self.read(ids)

    def settle(self) -> None: ...

    def take_back(self, length: int) -> bool:
        self.truncate(length)
        return True

    def truncate(self, length: int) -> None:
        assert length <= len(self.ids)
        del self.ids[length:]


class Eager(DraftPace):
    """Has every guess read, whatever it costs."""

    def __init__(self) -> None:
        super().__init__(free=True)

    def choose(self, guesses: Iterator[Guess], *, most: int) -> tuple[list[Guess], int]:
        taken = list(islice(guesses, most))
        return taken, len(taken)


class Random:
    """Guesses anything at all."""

    behind = 0

    def __init__(self) -> None:
        self._rng = np.random.default_rng(5)

    def begin(self, ids: Sequence[int]) -> None: ...

    def add(self, token: int) -> None: ...

    def catch_up(self) -> None: ...

    def guesses(self) -> Iterator[Guess]:
        for _guess in range(int(self._rng.integers(0, 8))):
            yield Guess(int(self._rng.integers(V)), grade=1, chance=0.5)


def speculation(reader: TableReader, drafter: Drafter, **options: Any) -> Speculation:
    cache: Any = reader  # as much of a cache as is asked for
    return Speculation(cache, drafter, context_length=reader.context_length, **options)


def answer(steps: Steps, reader: TableReader, *, seed: int, tokens: int = 200, **settings: Any) -> list[int]:
    """Draws an answer as an engine does."""
    sampler = TokenSampler(Numbers(V), SamplingParams(**settings), seed=seed, context_length=reader.context_length)
    sampler.remember(PROMPT)
    reader.read(PROMPT)
    steps.begin()
    ids: list[int] = []
    while len(ids) < tokens:
        token = sampler.sample(reader.rows[steps.row])
        assert token is not None
        ids.append(token)
        if token == END or len(ids) == tokens:
            break
        steps.append(token, wanted=tokens - len(ids))
        assert steps.length == len(PROMPT) + len(ids)
    steps.end()
    steps.end()
    return ids


def plain(seed: int, **settings: Any) -> list[int]:
    reader = TableReader(1)
    return answer(OneByOne(cast(Any, reader)), reader, seed=seed, **settings)


def drafters() -> dict[str, Drafter]:
    return {
        "n-grams": NgramDrafter(2),
        "the model itself": ModelDrafter(TableReader(1), n_vocab=V, least_chance=0.0),
        "another model": ModelDrafter(TableReader(2), n_vocab=V, least_chance=0.3),
        "a model with a short context": ModelDrafter(TableReader(1, context_length=20), n_vocab=V, least_chance=0.0),
        "chance": Random(),
    }


SETTINGS: list[dict[str, Any]] = [
    {}, {"temperature": 0.0}, {"temperature": 1.5, "repeat_penalty": 1.2, "dry_multiplier": 0.8},
    {"mirostat": "2", "mirostat_tau": 2.0}, {"adaptive_p_target": 0.3}, {"xtc_probability": 0.5},
]  # fmt: skip


@pytest.mark.parametrize("name", drafters())
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_answer_is_the_same_and_the_cache_holds_what_was_said(
    name: str, settings: dict[str, Any], seed: int
) -> None:
    reader = TableReader(1)
    steps = speculation(reader, drafters()[name], pace=Eager(), most=7, ends_answer=lambda token: token == END)

    ids = answer(steps, reader, seed=seed, **settings)

    assert ids == plain(seed, **settings)
    assert list(reader.ids) == PROMPT + ids[:-1]
    assert 0 <= steps.accepted <= steps.drafted
    assert reader.longest <= 8 or reader.longest == len(PROMPT)


def test_right_guesses_save_passes() -> None:
    reader = TableReader(1)
    itself = ModelDrafter(TableReader(1), n_vocab=V, least_chance=0.0)
    steps = speculation(reader, itself, pace=Eager(), most=7, ends_answer=lambda token: False)

    ids = answer(steps, reader, seed=0, temperature=0.0, tokens=81, logit_bias=("0=-inf",))

    assert len(ids) == 81
    assert steps.accepted > 60
    assert reader.passes < 20


def test_the_real_pace_draws_the_same_too() -> None:
    reader = TableReader(1)
    steps = speculation(reader, NgramDrafter(2), pace=DraftPace(free=True), most=7, ends_answer=lambda t: t == END)

    assert answer(steps, reader, seed=4) == plain(4)


def test_no_guess_is_read_past_the_context_or_the_answers_length() -> None:
    reader = TableReader(1, context_length=40)
    itself = ModelDrafter(TableReader(1), n_vocab=V, least_chance=0.0)
    steps = speculation(reader, itself, pace=Eager(), most=16, ends_answer=lambda token: False)

    ids = answer(steps, reader, seed=0, temperature=0.0, tokens=36, logit_bias=("0=-inf",))

    assert len(ids) == 36  # the reader asserts that nothing exceeds the context


def test_the_distribution_is_the_models() -> None:
    """Over many seeds, tokens come as often with guesses as the model wants."""
    counts, first = Counter[int](), TableReader(1).read(PROMPT)[-1]
    draws = 1500
    for seed in range(draws):
        reader = TableReader(1)
        steps = speculation(reader, Random(), pace=Eager(), most=7, ends_answer=lambda token: False)
        ids = answer(steps, reader, seed=seed, tokens=2, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
        counts[ids[1] if len(ids) > 1 else -1] += 1

    weights = np.exp(first - first.max())
    p_first = weights / weights.sum()
    table = TableReader(1)._table
    rows = np.exp(table[PROMPT[-1]] - table[PROMPT[-1]].max(1, keepdims=True))
    expected = (p_first[:, None] * rows / rows.sum(1, keepdims=True))[1:].sum(0)
    for token in range(V):
        error = 4 * (expected[token] * (1 - expected[token]) / draws) ** 0.5 + 1e-3
        assert abs(counts[token] / draws - expected[token]) <= error
