"""Our own engine: its numbers against llama.cpp's, its cache against none, its settings, receipts and saved states."""

from __future__ import annotations

import weakref
from pathlib import Path

import numpy as np
import pytest

import engines
import speculating
import tiny_gguf
import tiny_lora
import tiny_native
from engines import EXACT, chat, collect, raw
from runtime import starter
from runtime.engine import Engine, StopFlag
from runtime.errors import UserError
from runtime.native.cache_storage import ERROR_BOUNDS
from runtime.protocol import Finished, GenerationRequest, PromptProgress, Replayed

TEXT = "The miller opened the sluice and the stone began to turn. Grain ran down from the hopper, warm and fine."
# heads, heads of keys and values, width of the model
LAYOUTS = [(8, 2, 256), (6, 2, 192), (8, 1, 256), (8, 8, 256), (9, 3, 288)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def native(path: Path, **params: object) -> Engine:
    return engines.load(path, engine="native", **{**EXACT, **params})


def all_logits(engine: Engine, ids: list[int], *, at_most: int = 512) -> np.ndarray:
    """Returns the logits (T, V) after each token."""
    return np.concatenate([rows.copy() for rows in engine.logits(ids, StopFlag(), first=0, at_most=at_most)])


def scores_behind(engine: Engine, ids: list[int]) -> np.ndarray:
    """Returns the scores (V,) behind a prompt that is read with what the cache holds of it."""
    cache = engine._cache  # type: ignore[attr-defined]
    kept, _note = cache.keep_common(ids)
    list(cache.evaluate(ids[kept:]))
    scores: np.ndarray = cache.scores().copy()
    return scores


# --- against llama.cpp ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_heads", "n_kv_heads", "d_model"), LAYOUTS)
def test_both_engines_write_the_same_and_agree_about_every_token(
    tmp_path: Path, n_heads: int, n_kv_heads: int, d_model: int
) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf", n_heads=n_heads, n_kv_heads=n_kv_heads, d_model=d_model)
    ours, theirs = native(path), engines.load(path, engine="llama", **EXACT)
    ids = ours.tokenize(TEXT)
    assert ids == theirs.tokenize(TEXT)
    assert np.abs(all_logits(ours, ids) - all_logits(theirs, ids)).max() < 1e-3
    request = GenerationRequest(prompt=TEXT, ignore_end=True, sampling=raw("", max_tokens=64).sampling)
    assert collect(ours, request).text == collect(theirs, request).text


def test_both_engines_draw_the_same_from_the_same_seed(tiny: Path) -> None:
    ours, theirs = native(tiny), engines.load(tiny, engine="llama", **EXACT)
    request = raw(TEXT, temperature=1.0, seed=7, max_tokens=24, repeat_penalty=1.1)
    assert collect(ours, request).text == collect(theirs, request).text


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_1"])
def test_quantized_files_are_unpacked(tmp_path: Path, kind: str) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf", type=kind)
    ours, theirs = native(path), engines.load(path, engine="llama", **EXACT)
    ids = ours.tokenize(TEXT)
    found, expected = all_logits(ours, ids), all_logits(theirs, ids)
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.999  # llama.cpp quantizes what it multiplies, too
    assert (found.argmax(1) == expected.argmax(1)).mean() > 0.9


# --- the cache --------------------------------------------------------------------------------------------------


def test_cached_whole_and_chunked_reading_give_the_same_numbers(tiny: Path) -> None:
    whole = native(tiny)
    ids = whole.tokenize(TEXT)
    expected = all_logits(whole, ids)
    for micro_batch in (1, 7):
        assert np.abs(all_logits(native(tiny, micro_batch=micro_batch), ids) - expected).max() < 1e-4
    assert np.abs(all_logits(whole, ids, at_most=5) - expected).max() < 1e-4


def test_an_edited_prompt_gives_the_numbers_of_a_fresh_one(tiny: Path) -> None:
    warm, cold = native(tiny, micro_batch=8), native(tiny, micro_batch=64)
    ids = warm.tokenize(TEXT)
    scores_behind(warm, ids)
    edited = [*ids[:20], 70, 71, *ids[22:]]
    found = scores_behind(warm, edited)
    assert len(warm._cache) == len(edited)  # type: ignore[attr-defined]
    assert np.abs(found - scores_behind(cold, edited)).max() < 1e-4


def test_an_edit_behind_a_window_is_read_again_and_says_why(tmp_path: Path) -> None:
    path = tiny_gguf.write_windowed(tmp_path / "m.gguf", window=32, n_layers=2)
    engine = native(path, context_length=1024, micro_batch=64)
    ids = tuple(65 + at % 40 for at in range(600))
    first = collect(engine, GenerationRequest(prompt_ids=ids, sampling=raw("", max_tokens=2).sampling))
    assert not first.end.usage.reuse_note
    edited = GenerationRequest(prompt_ids=(*ids[:100], 66, *ids[101:]), sampling=raw("", max_tokens=2).sampling)
    again = collect(engine, edited)
    assert again.end.usage.cached_tokens == 0
    assert "the last 32 tokens" in again.end.usage.reuse_note
    assert again.text == collect(native(path, context_length=1024, micro_batch=64), edited).text


@pytest.mark.shows("kv_type_k", "kv_type_v")
@pytest.mark.parametrize(("kind", "ours"), [("bf16", "bf16"), ("q8_0", "int8"), ("q4_0", "int4")])
def test_a_cache_type_changes_numbers_a_little_and_takes_less_memory(tiny: Path, kind: str, ours: str) -> None:
    exact, small = native(tiny), native(tiny, kv_type_k=kind, kv_type_v=kind, flash_attention="auto")
    ids = exact.tokenize(TEXT)
    expected, found = all_logits(exact, ids), all_logits(small, ids)
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert 0 < error < 8 * ERROR_BOUNDS[ours]
    scores_behind(exact, ids)
    scores_behind(small, ids)
    assert small._cache.kv.contents()[1][0].nbytes < exact._cache.kv.contents()[1][0].nbytes  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kind", "shown"), [("q5_1", "q8_0"), ("q4_1", "q8_0"), ("iq4_nl", "q4_0")])
def test_a_cache_type_of_llama_cpp_becomes_the_nearest_one_with_a_note(tiny: Path, kind: str, shown: str) -> None:
    engine = native(tiny, kv_type_k=kind, flash_attention="auto")
    assert engine.info.kv_type_k == shown
    assert any(kind in note for note in engine.info.notes)


# --- settings ---------------------------------------------------------------------------------------------------


@pytest.mark.shows("dtype", "engine")
@pytest.mark.parametrize(("dtype", "largest"), [("bf16", 0.1), ("f16", 0.02), ("int8", 0.1), ("int4", 0.6)])
def test_a_number_format_takes_less_memory_and_changes_numbers_a_little(
    tiny: Path, dtype: str, largest: float
) -> None:
    exact, small = native(tiny), native(tiny, dtype=dtype)
    assert small.info.engine == "native"
    assert small.info.memory_bytes < exact.info.memory_bytes
    ids = exact.tokenize(TEXT)
    expected, found = all_logits(exact, ids), all_logits(small, ids)
    assert 0 < np.abs(found - expected).mean() / np.abs(expected).mean() < largest


def test_positions_are_stretched_as_in_llama_cpp(tiny: Path) -> None:
    stretched = {"rope_scaling": "yarn", "rope_factor": 4.0, "rope_base": 20_000.0, "yarn_original_context": 64}
    ours, theirs = native(tiny, **stretched), engines.load(tiny, engine="llama", **EXACT, **stretched)
    ids = ours.tokenize(TEXT)
    expected = all_logits(theirs, ids)
    assert np.abs(all_logits(ours, ids) - expected).max() < 2e-3
    assert np.abs(all_logits(native(tiny), ids) - expected).max() > 0.1


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_an_adapter_changes_numbers_as_in_llama_cpp(tiny: Path, tmp_path: Path, dtype: str) -> None:
    adapter = tiny_lora.write_lora(tmp_path / "style.gguf").path
    written = (f"{adapter}=0.5",)
    ours, theirs = native(tiny, lora=written, dtype=dtype), engines.load(tiny, engine="llama", lora=written, **EXACT)
    ids = ours.tokenize(TEXT)
    expected = all_logits(theirs, ids)
    assert ours.info.adapters == theirs.info.adapters == ("style.gguf × 0.5",)
    assert np.abs(all_logits(ours, ids) - expected).max() < (1e-3 if dtype == "f32" else 2.0)


def test_what_means_nothing_here_is_told(tiny: Path) -> None:
    assert any("mlock" in note for note in native(tiny, mlock=True).info.notes)
    assert not native(tiny).info.notes


def test_a_model_that_cannot_fit_is_refused_with_both_numbers(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.memory.free_memory", lambda: 1_000)
    with pytest.raises(UserError) as caught:
        native(tiny)
    assert caught.value.info.code == "no_room_for_model"


def test_a_folder_is_run_by_our_own_engine_unasked_and_never_by_llama_cpp(tmp_path: Path) -> None:
    folder = tiny_native.write_folder(tmp_path / "model")
    engine = engines.load(folder, context_length=64)
    assert (engine.info.engine, engine.info.name, engine.info.trained_context) == ("native", "model", 64)
    assert collect(engine, raw("The miller", max_tokens=4)).end.usage.generated_tokens > 0
    receipt = collect(engine, GenerationRequest(prompt="The", receipt=True, sampling=raw("", max_tokens=4).sampling))
    assert receipt.end.receipt is not None
    assert receipt.end.receipt.load_params.engine == "native"
    with pytest.raises(UserError, match="cannot run"):
        engines.load(folder, engine="llama")


def test_memory_that_runs_out_is_told_and_the_engine_goes_on(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = native(tiny)
    before = collect(engine, raw(TEXT, max_tokens=4))

    def full(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: 8 bytes")

    with monkeypatch.context() as patched:
        patched.setattr(engine._model.transformer, "forward", full)  # type: ignore[attr-defined]
        with pytest.raises(UserError) as caught:
            collect(engine, raw("Something else", max_tokens=4))
    assert caught.value.info.code == "memory_full"
    assert collect(engine, raw(TEXT, max_tokens=4)).text == before.text


def test_tokens_that_the_embedding_lacks_are_never_drawn_and_refused_in_a_prompt(tmp_path: Path) -> None:
    engine = native(tiny_native.write_folder(tmp_path / "model", lacking=2), context_length=64)
    size = engine.info.n_vocab
    answer = collect(engine, GenerationRequest(prompt_ids=(3, 4), sampling=raw("", max_tokens=8).sampling))
    assert answer.end.usage.generated_tokens > 0
    with pytest.raises(UserError) as caught:
        collect(engine, GenerationRequest(prompt_ids=(size - 1,), sampling=raw("").sampling))
    assert caught.value.info.code == "unknown_token"


# --- answers ----------------------------------------------------------------------------------------------------


def test_guesses_change_no_text(tiny: Path) -> None:
    request = raw("one two three one two three one two", max_tokens=48)
    plain, guessing = native(tiny), native(tiny, speculation="ngram", draft_tokens=8)
    assert guessing.info.speculation == "ngram"
    assert collect(guessing, request).text == collect(plain, request).text


@pytest.mark.parametrize("guesses_well", [True, False])
def test_a_draft_model_changes_no_text(tiny: Path, tmp_path: Path, guesses_well: bool) -> None:
    other = tiny_gguf.write_tiny(tmp_path / "other.gguf", seed=3, n_layers=1)
    draft = tiny if guesses_well else other
    request = raw(TEXT, max_tokens=48)
    engine = native(tiny, speculation="draft", draft_model=str(draft))
    assert engine.info.draft_path == str(draft)
    speculating.check_every_guess(engine)
    answer = collect(engine, request)
    assert answer.text == collect(native(tiny), request).text
    usage = answer.end.usage
    assert usage.drafted_tokens > 0
    assert (usage.accepted_tokens > 20) is guesses_well
    assert len(engine._cache) == usage.context_used  # type: ignore[attr-defined]


def test_a_draft_model_with_another_vocabulary_is_refused(tiny: Path, tmp_path: Path) -> None:
    tiny_gguf.write_scripted(tmp_path / "other.gguf", [b"la ", b"li "])
    with pytest.raises(UserError) as caught:
        native(tiny, speculation="draft", draft_model=str(tmp_path / "other.gguf"))
    assert caught.value.info.code == "draft_vocabulary"


def test_an_answer_is_held_to_a_schema(tiny: Path) -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    answer = collect(native(tiny), chat("A number", json_schema=schema, max_tokens=200))
    assert answer.text.startswith("{")
    assert '"n"' in answer.text


@pytest.mark.parametrize("kind", ["f32", "bf16", "q8_0", "q4_0"])
def test_a_context_that_rolls_on_holds_what_a_fresh_one_would(tiny: Path, kind: str) -> None:
    settings = {"kv_type_k": kind, "kv_type_v": kind, "flash_attention": "auto", "context_length": 64}
    engine = native(tiny, **settings)
    sampling = raw("", max_tokens=200, context_policy="shift").sampling
    answer = collect(engine, GenerationRequest(prompt=TEXT[:20], ignore_end=True, sampling=sampling))
    assert answer.end.usage.generated_tokens == 200
    assert any("were let go" in note for note in answer.end.notes)
    held = list(engine._cache.ids)  # type: ignore[attr-defined]
    found = engine._cache.scores().copy()  # type: ignore[attr-defined]
    fresh = scores_behind(native(tiny, **settings), held)
    assert np.abs(found - fresh).max() < (1e-4 if kind == "f32" else 0.5 * fresh.std())


@pytest.mark.parametrize("policy", ["drop_turns", "shift"])
@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_an_answer_is_made_again_from_its_receipt(tiny: Path, policy: str, temperature: float) -> None:
    engine = native(tiny, context_length=96, micro_batch=16)
    sampling = raw("", max_tokens=120, temperature=temperature, context_policy=policy).sampling
    collect(engine, raw("Tell of mills."))
    request = GenerationRequest(prompt=TEXT, sampling=sampling, receipt=True, ignore_end=True)
    finished = collect(engine, request).end
    assert isinstance(finished, Finished)
    assert finished.receipt is not None
    *progress, result = engine.replay(finished.receipt, StopFlag(), anyway=True)
    assert all(isinstance(event, PromptProgress) for event in progress)
    assert isinstance(result, Replayed)
    assert result.difference is None
    assert result.text == finished.receipt.text


def test_the_starter_names_paris() -> None:
    request = chat("What is the capital city of France? Answer in one sentence.", max_tokens=24)
    assert "Paris" in collect(native(starter.starter_path(), dtype="bf16", threads=2), request).text


def test_closing_gives_the_weights_back(tiny: Path) -> None:
    engine = native(tiny)
    collect(engine, raw("abc", max_tokens=2))
    transformer = weakref.ref(engine._model.transformer)  # type: ignore[attr-defined]
    engine.close()
    assert transformer() is None
