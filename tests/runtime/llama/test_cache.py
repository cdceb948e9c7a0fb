"""What is used again of the cache gives the same numbers as reading everything anew, for every kind of memory."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import engines
import recurrent_gguf
import tiny_gguf
from engines import EXACT, chat, collect, raw
from runtime.engine import Engine
from runtime.llama.cache import TokenCache
from runtime.protocol import FinishReason, GenerationRequest

WINDOW = 16
TEXT = "QUERN miller opened 17 sluices; and the stone began to turn, warm & fine. Was it early? "


@pytest.fixture(scope="module")
def windowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_windowed(tmp_path_factory.mktemp("windowed") / "m.gguf", window=WINDOW)


@pytest.fixture(scope="module", params=[False, True], ids=["all layers", "every other layer"])
def recurrent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recurrent")
    return recurrent_gguf.write_recurrent(folder / "m.gguf", hybrid=request.param)


def cache_of(engine: Engine) -> TokenCache:
    cache = engine._cache  # type: ignore[attr-defined]
    assert isinstance(cache, TokenCache)
    return cache


def read(engine: Engine, ids: list[int]) -> tuple[np.ndarray, int]:
    """Reads a prompt as the engine does; returns the last logits and how many tokens were used again."""
    cache, model = cache_of(engine), engine._model  # type: ignore[attr-defined]
    kept, _reason = cache.keep_common(ids)
    list(cache.evaluate(ids[kept:]))
    assert cache.ids == ids
    pointer = ctypes.cast(model.library.llama_get_logits_ith(model.context, -1), ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(pointer, (model.vocabulary.size,)).copy(), kept


def text_ids(engine: Engine, length: int) -> list[int]:
    ids = engine.tokenize(TEXT * (length // 20 + 1))
    return ids[:length]


def close_to(first: np.ndarray, second: np.ndarray) -> bool:
    return bool(np.abs(first - second).max() < 1e-3)


# --- windows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [1, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW, 250, 400, 599])
@pytest.mark.parametrize("swa_full", [False, True])
def test_an_edit_any_way_back_gives_the_logits_of_a_fresh_reading(windowed: Path, back: int, swa_full: bool) -> None:
    used, fresh = (
        engines.load(windowed, context_length=1024, micro_batch=8, batch=8, swa_full=swa_full, **EXACT)
        for _ in range(2)
    )
    ids = text_ids(used, 600)
    edited = [*ids[: 600 - back], 300, 301, *ids[600 - back + 2 :]][:600]
    read(used, ids)
    again, kept = read(used, edited)
    anew, none = read(fresh, edited)
    assert close_to(again, anew)
    assert none == 0
    if swa_full or back <= WINDOW:
        assert kept >= 600 - back - 8


def test_an_edit_further_back_than_the_window_gives_the_text_of_a_fresh_engine_and_says_why(windowed: Path) -> None:
    used, fresh = (engines.load(windowed, context_length=1024, micro_batch=8, batch=8, **EXACT) for _ in range(2))
    collect(used, raw(TEXT * 15, max_tokens=20))
    edited = raw("A" + TEXT * 15, max_tokens=20)
    edited_late = raw(TEXT * 2 + "B" + TEXT * 13, max_tokens=20)
    for request in (edited_late, edited):
        again = collect(used, request)
        assert again.text == collect(fresh, request).text
        cache_of(fresh).clear()
    assert again.end.usage.cached_tokens == 0
    collect(used, raw(TEXT * 15, max_tokens=20))
    assert "further back" in collect(used, edited_late).end.usage.reuse_note


@pytest.mark.parametrize("length", [WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + 2, 40, 300])
def test_a_prompt_around_the_window_reads_the_same_in_pieces_of_any_size(windowed: Path, length: int) -> None:
    whole: np.ndarray | None = None
    for piece in (4096, 1, 7, WINDOW - 1, WINDOW, WINDOW + 1, 64):
        engine = engines.load(windowed, context_length=512, micro_batch=piece, batch=piece, **EXACT)
        logits, _kept = read(engine, text_ids(engine, length))
        whole = logits if whole is None else whole
        assert close_to(logits, whole)
        engine.close()


def test_a_windowed_answer_runs_through_the_whole_context(windowed: Path) -> None:
    engine = engines.load(windowed, context_length=512, micro_batch=8, batch=8)
    request = GenerationRequest(prompt=TEXT, ignore_end=True, sampling=raw("", max_tokens=-1).sampling)
    assert collect(engine, request).end.reason is FinishReason.CONTEXT
    engine.close()


# --- recurrent states -------------------------------------------------------------------------------------------


def test_a_recurrent_model_uses_again_what_only_grows(recurrent: Path) -> None:
    engine, fresh = (engines.load(recurrent, **EXACT) for _ in range(2))
    ids = text_ids(engine, 100)
    read(engine, ids)
    grown, kept = read(engine, [*ids, 70, 71, 72])
    assert kept == 100
    anew, _ = read(fresh, [*ids, 70, 71, 72])
    assert close_to(grown, anew)


def test_a_recurrent_model_that_has_to_go_back_reads_again_and_says_so(recurrent: Path) -> None:
    engine, fresh = (engines.load(recurrent, micro_batch=8, batch=8) for _ in range(2))
    first = collect(engine, raw(TEXT, max_tokens=20))
    again = collect(engine, raw(TEXT, max_tokens=20))
    assert again.text == first.text
    assert again.end.usage.cached_tokens == 0
    assert "cannot go back" in again.end.usage.reuse_note
    assert collect(engine, raw(TEXT[:40], max_tokens=20)).text == collect(fresh, raw(TEXT[:40], max_tokens=20)).text


def test_a_recurrent_chat_reads_only_what_is_new(recurrent: Path) -> None:
    engine = engines.load(recurrent)
    first = collect(engine, chat("Tell me of mills.", max_tokens=10))
    follow = collect(engine, chat("Tell me of mills.", first.text, "And of querns?", max_tokens=10))
    assert follow.end.usage.cached_tokens >= first.end.usage.prompt_tokens + 9
    assert follow.end.usage.reuse_note == ""


def test_a_recurrent_model_is_stopped_by_a_full_context_that_it_cannot_roll(recurrent: Path) -> None:
    engine = engines.load(recurrent, context_length=64)
    sampling = raw("", context_policy="shift", max_tokens=200).sampling
    answer = collect(engine, GenerationRequest(prompt=TEXT[:20], ignore_end=True, sampling=sampling))
    assert answer.end.reason is FinishReason.CONTEXT
    assert any("could not roll on" in note for note in answer.end.notes)
    assert collect(engine, raw(TEXT[:20], max_tokens=2)).end.usage.generated_tokens == 2


def test_a_recurrent_state_is_saved_and_taken_back(recurrent: Path, tmp_path: Path) -> None:
    engine = engines.load(recurrent)
    first = collect(engine, chat("Tell me of mills.", max_tokens=10))
    saved = engine.save_state(tmp_path / "chat.state")
    follow = chat("Tell me of mills.", first.text, "And of querns?", max_tokens=10)
    expected = collect(engine, follow)
    other = engines.load(recurrent)
    assert other.load_state(tmp_path / "chat.state").tokens == saved.tokens
    continued = collect(other, follow)
    assert continued.text == expected.text
    assert continued.end.usage.cached_tokens == saved.tokens
