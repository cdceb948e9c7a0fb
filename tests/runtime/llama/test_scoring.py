"""The log-probabilities of a text, on models whose distributions are known and against token by token evaluation."""

from __future__ import annotations

import ctypes
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import engines
import tiny_gguf
from engines import EXACT, collect, raw
from runtime import memory
from runtime.engine import Engine, StopFlag
from runtime.errors import UserError
from runtime.llama.reader import ContextReader
from runtime.logits import InvalidNumbers
from runtime.params import SamplingParams
from runtime.protocol import GenerationRequest
from runtime.reading import ReadProgress, Scored
from runtime.scoring import Window, log_probabilities, windows_of

GREEDY_8 = SamplingParams(temperature=0.0, seed=1, max_tokens=8)
TEXT = "The miller opened the sluice and the stone began to turn. Grain ran down from the hopper. " * 5


def scored(engine: Engine, text: str, stop: StopFlag | None = None) -> Scored:
    *_, last = engine.score(text, StopFlag() if stop is None else stop)
    assert isinstance(last, Scored)
    return last


def tiny(tmp_path: Path, *, add_bos: bool = False, **params: object) -> Engine:
    return engines.load(tiny_gguf.write_tiny(tmp_path / "m.gguf", add_bos=add_bos), **{**EXACT, **params})


def one_by_one(engine: Engine, ids: list[int]) -> list[float]:
    """Returns the log-probabilities of ids[1:], evaluated one token at a time, in plain Python."""
    model = engine._model  # type: ignore[attr-defined]
    library, context = model.library, model.context
    library.llama_memory_clear(library.llama_get_memory(context), False)
    found = []
    for token, then in itertools.pairwise(ids):
        library.llama_decode(context, library.llama_batch_get_one((ctypes.c_int32 * 1)(token), 1))
        logits = library.llama_get_logits_ith(context, -1)[: model.vocabulary.size]
        highest = max(logits)
        found.append(logits[then] - highest - math.log(math.fsum(math.exp(value - highest) for value in logits)))
    return found


# --- numbers ----------------------------------------------------------------------------------------------------


