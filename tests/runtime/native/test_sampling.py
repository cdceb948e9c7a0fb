"""Our samplers against llama.cpp's: on the same scores both leave the same candidates, and draw the same tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import tiny_gguf
from both_chains import OFF, Both, Numbers, unlike
from runtime.llama.tokenizer import GgufTokenizer
from runtime.logit_bias import BadBias
from runtime.logits import InvalidNumbers
from runtime.native.dry import breakers_of
from runtime.native.sampling import TokenSampler
from runtime.params import SamplingParams

V = 3000
EDGE = {"ordered": False, "at_edge": 2}  # typical-p's distances are often equal in f32: the order is llama.cpp's affair

ALONE: list[dict[str, Any]] = [
    *({"top_k": k} for k in (1, 2, 40, 128, 129, 500, 5000)),
    *({"top_p": p} for p in (0.0, 0.1, 0.5, 0.9, 0.95, 0.999)),
    *({"min_p": p} for p in (0.001, 0.05, 0.3, 1.0)),
    *({"typical_p": p} for p in (0.0, 0.2, 0.5, 0.9, 0.99)),
    *({"top_n_sigma": n} for n in (0.5, 1.0, 2.0, 3.0)),
    *({"xtc_probability": 1.0, "xtc_threshold": t} for t in (0.0, 0.01, 0.1, 0.3, 0.5, 0.6)),
    *({"temperature": t} for t in (0.1, 0.8, 3.0)),
    *(
        {"dynatemp_range": r, "dynatemp_exponent": e, "temperature": t}
        for r in (0.3, 0.8, 1.2) for e in (0.5, 1.0, 2.0) for t in (0.5, 1.0, 1.2)
    ),
]  # fmt: skip


def named(settings: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in settings.items())


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GgufTokenizer]:
    with GgufTokenizer(tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf")) as tokenizer:
        yield tokenizer


@pytest.mark.parametrize("settings", ALONE, ids=named)
@pytest.mark.parametrize("size", [60, V])
def test_each_sampler_alone_leaves_what_llama_cpps_leaves(settings: dict[str, Any], size: int) -> None:
    rng = np.random.default_rng(size)
    both = Both(Numbers(size), **settings)

    for _ in range(25):
        both.check_survivors(unlike(rng, size), **(EDGE if "typical_p" in settings else {}))
    both.close()


@pytest.mark.parametrize("settings", [{}, {"top_k": 0, "top_p": 0.95}, {"min_p": 0.1}, {"top_n_sigma": 1.0}], ids=named)
def test_a_large_vocabulary_leaves_the_same(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    both = Both(Numbers(150_000), **(settings or {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}))

    for _ in range(10):
        both.check_survivors(unlike(rng, 150_000))
    both.close()


def mixed(rng: np.random.Generator) -> dict[str, Any]:
    """Returns settings in which several samplers are on at once."""
    choices: dict[str, tuple[float, list[Any]]] = {
        "top_k": (0.8, [1, 5, 40, 100, 300]),
        "top_p": (0.7, [0.95, 0.8, 0.3]),
        "min_p": (0.7, [0.05, 0.2]),
        "temperature": (0.8, [0.1, 0.8, 1.5]),
        "top_n_sigma": (0.3, [1.0, 2.0, 3.0]),
        "xtc_probability": (0.3, [0.5]),
        "dynatemp_range": (0.3, [0.3, 1.0]),
        "repeat_penalty": (0.3, [1.2, 0.8]),
        "frequency_penalty": (0.3, [0.3]),
        "presence_penalty": (0.3, [-0.3, 1.0]),
        "penalty_window": (0.6, [-1, 0, 5, 64]),
        "adaptive_p_target": (0.2, [0.0, 0.1, 0.5, 1.0]),
        "mirostat": (0.3, ["1", "2"]),
        "mirostat_tau": (0.7, [1.0, 3.0, 4.0]),
        "mirostat_eta": (0.5, [0.0, 0.5]),
        "logit_bias": (0.3, [("3=2", "7=-inf", "5=-4", "3=1")]),
    }
    wanted = ((name, values) for name, (chance, values) in choices.items() if rng.random() < chance)
    return {name: values[rng.integers(len(values))] for name, values in wanted}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("size", [60, V])
def test_samplers_together_draw_the_same_tokens_with_the_same_seed(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(25):
        settings = mixed(rng)
        both = Both(Numbers(size, control_ids=[1, 2], suppressed=[4]), seed=int(rng.integers(2**32 - 1)), **settings)
        both.remember(rng.integers(0, size, 40).tolist())
        for _ in range(6):
            both.check_draw(unlike(rng, size))
        both.close()


@pytest.mark.parametrize("typical", [0.3, 0.9])
def test_typical_p_behind_top_k_draws_the_same_tokens(typical: float) -> None:
    rng = np.random.default_rng(1)
    both = Both(Numbers(V), top_k=40, typical_p=typical, top_p=0.9, temperature=0.9)

    for _ in range(200):
        both.check_draw(unlike(rng, V))
    both.close()


def test_typical_p_behind_top_n_sigma_looks_at_what_is_left() -> None:
    scores = np.log([0.4, 0.3, 0.15, 0.1, 0.05]).astype(np.float32)
    sampler = TokenSampler(
        Numbers(5), SamplingParams(**{**OFF, "top_n_sigma": 0.6, "typical_p": 0.5}), seed=1, context_length=16
    )

    assert {sampler.sample(scores) for _ in range(50)} == {0}


@pytest.mark.parametrize("method", ["1", "2"])
def test_mirostat_follows_llama_cpp_over_a_long_text(method: str) -> None:
    rng = np.random.default_rng(2)
    both = Both(Numbers(V), mirostat=method, mirostat_tau=4.0)

    # On flat scores, Mirostat 1's k is larger than an int holds, and what a C compiler makes of it is its own affair.
    for _ in range(300):
        both.check_draw(unlike(rng, V, flat=method == "2"))
    both.close()


def test_adaptive_p_follows_llama_cpp_over_a_long_text() -> None:
    rng = np.random.default_rng(3)
    both = Both(Numbers(V), min_p=0.01, adaptive_p_target=0.3)

    for _ in range(300):
        both.check_draw(unlike(rng, V))
    both.close()


def test_greedy_takes_the_first_of_the_best_after_penalties() -> None:
    both = Both(Numbers(50), temperature=0.0, repeat_penalty=1.5, top_k=40, top_p=0.9)
    scores = np.zeros(50, np.float32)
    scores[[7, 9, 30]] = 3.0

    assert both.check_draw(scores) == 7
    assert both.check_draw(scores) == 9
    assert both.check_draw(scores) == 30


@pytest.mark.parametrize("settings", [{"top_k": 5}, {"top_p": 0.4}, {"min_p": 0.5}, {"top_n_sigma": 1.0}], ids=named)
def test_equal_scores_leave_as_many_and_as_good_candidates(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    both = Both(Numbers(V), **settings)

    for _ in range(50):
        scores = np.round(unlike(rng, V) * 4) / np.float32(4)
        theirs = both.theirs.survivors(scores).rows["logit"]
        ours = both.ours._candidates(scores, None)
        for _name, apply in both.ours._filters:
            apply(ours)
        assert sorted(ours.logits.tolist()) == sorted(theirs[theirs > -np.inf].tolist())
    both.close()


def test_of_equal_scores_at_a_cut_the_lower_ids_stay() -> None:
    sampler = TokenSampler(Numbers(V), SamplingParams(**{**OFF, "top_k": 3}), seed=0, context_length=512)

    drawn = {sampler.sample(np.zeros(V, np.float32)) for _ in range(100)}

    assert drawn == {0, 1, 2}


# --- penalties and DRY -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 3, 64, -1])
def test_only_the_last_tokens_are_penalized_and_never_control_tokens(window: int) -> None:
    rng = np.random.default_rng(6)
    both = Both(
        Numbers(30, control_ids=[0, 1]), repeat_penalty=1.3, frequency_penalty=0.2, presence_penalty=0.4,
        penalty_window=window, context_length=50,
    )  # fmt: skip
    both.remember(rng.integers(0, 30, 70).tolist())

    for _ in range(120):
        both.check_survivors(unlike(rng, 30))
        both.check_draw(unlike(rng, 30))
    both.close()


@pytest.mark.parametrize("allowed", [0, 1, 2, 5])
@pytest.mark.parametrize("window", [3, 20, -1])
@pytest.mark.parametrize("breakers", [(), ("\n", ":", '"', "*"), ("a", "user", " the", "é")], ids=str)
def test_dry_lowers_what_llama_cpps_dry_lowers(
    words: GgufTokenizer, allowed: int, window: int, breakers: tuple[str, ...]
) -> None:
    rng = np.random.default_rng(allowed)
    text = words.tokenize('the user said: "a b c a b c the use"\nthe user said: "a b c\n') * 3
    for base in (1.0, 1.75, 4.0):
        both = Both(
            words, dry_multiplier=0.8, dry_base=base, dry_allowed_length=allowed, dry_window=window,
            dry_breakers=breakers, context_length=100,
        )  # fmt: skip
        for start in range(0, 80, 5):
            both.remember(text[start : start + 5])
            both.check_survivors(unlike(rng, words.size))
        both.check_draw(unlike(rng, words.size))
        both.close()


def test_dry_and_random_texts_of_few_tokens_agree(words: GgufTokenizer) -> None:
    rng = np.random.default_rng(8)
    for round_ in range(40):
        both = Both(
            words, dry_multiplier=1.0, dry_allowed_length=round_ % 4, dry_window=12 + round_, dry_breakers=(":", "ab"),
            dry_base=3.0,
        )  # fmt: skip
        both.remember((words.tokenize("a:b")[0] + rng.integers(0, 3, 60)).tolist())
        both.check_survivors(unlike(rng, words.size))
        both.close()


def test_the_starters_vocabulary_spells_breakers_as_llama_cpp_does(words: GgufTokenizer) -> None:
    found = breakers_of(("\n", "abc"), words)

    newline = words.tokenize("\n")[0]
    assert found[newline] == [()]
    a = words.tokenize("a")[0]
    assert tuple(words.tokenize("bc")) in found[a]


# --- what is refused, and what is shown --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scores", [[0, math.nan, 1], [0, math.inf, 1], [-math.inf] * 3], ids=["nan", "infinite", "none"]
)
def test_scores_that_are_no_numbers_are_refused(scores: list[float]) -> None:
    sampler = TokenSampler(Numbers(3), SamplingParams(), seed=0, context_length=16)

    with pytest.raises(InvalidNumbers):
        sampler.sample(np.array(scores, np.float32))


def test_scores_are_left_as_they_were() -> None:
    sampler = TokenSampler(
        Numbers(V), SamplingParams(logit_bias=("5=3",), repeat_penalty=2.0), seed=0, context_length=16
    )
    scores = unlike(np.random.default_rng(0), V)
    before = scores.copy()

    for _ in range(5):
        sampler.sample(scores)

    assert np.array_equal(scores, before)


def test_a_bias_for_no_token_is_refused() -> None:
    with pytest.raises(BadBias):
        TokenSampler(Numbers(10), SamplingParams(logit_bias=("10=3",)), seed=0, context_length=16)


class OnlyEven:
    """A constraint: even tokens only."""

    is_quick = True

    def __init__(self, size: int) -> None:
        self.size = size
        self.accepted: list[int] = []
        self.closed = False

    def allowed(self) -> np.ndarray:
        return np.arange(self.size) % 2 == 0

    def allowed_of(self, ids: Iterable[int]) -> np.ndarray:
        return np.array([token % 2 == 0 for token in ids])

    def accept(self, token: int) -> None:
        self.accepted.append(token)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 0.0}, {"mirostat": "2"}, {"adaptive_p_target": 0.5}], ids=named
)
def test_a_constraint_comes_before_the_filters_and_hears_what_is_drawn(settings: dict[str, Any]) -> None:
    constraint = OnlyEven(100)
    sampler = TokenSampler(
        Numbers(100), SamplingParams(**settings), seed=1, context_length=16, constrain=lambda: constraint
    )
    scores = np.where(np.arange(100) % 2 == 0, 0, 20).astype(np.float32)

    drawn = [sampler.sample(scores) for _ in range(20)]
    sampler.close()

    assert all(token is not None and token % 2 == 0 for token in drawn)
    assert constraint.accepted == drawn
    assert constraint.closed


def test_nothing_is_drawn_where_the_constraint_leaves_nothing() -> None:
    params = SamplingParams(logit_bias=tuple(f"{token}=-inf" for token in range(0, 10, 2)))
    sampler = TokenSampler(Numbers(10), params, seed=1, context_length=16, constrain=lambda: OnlyEven(10))

    assert sampler.sample(np.zeros(10, np.float32)) is None


@pytest.mark.parametrize(
    ("settings", "stage"),
    [
        ({"top_k": 2}, "top_k"),
        ({"top_p": 0.5}, "top_p"),
        ({"min_p": 0.9}, "min_p"),
        ({"typical_p": 0.5}, "typical_p"),
        ({"top_n_sigma": 0.5}, "top_n_sigma"),
        ({"temperature": 0.0}, "greedy"),
        ({"logit_bias": ("2=-inf",)}, "logit_bias"),
        ({"mirostat": "2", "mirostat_tau": 0.1}, "mirostat"),
    ],
    ids=str,
)
def test_what_removed_a_candidate_is_named(settings: dict[str, Any], stage: str) -> None:
    params = SamplingParams(**{**OFF, **settings})
    sampler = TokenSampler(Numbers(5), params, seed=1, context_length=16, alternatives=5)

    token = sampler.sample(np.log([0.4, 0.3, 0.15, 0.1, 0.05]).astype(np.float32))

    assert sampler.drawn is not None
    assert sampler.drawn.token == token
    assert [each.token for each in sampler.drawn.alternatives] == [0, 1, 2, 3, 4]
    assert sampler.drawn.alternatives[2].removed_by == stage
    assert math.isclose(sum(each.after for each in sampler.drawn.alternatives), 1.0, rel_tol=1e-6)
    assert math.isclose(sampler.drawn.alternatives[0].before, 0.4, rel_tol=1e-6)


def test_looking_changes_nothing() -> None:
    rng = np.random.default_rng(9)
    scores = [unlike(rng, V) for _ in range(20)]
    plain, looked_at = (
        TokenSampler(Numbers(V), SamplingParams(), seed=3, context_length=16, alternatives=count) for count in (0, 4)
    )

    assert [plain.sample(each) for each in scores] == [looked_at.sample(each) for each in scores]
