"""A chain that sees only the tokens that can win draws what it would draw from the whole vocabulary."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from runtime.llama.candidates import Candidates
from runtime.llama.front_runners import FrontRunners
from runtime.llama.library import load_library
from runtime.logits import InvalidNumbers

V = 20_000

Scores = Callable[[np.random.Generator], np.ndarray]
SHAPES: dict[str, Scores] = {
    "bell": lambda rng: rng.normal(0, 3, V),
    "one peak": lambda rng: np.where(np.arange(V) == rng.integers(V), 30.0, rng.normal(0, 1, V)),
    "neighbours": lambda rng: np.concatenate([rng.normal(0, 1, V - 64), rng.normal(20, 1, 64)]),
    "one group": lambda rng: np.where(np.arange(V) % 1024 == 7, rng.normal(20, 1, V), rng.normal(0, 1, V)),
    "mostly impossible": lambda rng: np.where(rng.random(V) < 0.9, -np.inf, rng.normal(0, 1, V)),
    "slope": lambda rng: np.arange(V) / 100,
}


def make_chain(*, count: int, greedy: bool, seed: int) -> Any:
    library = load_library()
    chain = library.llama_sampler_chain_init(library.llama_sampler_chain_default_params())
    if greedy:
        library.llama_sampler_chain_add(chain, library.llama_sampler_init_greedy())
        return chain
    library.llama_sampler_chain_add(chain, library.llama_sampler_init_top_k(count))
    library.llama_sampler_chain_add(chain, library.llama_sampler_init_top_p(0.95, 1))
    library.llama_sampler_chain_add(chain, library.llama_sampler_init_dist(seed))
    return chain


def pointer_to(scores: np.ndarray) -> Any:
    return ctypes.cast(scores.ctypes.data, ctypes.POINTER(ctypes.c_float))


def draw_from_all(chain: Any, scores: np.ndarray) -> int:
    library = load_library()
    candidates = Candidates.of_logits(library, scores)
    candidates.apply(chain)
    library.llama_sampler_accept(chain, candidates.selected)
    return candidates.selected


@pytest.mark.parametrize("count", [1, 2, 40, 256])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_draw_is_the_same(shape: str, count: int) -> None:
    library, rng = load_library(), np.random.default_rng(count)
    few, every = (make_chain(count=count, greedy=False, seed=5) for _ in range(2))
    front = FrontRunners(library, size=V, count=count)
    for _ in range(40):
        scores = SHAPES[shape](rng).astype(np.float32)
        expected = draw_from_all(every, scores)
        found = front.draw(few, pointer_to(scores))
        assert (found if found is not None else draw_from_all(few, scores)) == expected


def test_the_likeliest_token_is_found() -> None:
    scores = SHAPES["bell"](np.random.default_rng(1)).astype(np.float32)
    front = FrontRunners(load_library(), size=V, count=1)
    assert front.draw(make_chain(count=1, greedy=True, seed=0), pointer_to(scores)) == int(scores.argmax())


def test_a_common_shape_does_not_need_the_whole_vocabulary() -> None:
    rng, chain = np.random.default_rng(2), make_chain(count=40, greedy=False, seed=1)
    front = FrontRunners(load_library(), size=V, count=40)
    scores = [SHAPES["bell"](rng).astype(np.float32) for _ in range(50)]  # kept: a pointer alone keeps nothing
    drawn = [front.draw(chain, pointer_to(each)) for each in scores]
    assert drawn.count(None) <= 2  # equal scores by chance


@pytest.mark.parametrize(
    "scores",
    [
        np.zeros(V), np.full(V, -np.inf), np.where(np.arange(V) < 41, 5.0, np.arange(V) / V),
    ],
    ids=["equal", "impossible", "equal at the top"],
)  # fmt: skip
def test_where_the_choice_is_open_nothing_is_drawn(scores: np.ndarray) -> None:
    chain = make_chain(count=40, greedy=False, seed=1)
    single = scores.astype(np.float32)
    drawn = FrontRunners(load_library(), size=V, count=40).draw(chain, pointer_to(single))
    assert drawn is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_refused(value: float) -> None:
    scores = np.where(np.arange(V) == 3, value, np.arange(V)).astype(np.float32)
    with pytest.raises(InvalidNumbers):
        FrontRunners(load_library(), size=V, count=40).draw(None, pointer_to(scores))


@pytest.mark.parametrize(("size", "count", "serves"), [
    (49_152, 40, True), (49_152, 1, True), (49_152, 0, False), (49_152, 257, False), (4_000, 40, False),
])  # fmt: skip
def test_it_serves_large_vocabularies_and_small_selections(size: int, count: int, serves: bool) -> None:
    assert FrontRunners.serves(size, count) is serves
