"""The sampler chain, on a model whose next-token distribution is known exactly."""

from __future__ import annotations

import math
import statistics
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


@pytest.mark.shows("temperature")
def test_temperature_reshapes_the_distribution(engine: Engine) -> None:
    assert near(draw(engine, seed=3, temperature=0.5), {piece: p**2 for piece, p in PROBABILITIES.items()})
    assert near(draw(engine, seed=3, temperature=2.0), {piece: p**0.5 for piece, p in PROBABILITIES.items()})


@pytest.mark.shows("temperature")
@pytest.mark.parametrize("settings", [{}, {"top_p": 0.5}, {"min_p": 0.9}, {"top_k": 3}, {"dynatemp_range": 1.0}])
def test_temperature_zero_takes_the_likeliest(engine: Engine, settings: dict[str, Any]) -> None:
    assert draw(engine, 50, temperature=0.0, **settings) == {b"A1": 1.0}


@pytest.mark.parametrize("temperature", [1e-7, 1e-38, 1e-45, 5e-324])
def test_a_temperature_next_to_zero_takes_the_likeliest(engine: Engine, temperature: float) -> None:
    assert draw(engine, 50, temperature=temperature) == {b"A1": 1.0}


@pytest.mark.shows("top_k")
@pytest.mark.parametrize(("top_k", "left"), [(1, 1), (2, 2), (3, 3), (0, 5), (1_000_000, 5)])
def test_top_k_keeps_the_likeliest(engine: Engine, top_k: int, left: int) -> None:
    assert near(draw(engine, seed=3, top_k=top_k), first(left))


@pytest.mark.shows("top_p")
@pytest.mark.parametrize(("top_p", "left"), [(0.0, 1), (0.39, 1), (0.6, 2), (0.8, 3), (0.96, 5), (1.0, 5)])
def test_top_p_keeps_the_smallest_set_that_reaches_it(engine: Engine, top_p: float, left: int) -> None:
    assert near(draw(engine, seed=3, top_p=top_p), first(left))


@pytest.mark.shows("min_p")
@pytest.mark.parametrize(("min_p", "left"), [(0.0, 5), (0.2, 4), (0.3, 3), (0.5, 2), (1.0, 1)])
def test_min_p_compares_with_the_likeliest_before_temperature(engine: Engine, min_p: float, left: int) -> None:
    assert set(draw(engine, seed=3, min_p=min_p, temperature=0.5)) <= set(first(left))
    assert near(draw(engine, seed=3, min_p=min_p), first(left))


@pytest.mark.shows("repeat_penalty", "penalty_window")
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


@pytest.mark.shows("logit_bias")
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


def test_a_fresh_seed_is_drawn_for_minus_one_and_kept_otherwise() -> None:
    assert used_seed(SamplingParams(seed=0)) == 0
    assert used_seed(SamplingParams(seed=4_294_967_294)) == 4_294_967_294
    assert len({used_seed(SamplingParams(seed=-1)) for _ in range(8)}) == 8


# --- exact effects ----------------------------------------------------------------------------------------------


def chances(engine: Any, history: list[int] | None = None, **settings: Any) -> dict[str, float]:
    """Returns each candidate's probability in the next draw; those that a sampler took out are missing."""
    vocabulary, params = engine._model.vocabulary, SamplingParams(**{**OFF, "seed": 1, **settings}).validated()
    chain = SamplerChain(
        engine._model.library, vocabulary, params, seed=1, context_length=512, alternatives=len(PROBABILITIES)
    )
    chain.remember(history or [])
    chain.sample(engine._model.context)
    drawn = chain.drawn
    chain.close()
    assert drawn is not None
    return {each.text: each.after for each in drawn.alternatives if not each.removed_by}


def shares(weights: dict[str, float]) -> Any:
    total = sum(weights.values())
    return pytest.approx({piece: weight / total for piece, weight in weights.items()}, abs=1e-4)


PLAIN = {piece.decode(): p for piece, p in PROBABILITIES.items()}


@pytest.mark.shows("typical_p")
@pytest.mark.parametrize("typical_p", [0.1, 0.3, 0.5, 0.75, 0.9, 0.99])
def test_typical_p_keeps_the_tokens_whose_surprise_is_nearest_to_the_average(engine: Engine, typical_p: float) -> None:
    average = -sum(p * math.log(p) for p in PLAIN.values())
    kept: dict[str, float] = {}
    for piece, p in sorted(PLAIN.items(), key=lambda each: abs(-math.log(each[1]) - average)):
        if sum(kept.values()) <= typical_p:
            kept[piece] = p
    assert chances(engine, typical_p=typical_p) == shares(kept)
    assert near(draw(engine, seed=3, typical_p=typical_p), {piece.encode(): p for piece, p in kept.items()})


