"""How a token was drawn, looked at sampler by sampler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import engines
import tiny_gguf
from engines import Answer, collect, raw
from runtime.engine import Engine
from runtime.protocol import Alternative, FinishReason, GenerationRequest, TextDelta, TokenDrawn

PROBABILITIES = {b"A1": 0.4, b"B1": 0.3, b"C1": 0.15, b"D1": 0.1, b"E1": 0.05}
OFF = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0, "seed": 3, "max_tokens": 1}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("draws") / "five.gguf"
    tiny_gguf.write_scripted(path, [b"ok"], distribution={None: PROBABILITIES})
    engine = engines.load(path)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    engine = engines.load(tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))
    yield engine
    engine.close()


def looked_at(request: GenerationRequest, alternatives: int) -> GenerationRequest:
    return msgspec.structs.replace(request, alternatives=alternatives)


def draws(answer: Answer) -> list[TokenDrawn]:
    return [event for event in answer.events if isinstance(event, TokenDrawn)]


def first_draw(engine: Engine, count: int = 5, **settings: Any) -> dict[str, Alternative]:
    """Returns what could have been drawn first, by its text."""
    answer = collect(engine, looked_at(engines.chat("hi", **{**OFF, **settings}), count))
    drawn = draws(answer)[0]
    assert drawn.probability == next(each.after for each in drawn.alternatives if each.token == drawn.token)
    return {each.text: each for each in drawn.alternatives}


def near(found: float, expected: float) -> bool:
    return abs(found - expected) < 1e-4


def test_probabilities_before_the_samplers_are_the_models_own(engine: Engine) -> None:
    found = first_draw(engine)
    assert list(found) == ["A1", "B1", "C1", "D1", "E1"]
    assert all(near(found[piece.decode()].before, p) for piece, p in PROBABILITIES.items())
    assert all(near(each.after, each.before) and not each.removed_by for each in found.values())


def test_probabilities_after_the_samplers_are_those_of_the_draw(engine: Engine) -> None:
    found = first_draw(engine, temperature=0.5)
    total = sum(p**2 for p in PROBABILITIES.values())
    assert all(near(found[piece.decode()].after, p**2 / total) for piece, p in PROBABILITIES.items())


@pytest.mark.parametrize(
    ("settings", "removed"),
    [
        ({"top_k": 2}, {"C1": "top_k", "D1": "top_k", "E1": "top_k"}),
        ({"top_p": 0.8}, {"D1": "top_p", "E1": "top_p"}),
        ({"min_p": 0.3}, {"D1": "min_p", "E1": "min_p"}),
        ({"top_k": 4, "min_p": 0.3}, {"D1": "min_p", "E1": "top_k"}),
        ({"xtc_probability": 1.0, "xtc_threshold": 0.12}, {"A1": "xtc", "B1": "xtc"}),
        ({"top_n_sigma": 0.0001}, dict.fromkeys(("B1", "C1", "D1", "E1"), "top_n_sigma")),
        ({"temperature": 0.0}, dict.fromkeys(("B1", "C1", "D1", "E1"), "greedy")),
        ({"logit_bias": ("A1=-inf",)}, {"A1": "logit_bias"}),
        (
            {"grammar": 'root ::= "B1" | "D1"', "top_k": 1},
            {"A1": "grammar", "C1": "grammar", "E1": "grammar", "D1": "top_k"},
        ),
    ],
    ids=lambda value: ",".join(value),
)
def test_what_removed_a_candidate_is_named(
    engine: Engine, settings: dict[str, Any], removed: dict[str, str]
) -> None:
    found = {text: each for text, each in first_draw(engine, **settings).items() if each.before > 0.01}
    assert {text: each.removed_by for text, each in found.items() if each.removed_by} == removed
    assert all((each.after == 0) == bool(each.removed_by) for each in found.values())
    assert near(sum(each.after for each in found.values()), 1)


@pytest.mark.parametrize("settings", [{"mirostat": "1"}, {"mirostat": "2"}, {"adaptive_p_target": 0.3, "min_p": 0.01}])
def test_other_ways_to_draw_can_be_looked_at(engine: Engine, settings: dict[str, Any]) -> None:
    found = first_draw(engine, count=512, **settings)
    assert near(sum(each.after for each in found.values()), 1)


def test_only_as_many_as_were_asked_for_are_shown(engine: Engine) -> None:
    found = first_draw(engine, 2, logit_bias=("E1=+20",))
    assert list(found) == ["A1", "B1", "E1"]  # the two likeliest before; A1 and E1 are the two likeliest after


def test_nothing_is_shown_unasked(engine: Engine) -> None:
    assert draws(collect(engine, engines.chat("hi", **OFF))) == []


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 0.0}, {"temperature": 3.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}, {"typical_p": 0.5},
     {"repeat_penalty": 1.3, "dry_multiplier": 0.8, "penalty_window": -1, "dry_window": -1},
     {"xtc_probability": 0.5, "xtc_threshold": 0.05}, {"mirostat": "1"}, {"mirostat": "2"}, {"adaptive_p_target": 0.3}],
    ids=str,
)  # fmt: skip
def test_looking_changes_nothing(tiny: Engine, settings: dict[str, Any]) -> None:
    # Given the same request with and without a look at its draws
    request = raw("Hello there", **{"temperature": 1.5, "seed": 11, "max_tokens": 40, **settings})
    # When both are answered
    plain, seen = collect(tiny, request), collect(tiny, looked_at(request, 3))
    # Then the text is the same, and every token was shown before its text
    assert seen.text == plain.text
    assert len(draws(seen)) >= seen.end.usage.generated_tokens
    written = [event for event in seen.events if isinstance(event, TokenDrawn | TextDelta)]
    assert isinstance(written[0], TokenDrawn)


@pytest.mark.parametrize("grammar", [r"root ::= [a-z ]+", r'root ::= ("one " | "two " | "three ")+'])
def test_looking_changes_nothing_under_a_grammar(tiny: Engine, grammar: str) -> None:
    # A look asks the grammar about every token, a plain answer about a few: a test of the shortlist, too
    for seed in range(5):
        request = raw("Hello there", grammar=grammar, temperature=1.5, seed=seed, max_tokens=25)
        assert collect(tiny, looked_at(request, 3)).text == collect(tiny, request).text


def test_the_end_of_an_answer_is_a_draw_too(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    tiny_gguf.write_scripted(path, [b"ok"])
    engine = engines.load(path)
    answer = collect(engine, looked_at(engines.chat("hi"), 1))
    engine.close()
    assert answer.end.reason is FinishReason.END
    assert [drawn.text for drawn in draws(answer)] == ["ok", "<|im_end|>"]