def test_known_distributions_give_their_own_logarithms(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    tiny_gguf.write_scripted(
        path, [b"a", b"b", b"c"], distribution={b"a": {b"b": 0.5, b"x": 0.25, b"y": 0.25}, b"b": {b"c": 0.1, b"a": 0.9}}
    )
    result = scored(engines.load(path, **EXACT), "abc")

    assert result.logprobs == pytest.approx([math.log(0.5), math.log(0.1)], abs=1e-4)
    assert result.tokens == 2
    assert result.perplexity == pytest.approx(math.sqrt(1 / 0.05), rel=1e-4)


def test_a_begin_mark_of_the_model_makes_the_first_token_count(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    tiny_gguf.write_scripted(path, [b"a", b"b"], add_bos=True, distribution={None: {b"a": 0.75, b"z": 0.25}})
    result = scored(engines.load(path, **EXACT), "ab")

    assert result.begin_mark
    assert result.logprobs == pytest.approx([math.log(0.75), 0.0], abs=1e-4)
    assert result.ids == (ord("a"), ord("b"))


@pytest.mark.parametrize("add_bos", [False, True])
@pytest.mark.parametrize("micro_batch", [1, 7, 512])
def test_pieces_of_any_size_equal_evaluation_token_by_token(tmp_path: Path, add_bos: bool, micro_batch: int) -> None:
    engine = tiny(tmp_path, add_bos=add_bos, micro_batch=micro_batch)
    ids = engine.tokenize(TEXT)
    head = [tiny_gguf.END_OF_TEXT] if add_bos else []

    result = scored(engine, TEXT)

    assert len(ids) > 50
    assert list(result.ids) == (ids if add_bos else ids[1:])
    assert result.logprobs == pytest.approx(one_by_one(engine, head + ids), abs=1e-4)


def test_impossible_tokens_make_an_infinite_perplexity() -> None:
    def perplexity(*logprobs: float) -> float:
        return Scored(ids=(), logprobs=logprobs, begin_mark=True, windows=1, stride=1).perplexity

    assert perplexity(-math.inf, 0.0) == math.inf
    assert perplexity(-2000.0) == math.inf
    assert perplexity(math.log(0.5), math.log(0.5)) == pytest.approx(2.0)


def test_scores_that_are_no_numbers_are_named() -> None:
    for bad in (math.nan, math.inf):
        with pytest.raises(InvalidNumbers):
            log_probabilities(np.array([[0.0, bad, 1.0]], np.float32), [0])
    assert log_probabilities(np.array([[0.0, -math.inf, 0.0]], np.float32), [0]) == pytest.approx([math.log(0.5)])


# --- windows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin_mark", [False, True])
@pytest.mark.parametrize("context_length", [16, 17, 64])
@pytest.mark.parametrize("n_ids", [1, 2, 15, 16, 17, 18, 63, 64, 65, 66, 500])
def test_windows_score_each_token_once_with_half_a_context_before_it(
    n_ids: int, context_length: int, begin_mark: bool
) -> None:
    windows = windows_of(n_ids, context_length=context_length, begin_mark=begin_mark)

    foretold = [at for window in windows for at in range(window.first, window.end + 1)]
    assert foretold == list(range(0 if begin_mark else 1, n_ids))
    for window in windows:
        assert begin_mark + window.end - window.start <= context_length
        assert window.start == 0 or window.first - window.start == context_length // 2


def test_a_text_that_fits_is_one_window() -> None:
    assert windows_of(64, context_length=64, begin_mark=True) == [Window(0, 63, 0)]
    assert windows_of(65, context_length=64, begin_mark=False) == [Window(0, 64, 1)]


@pytest.mark.parametrize("add_bos", [False, True])
def test_a_text_longer_than_the_context_is_scored_window_by_window(tmp_path: Path, add_bos: bool) -> None:
    engine = tiny(tmp_path, add_bos=add_bos, context_length=32, micro_batch=8)
    ids, head = engine.tokenize(TEXT), [tiny_gguf.END_OF_TEXT] if add_bos else []
    assert len(ids) > 70

    result = scored(engine, TEXT)

    expected: list[float] = []
    for window in windows_of(len(ids), context_length=32, begin_mark=add_bos):
        tokens = head + ids[window.start : window.end + 1]
        expected += one_by_one(engine, tokens)[window.first - window.start - (0 if add_bos else 1) :]
    assert result.windows > 2
    assert result.stride == 16
    assert result.logprobs == pytest.approx(expected, abs=1e-4)


def test_a_windowed_model_gives_what_it_gives_with_a_full_cache(tmp_path: Path) -> None:
    path = tiny_gguf.write_windowed(tmp_path / "m.gguf", window=32)
    windowed = scored(engines.load(path, micro_batch=16, **EXACT), TEXT)
    full = scored(engines.load(path, micro_batch=16, swa_full=True, **EXACT), TEXT)

    assert windowed.logprobs == pytest.approx(full.logprobs, abs=1e-4)


# --- the engine around it ---------------------------------------------------------------------------------------


def test_progress_rises_to_the_whole(tmp_path: Path) -> None:
    *progress, last = tiny(tmp_path, context_length=32, micro_batch=8).score(TEXT, StopFlag())

    assert isinstance(last, Scored)
    done = [event.done for event in progress if isinstance(event, ReadProgress)]
    assert done == sorted(done)
    assert done[0] == 0
    assert done[-1] == progress[-1].total  # type: ignore[union-attr]


@pytest.mark.parametrize("text", ["", "a"])
def test_a_text_without_a_token_after_another_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError) as caught:
        scored(tiny(tmp_path), text)
    assert caught.value.info.code == "nothing_to_score"


def test_one_token_after_a_begin_mark_is_enough(tmp_path: Path) -> None:
    assert scored(tiny(tmp_path, add_bos=True), "a").tokens == 1


def test_control_tokens_written_in_the_text_are_text(tmp_path: Path) -> None:
    result = scored(tiny(tmp_path, add_bos=True), "a<|im_end|>b")
    assert tiny_gguf.IM_END not in result.ids
    assert result.tokens > 3


def test_stop_ends_the_reading_and_the_engine_still_answers(tmp_path: Path) -> None:
    engine = tiny(tmp_path, context_length=64, micro_batch=8)
    expected = collect(engine, raw("The mill", max_tokens=5)).text
    stop = StopFlag()
    reading = engine.score(TEXT, stop)
    next(reading)
    stop.set()

    with pytest.raises(UserError) as caught:
        next(reading)

    assert caught.value.info.code == "reading_stopped"
    assert collect(engine, raw("The mill", max_tokens=5)).text == expected


def test_a_score_between_two_answers_changes_neither(tmp_path: Path) -> None:
    engine = tiny(tmp_path)
    beginning, longer = (tuple(engine.tokenize(text)) for text in ("The mill", "The mill turns"))
    assert longer[: len(beginning)] == beginning
    first, then = (GenerationRequest(prompt_ids=ids, sampling=GREEDY_8) for ids in (beginning, longer))
    collect(engine, first)
    expected = collect(engine, then)

    collect(engine, first)
    result = scored(engine, TEXT)
    answer = collect(engine, then)

    assert expected.end.usage.cached_tokens > 0
    assert answer.end.usage.cached_tokens == 0
    assert answer.text == expected.text
    assert scored(engine, TEXT) == result


def test_a_context_with_room_for_few_scores_reads_in_small_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = scored(tiny(tmp_path), TEXT)
    monkeypatch.setattr(memory, "_LOGITS_BYTES", 1)
    engine = tiny(tmp_path)
    assert engine._model.logit_rows == memory.LOGIT_GROUP  # type: ignore[attr-defined]
    narrow = scored(engine, TEXT)
    assert narrow.ids == wide.ids
    assert narrow.logprobs == pytest.approx(wide.logprobs, abs=1e-4)


@pytest.mark.parametrize(("room", "pieces"), [(85, [320, 64, 64, 64]), (16, [272, *[16] * 15]), (300, [512])])
def test_a_text_is_read_in_whole_groups(
    room: int, pieces: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # llama.cpp rounds a rest of a few tokens otherwise, which changes a quantized model's answers
    monkeypatch.setattr(memory, "_LOGITS_BYTES", 1)
    monkeypatch.setattr(memory, "LOGIT_GROUP", room)
    reader = ContextReader(tiny(tmp_path)._model)  # type: ignore[attr-defined]
    read = [count for count, _ in reader.rows([1] * 512, 256)]
    assert read == pieces