@pytest.mark.shows("top_n_sigma")
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_top_n_sigma_keeps_what_is_near_the_best_in_standard_deviations(engine: Any, count: int) -> None:
    model = engine._model
    scores = model.library.llama_get_logits_ith(model.context, -1)[: model.vocabulary.size]
    gap = math.log(0.4 / list(PROBABILITIES.values())[count - 1])
    sigmas = (gap + 0.01) / statistics.pstdev(scores)
    assert near(draw(engine, seed=3, top_n_sigma=sigmas), first(count))


@pytest.mark.shows("xtc_threshold")
@pytest.mark.parametrize(("threshold", "gone"), [(0.09, 3), (0.12, 2), (0.25, 1), (0.35, 0), (0.6, 0)])
def test_xtc_takes_all_tokens_above_its_threshold_but_the_last_of_them(
    engine: Engine, threshold: float, gone: int
) -> None:
    kept = dict(list(PROBABILITIES.items())[gone:])
    assert near(draw(engine, seed=3, xtc_probability=1.0, xtc_threshold=threshold), kept)


@pytest.mark.shows("xtc_probability")
@pytest.mark.parametrize("chance", [0.25, 0.75])
def test_xtc_acts_as_often_as_its_chance(engine: Engine, chance: float) -> None:
    taken = {piece: p / 0.3 for piece, p in list(PROBABILITIES.items())[2:]}  # C, D and E where it acts
    mixed = {piece: (1 - chance) * p + chance * taken.get(piece, 0) for piece, p in PROBABILITIES.items()}
    assert near(draw(engine, seed=3, xtc_probability=chance, xtc_threshold=0.12), mixed)


@pytest.mark.shows("dry_multiplier", "dry_base", "dry_allowed_length")
@pytest.mark.parametrize(
    ("settings", "penalty"),
    [
        ({"dry_multiplier": 0.0}, 0.0),
        ({"dry_multiplier": 0.2}, 0.2 * 1.75),
        ({"dry_multiplier": 0.4}, 0.4 * 1.75),
        ({"dry_multiplier": 0.2, "dry_base": 3.0}, 0.2 * 3.0),
        ({"dry_multiplier": 0.2, "dry_allowed_length": 1}, 0.2 * 1.75**2),
        ({"dry_multiplier": 0.2, "dry_allowed_length": 3}, 0.2),
        ({"dry_multiplier": 0.2, "dry_allowed_length": 4}, 0.0),
    ],
)
def test_dry_subtracts_more_for_each_token_of_the_phrase_beyond_the_allowed(
    engine: Any, settings: dict[str, Any], penalty: float
) -> None:
    history = repeated_phrase(engine)
    assert chances(engine, history, **settings) == shares({**PLAIN, "A1": 0.4 * math.exp(-penalty)})


@pytest.mark.shows("dry_window", "dry_breakers")
def test_dry_looks_only_into_its_window_and_no_further_than_a_breaker(engine: Any) -> None:
    history, strong = repeated_phrase(engine), {"dry_multiplier": 0.2}
    penalized = shares({**PLAIN, "A1": 0.4 * math.exp(-0.2 * 1.75)})
    for window, expected in ((-1, penalized), (8, penalized), (4, shares(PLAIN)), (0, shares(PLAIN))):
        assert chances(engine, history, dry_window=window, **strong) == expected
    once = shares({**PLAIN, "A1": 0.4 * math.exp(-0.2)})  # of x y z, only y z count after a breaker x
    assert chances(engine, history, dry_breakers=("x",), **strong) == once
    assert chances(engine, history, dry_breakers=("z",), **strong) == shares(PLAIN)
    assert chances(engine, history, dry_breakers=("never",), **strong) == penalized


def repeated_phrase(engine: Any) -> list[int]:
    """Returns a history that said x y z A1 once and has just said x y z again."""
    vocabulary = engine._model.vocabulary
    token = {vocabulary.piece(at): at for at in range(vocabulary.size)}
    return [token[each] for each in (b"x", b"y", b"z", b"A1", b"q", b"x", b"y", b"z")]


@pytest.mark.shows("repeat_penalty", "presence_penalty", "frequency_penalty", "penalty_window")
@pytest.mark.parametrize(
    ("settings", "score"),
    [
        ({"presence_penalty": 0.5}, 100 - 0.5),
        ({"frequency_penalty": 0.5}, 100 - 3 * 0.5),
        ({"frequency_penalty": 0.5, "penalty_window": 4}, 100 - 2 * 0.5),
        ({"frequency_penalty": 0.5, "penalty_window": 0}, 100.0),
        ({"frequency_penalty": 0.5, "penalty_window": -1}, 100 - 3 * 0.5),
        ({"repeat_penalty": 1.01}, 100 / 1.01),
        ({"repeat_penalty": 0.99}, 100 / 0.99),
    ],
)
def test_penalties_change_the_score_of_what_the_window_holds(
    engine: Any, settings: dict[str, Any], score: float
) -> None:
    vocabulary = engine._model.vocabulary
    token = {vocabulary.piece(at): at for at in range(vocabulary.size)}
    said = [token[each] for each in (b"E1", b"x", b"E1", b"x", b"E1")]
    gap = math.log(0.05)  # E1 has the score 100 + ln 0.05
    own = score + gap if "repeat_penalty" not in settings else (100 + gap) * score / 100
    assert chances(engine, said, **settings) == shares({**PLAIN, "E1": math.exp(own - 100)})


