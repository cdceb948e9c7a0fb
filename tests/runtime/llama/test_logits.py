"""A model whose scores are no numbers is named, and the engine goes on."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any

import pytest

import engines
import tiny_gguf
from runtime.llama.logits import check_score, check_scores
from runtime.logits import InvalidNumbers

NAN, INF = math.nan, math.inf


def pointer(*scores: float) -> ctypes.Array[ctypes.c_float]:
    return (ctypes.c_float * len(scores))(*scores)


@pytest.mark.parametrize("scores", [(1, 2, 3), (0, 0, 0), (-INF, 3, -INF), (3e38, 3e38, -3e38)])
def test_scores_that_can_be_drawn_from_pass(scores: tuple[float, ...]) -> None:
    check_scores(pointer(*scores), 3)


@pytest.mark.parametrize("scores", [(1, NAN, 3), (INF, 0, 0), (INF, -INF, 0), (-INF, -INF, -INF), (-INF, NAN, 1)])
def test_scores_that_are_no_numbers_are_refused(scores: tuple[float, ...]) -> None:
    with pytest.raises(InvalidNumbers):
        check_scores(pointer(*scores), 3)


def test_the_score_of_a_drawn_token_is_looked_at() -> None:
    check_score(pointer(NAN, 1), 1)
    for score in (NAN, INF, -INF):
        with pytest.raises(InvalidNumbers):
            check_score(pointer(score, 1), 0)


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0}, {"top_k": 0, "typical_p": 0.9, "temperature": 1.0},
                                      {"grammar": 'root ::= "b1"'}, {"json_schema": "{}"}], ids=str)  # fmt: skip
@pytest.mark.parametrize("bad", [NAN, INF])
def test_a_damaged_weight_ends_the_answer_with_a_clear_error(
    tmp_path: Path, settings: dict[str, object], bad: float
) -> None:
    # Given a model with one weight that is no number
    path = tmp_path / "m.gguf"
    tiny_gguf.write_scripted(path, [b"ok"], distribution={None: {b"a1": 0.5, b"b1": bad}})
    engine = engines.load(path)
    # When it answers, Then the error says so, each time, and the engine still answers what needs no scores
    for _time in range(2):
        with pytest.raises(InvalidNumbers) as caught:
            engines.collect(engine, engines.chat("hi", **settings))
    assert caught.value.info.title == "The model produced invalid numbers."
    assert engine.tokenize("a")
    engine.close()


def test_what_led_to_invalid_numbers_is_not_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = engines.load(tiny_gguf.write_tiny(tmp_path / "m.gguf"))
    fine = engines.collect(engine, engines.raw("Hello", max_tokens=5))
    with monkeypatch.context() as patched:
        patched.setattr("runtime.llama.draw.check_score", lambda *_scores: check_score(pointer(NAN), 0))
        with pytest.raises(InvalidNumbers):
            engines.collect(engine, engines.raw("Hello", max_tokens=5))
    assert len(engine._cache) == 0
    again = engines.collect(engine, engines.raw("Hello", max_tokens=5))
    engine.close()
    assert again.text == fine.text
