"""The sampler chain, on a model whose next-token distribution is known exactly."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import engines
import tiny_gguf
from runtime.engine import Engine
from runtime.llama.sampler import SamplerChain
from runtime.logit_bias import BadBias
from runtime.params import SamplingParams
from runtime.protocol import FinishReason
from runtime.seed import used_seed

DRAWS = 4000
PROBABILITIES = {b"A1": 0.4, b"B1": 0.3, b"C1": 0.15, b"D1": 0.1, b"E1": 0.05}
OFF = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("draws") / "five.gguf"
    tiny_gguf.write_scripted(path, [b"ok"], distribution={None: PROBABILITIES})
    engine = engines.load(path)
    engines.collect(engine, engines.chat("hi", max_tokens=1))  # the logits of the first token are now in the context
    yield engine
    engine.close()


def draw(engine: Any, draws: int = DRAWS, history: list[int] | None = None, **settings: Any) -> dict[bytes, float]:
    """Returns how often each piece was drawn from the same logits."""
    params = SamplingParams(**{**OFF, **settings}).validated()
    vocabulary = engine._model.vocabulary
    chain = SamplerChain(engine._model.library, vocabulary, params, seed=used_seed(params), context_length=512)
    chain.remember(history or [])
    counts = Counter(vocabulary.piece(chain.sample(engine._model.context)) for _ in range(draws))
    chain.close()
    return {piece: count / draws for piece, count in counts.items()}


def near(found: dict[bytes, float], expected: dict[bytes, float]) -> bool:
    """True where every frequency is within four standard errors, and nothing else was drawn."""
    total = sum(expected.values())
    share = {piece: value / total for piece, value in expected.items()}
    return set(found) <= set(share) and all(
        abs(found.get(piece, 0) - p) <= 4 * (p * (1 - p) / DRAWS) ** 0.5 + 1e-9 for piece, p in share.items()
    )


def first(count: int) -> dict[bytes, float]:
    return dict(list(PROBABILITIES.items())[:count])


def test_without_filters_the_draw_follows_the_model(engine: Engine) -> None:
    assert near(draw(engine, seed=3), PROBABILITIES)


def test_temperature_reshapes_the_distribution(engine: Engine) -> None:
    assert near(draw(engine, seed=3, temperature=0.5), {piece: p**2 for piece, p in PROBABILITIES.items()})
    assert near(draw(engine, seed=3, temperature=2.0), {piece: p**0.5 for piece, p in PROBABILITIES.items()})


@pytest.mark.parametrize("settings", [{}, {"top_p": 0.5}, {"min_p": 0.9}, {"top_k": 3}, {"dynatemp_range": 1.0}])
def test_temperature_zero_takes_the_likeliest(engine: Engine, settings: dict[str, Any]) -> None:
    assert draw(engine, 50, temperature=0.0, **settings) == {b"A1": 1.0}


@pytest.mark.parametrize("temperature", [1e-7, 1e-38, 1e-45, 5e-324])
def test_a_temperature_next_to_zero_takes_the_likeliest(engine: Engine, temperature: float) -> None:
    assert draw(engine, 50, temperature=temperature) == {b"A1": 1.0}


@pytest.mark.parametrize(("top_k", "left"), [(1, 1), (2, 2), (3, 3), (0, 5), (1_000_000, 5)])
def test_top_k_keeps_the_likeliest(engine: Engine, top_k: int, left: int) -> None:
    assert near(draw(engine, seed=3, top_k=top_k), first(left))


@pytest.mark.parametrize(("top_p", "left"), [(0.0, 1), (0.39, 1), (0.6, 2), (0.8, 3), (0.96, 5), (1.0, 5)])
def test_top_p_keeps_the_smallest_set_that_reaches_it(engine: Engine, top_p: float, left: int) -> None:
    assert near(draw(engine, seed=3, top_p=top_p), first(left))


@pytest.mark.parametrize(("min_p", "left"), [(0.0, 5), (0.2, 4), (0.3, 3), (0.5, 2), (1.0, 1)])
def test_min_p_compares_with_the_likeliest_before_temperature(engine: Engine, min_p: float, left: int) -> None:
    assert set(draw(engine, seed=3, min_p=min_p, temperature=0.5)) <= set(first(left))
    assert near(draw(engine, seed=3, min_p=min_p), first(left))


def test_typical_p_and_top_n_sigma_and_xtc_narrow_the_choice(engine: Engine) -> None:
    assert len(draw(engine, seed=3, typical_p=0.3)) < 5
    assert set(draw(engine, seed=3, top_n_sigma=0.0001)) == {b"A1"}
    # All of A, B and C are above the threshold: XTC leaves the least likely of them, and what lies below.
    assert near(draw(engine, seed=3, xtc_probability=1.0, xtc_threshold=0.12), {b"C1": 0.15, b"D1": 0.1, b"E1": 0.05})


def test_a_penalty_counts_only_the_window_and_never_control_tokens(engine: Any) -> None:
    vocabulary = engine._model.vocabulary
    token = {vocabulary.piece(at): at for at in range(vocabulary.size)}
    mark = next(iter(vocabulary.control_ids))
    strong = {"repeat_penalty": 10.0, "temperature": 0.0}
    assert draw(engine, 1, [token[b"A1"]], **strong) == {b"B1": 1.0}
    assert draw(engine, 1, [token[b"A1"], *[token[b"x"]] * 64], penalty_window=64, **strong) == {b"A1": 1.0}
    assert draw(engine, 1, [token[b"A1"], *[token[b"x"]] * 64], penalty_window=-1, **strong) == {b"B1": 1.0}
    assert draw(engine, 1, [token[b"A1"]], penalty_window=0, **strong) == {b"A1": 1.0}
    assert draw(engine, 1, [token[b"A1"], *[mark] * 64], penalty_window=64, **strong) == {b"B1": 1.0}


def test_presence_and_frequency_penalties_subtract_from_the_score(engine: Any) -> None:
    vocabulary = engine._model.vocabulary
    best = next(at for at in range(vocabulary.size) if vocabulary.piece(at) == b"A1")
    assert draw(engine, 1, [best], presence_penalty=1.0, temperature=0.0) == {b"B1": 1.0}
    assert draw(engine, 1, [best], frequency_penalty=0.1, temperature=0.0) == {b"A1": 1.0}
    assert draw(engine, 1, [best] * 5, frequency_penalty=0.1, temperature=0.0) == {b"B1": 1.0}


def test_a_bias_is_added_to_the_score_of_its_token(engine: Any) -> None:
    vocabulary = engine._model.vocabulary
    best = next(at for at in range(vocabulary.size) if vocabulary.piece(at) == b"A1")
    boosted = {**PROBABILITIES, b"E1": 0.05 * math.exp(2)}
    assert near(draw(engine, seed=3, logit_bias=("E1=+2",)), boosted)
    assert near(draw(engine, seed=3, logit_bias=("E1=+1", "E1=+1")), boosted)  # several add up
    assert near(draw(engine, seed=3, logit_bias=(f"{best}=-inf",)), dict(list(PROBABILITIES.items())[1:]))
    # The bias comes before the filters
    assert draw(engine, 20, seed=3, logit_bias=("E1=+20",), top_k=1) == {b"E1": 1.0}


def test_a_forbidden_token_does_no_harm_to_typical_p(engine: Engine) -> None:
    # Of B, C, D and E, the surprise of C is nearest to the average; with a surprise of A's it would be B
    assert draw(engine, 50, seed=3, logit_bias=("A1=-inf",), typical_p=0.2) == {b"C1": 1.0}


@pytest.mark.parametrize(
    ("written", "words"), [("99999999=5", "0 to 511"), ("two words=1", "tokens"), ("<|im_end|>x=1", "tokens")]
)
def test_a_bias_for_no_token_is_refused_before_native_code(engine: Engine, written: str, words: str) -> None:
    with pytest.raises(BadBias) as caught:
        draw(engine, 1, logit_bias=(written,))
    assert words in caught.value.info.message


def test_a_model_cannot_be_forbidden_everything(engine: Any) -> None:
    with pytest.raises(BadBias):
        draw(engine, 1, logit_bias=tuple(f"{token}=-inf" for token in range(engine._model.vocabulary.size)))


def test_a_control_token_is_named_by_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    tiny_gguf.write_scripted(path, [b"a1"])
    engine = engines.load(path)
    answer = engines.collect(engine, engines.chat("hi", logit_bias=("<|im_end|>=-inf",), max_tokens=5))
    engine.close()
    assert answer.end.reason is FinishReason.LENGTH


def test_what_top_n_sigma_forbids_does_no_harm_to_typical_p(engine: Engine) -> None:
    # A and B are left, 0.57 to 0.43: the entropy is 0.99 bits, and A (0.81 bits) is nearer to it than B (1.22 bits).
    assert draw(engine, 50, top_n_sigma=0.06, typical_p=0.5) == {b"A1": 1.0}


def test_dry_discourages_the_continuation_of_a_repeated_phrase(engine: Any) -> None:
    vocabulary = engine._model.vocabulary
    token = {vocabulary.piece(at): at for at in range(vocabulary.size)}
    phrase = [token[b"x"], token[b"y"], token[b"z"]]
    history = [*phrase, token[b"A1"], token[b"q"], *phrase]
    assert draw(engine, 1, history, temperature=0.0) == {b"A1": 1.0}
    assert draw(engine, 1, history, temperature=0.0, dry_multiplier=5.0, dry_window=-1) == {b"B1": 1.0}
    assert draw(engine, 1, history, temperature=0.0, dry_multiplier=5.0, dry_breakers=("z",)) == {b"A1": 1.0}


@pytest.mark.parametrize("alternatives", [0, 2])
def test_a_control_token_in_the_answer_does_not_enter_the_history(tmp_path: Path, alternatives: int) -> None:
    path = tmp_path / "m.gguf"
    tiny_gguf.write_scripted(path, [b"a1", b"<|mark|>", b"b1"], control=[b"<|mark|>"])
    engine: Any = engines.load(path)
    request = engines.chat("hi", repeat_penalty=1.5, max_tokens=8)
    answer = engines.collect(engine, msgspec.structs.replace(request, alternatives=alternatives))
    assert answer.text == "a1b1"
    engine.close()


@pytest.mark.parametrize(
    "settings",
    [{"mirostat": "1"}, {"mirostat": "2"}, {"adaptive_p_target": 0.3, "min_p": 0.01}, {"dynatemp_range": 0.5}],
    ids=lambda settings: next(iter(settings)) + str(next(iter(settings.values()))),
)
def test_every_other_way_to_draw_works_and_repeats_with_its_seed(engine: Engine, settings: dict[str, Any]) -> None:
    once, twice = (draw(engine, 200, seed=5, **settings) for _ in range(2))
    assert once == twice
    assert set(once) <= set(PROBABILITIES)


def test_mirostat_with_a_low_target_is_more_focused(engine: Engine) -> None:
    low = draw(engine, seed=5, mirostat="2", mirostat_tau=0.1)
    high = draw(engine, seed=5, mirostat="2", mirostat_tau=10.0)
    assert low.get(b"A1", 0) > high.get(b"A1", 0) + 0.2


def test_adaptive_p_prefers_tokens_near_its_target(engine: Engine) -> None:
    rare = draw(engine, seed=5, adaptive_p_target=0.05, min_p=0.01)
    assert rare.get(b"A1", 0) < PROBABILITIES[b"A1"]
    assert rare.get(b"E1", 0) > PROBABILITIES[b"E1"]


def test_a_fresh_seed_is_drawn_for_minus_one_and_kept_otherwise() -> None:
    assert used_seed(SamplingParams(seed=0)) == 0
    assert used_seed(SamplingParams(seed=4_294_967_294)) == 4_294_967_294
    assert len({used_seed(SamplingParams(seed=-1)) for _ in range(8)}) == 8