@pytest.mark.shows("dynatemp_range", "dynatemp_exponent")
@pytest.mark.parametrize(("spread", "exponent"), [(0.5, 1.0), (0.9, 1.0), (0.5, 3.0), (2.0, 0.5)])
def test_a_moving_temperature_follows_the_entropy_of_the_candidates(
    engine: Engine, spread: float, exponent: float
) -> None:
    doubt = -sum(p * math.log(p) for p in PLAIN.values()) / math.log(len(PLAIN))
    low = max(0.0, 1.0 - spread)
    temperature = low + (1.0 + spread - low) * doubt**exponent
    expected = shares({piece: p ** (1 / temperature) for piece, p in PLAIN.items()})
    assert chances(engine, top_k=5, dynatemp_range=spread, dynatemp_exponent=exponent) == expected


@pytest.mark.shows("mirostat", "mirostat_tau")
@pytest.mark.parametrize(("tau", "left"), [(0.5, 1), (0.7, 1), (0.9, 2), (1.4, 3), (3.0, 5)])
def test_mirostat_2_cuts_where_the_surprise_is_twice_its_target(engine: Engine, tau: float, left: int) -> None:
    # without learning its limit stays 2 tau; the surprises in bits are 1.32, 1.74, 2.74, 3.32 and 4.32
    limit = 2 * tau
    assert left == max(1, sum(-math.log2(p) <= limit for p in PLAIN.values()))
    assert near(draw(engine, seed=3, mirostat="2", mirostat_tau=tau, mirostat_eta=0.0), first(left))


@pytest.mark.shows("mirostat_eta")
def test_mirostat_learns_at_its_rate(engine: Engine) -> None:
    still, slow, fast = (
        draw(engine, 200, seed=3, mirostat="2", mirostat_tau=0.5, mirostat_eta=rate) for rate in (0.0, 0.001, 0.2)
    )
    assert still == {b"A1": 1.0}  # less surprise than wanted, for ever
    assert slow == {b"A1": 1.0}  # 200 steps of 0.0005 do not yet let B in
    assert fast[b"A1"] < 0.95


@pytest.mark.shows("mirostat", "mirostat_tau")
@pytest.mark.parametrize("tau", [0.1, 2.0, 4.0, 7.0, 20.0])
def test_mirostat_1_estimates_how_many_candidates_reach_its_target(engine: Any, tau: float) -> None:
    model = engine._model
    raw = model.library.llama_get_logits_ith(model.context, -1)[: model.vocabulary.size]
    scores = sorted((score / 5 for score in raw), reverse=True)  # at temperature 5, or the tail's chances underflow
    steps = [(math.log((at + 2) / (at + 1)), scores[at] - scores[at + 1]) for at in range(99)]
    slope = sum(t * b for t, b in steps) / sum(t * t for t, _b in steps)  # arXiv 2007.14966, equation 30
    count = ((slope - 1) * 2 ** (2 * tau) / (1 - len(scores) ** (1 - slope))) ** (1 / slope)
    kept = {piece: p ** (1 / 5) for piece, p in first(max(1, int(count))).items()}
    settings = {"mirostat": "1", "mirostat_tau": tau, "mirostat_eta": 0.0, "temperature": 5.0}
    assert near(draw(engine, seed=5, **settings), kept)


@pytest.mark.shows("adaptive_p_target", "adaptive_p_decay")
@pytest.mark.parametrize("target", [0.05, 0.3])
@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9])
def test_adaptive_p_favours_what_is_near_its_target_and_makes_up_for_the_last(
    engine: Any, target: float, decay: float
) -> None:
    model = engine._model
    params = SamplingParams(**{**OFF, "adaptive_p_target": target, "adaptive_p_decay": decay, "min_p": 0.01})
    chain = SamplerChain(
        model.library, model.vocabulary, params, seed=1, context_length=512, alternatives=len(PROBABILITIES)
    )
    wanted, weight = target / (1 - decay), 1 / (1 - decay)
    for _step in range(3):
        chain.sample(model.context)
        drawn = chain.drawn
        assert drawn is not None
        aim = min(max(2 * target - wanted / weight, 0), 1)
        expected = {piece: math.exp(-10 * (d := abs(p - aim) / 0.3) ** 2 / (1 + d)) for piece, p in PLAIN.items()}
        assert {each.text: each.after for each in drawn.alternatives} == shares(expected)
        wanted, weight = PLAIN[drawn.text] + decay * wanted, 1 + decay * weight
    chain.close()
