"""Encoder-decoders: the same numbers as in transformers, a source that is read once, and what they cannot do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest

import engines
import tiny_gguf
import tiny_t5
from engines import EXACT, GREEDY, chat, collect, raw
from runtime import memory
from runtime.engine import Engine, StopFlag
from runtime.errors import UserError
from runtime.gguf_header import DamagedModel, UnsupportedModel, read_header
from runtime.llama.cache import EvaluationFailed
from runtime.model_hash import ModelHashes
from runtime.params import LoadParams, SamplingParams
from runtime.places import path_of
from runtime.protocol import FinishReason, GenerationRequest, Replayed, TokenDrawn
from runtime.reading import EmbedRequest
from runtime.receipt import Receipt, parsed
from runtime.receipt import written as written_receipt
from runtime.schedule import Schedule, Step, after_source
from tiny_t5 import EOS, PAD, TinyT5, write_tiny_t5

SOURCE = "translate the miller and the old stone"
OTHER = "water turns the wheel"
SILU_LIKE, WITH_GELU = 1e-3, 3e-2  # llama.cpp reads GELU from a table of 16-bit numbers


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> TinyT5:
    return write_tiny_t5(tmp_path_factory.mktemp("t5") / "t5.gguf")


@pytest.fixture(scope="module")
def t5(written: TinyT5) -> Iterator[Engine]:
    engine = engines.load(written.path, context_length=64, **EXACT)
    yield engine
    engine.close()


def target_logits(engine: Engine, source: Sequence[int], target: Sequence[int]) -> np.ndarray:
    """Returns the logits (T, V) after each token of a target, evaluated one by one, as in an answer."""
    model, cache = engine._model, engine._cache  # type: ignore[attr-defined]
    cached, _note = cache.keep_common([*source, target[0]])
    rows = []
    for at, token in enumerate(target):
        if at:
            cache.append(token)
        else:
            assert list(cache.evaluate([*source, token][cached:]))[-1] == len(source) + 1 - cached
        rows.append(model.library.llama_get_logits_ith(model.context, -1)[: model.vocabulary.size])
    return np.array(rows, np.float32)


def drawn_ids(engine: Engine, prompt: str, *, max_tokens: int) -> list[int]:
    request = GenerationRequest(
        prompt=prompt, alternatives=1, ignore_end=True, sampling=GREEDY.replace(max_tokens=max_tokens)
    )
    return [event.token for event in collect(engine, request).events if isinstance(event, TokenDrawn)]


# --- numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [({}, SILU_LIKE), ({"gated": True}, WITH_GELU), ({"n_decoder_layers": 1, "seed": 3}, SILU_LIKE)],
    ids=["relu and a scaled tied head", "gated gelu and a head of its own", "fewer decoder layers"],
)
def test_logits_are_those_of_transformers(tmp_path: Path, options: dict[str, object], tolerance: float) -> None:
    import torch

    tiny = write_tiny_t5(tmp_path / "t5.gguf", **options)  # type: ignore[arg-type]
    engine = engines.load(tiny.path, context_length=64, **EXACT)
    source = [*engine.tokenize(SOURCE), EOS]
    target = [PAD, *engine.tokenize(OTHER + ", and the bread is old."), 5, 6, 7]
    with torch.no_grad():
        expected = tiny.in_transformers()(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])
        ).logits[0]

    found = target_logits(engine, source, target)

    assert np.abs(found - expected.numpy()).max() < tolerance
    assert expected.std() > 0.5


def test_a_greedy_target_is_that_of_transformers(written: TinyT5, t5: Engine) -> None:
    import torch

    source = [*t5.tokenize(SOURCE), EOS]
    target = torch.tensor([[PAD]])
    model = written.in_transformers()
    with torch.no_grad():
        for _step in range(20):
            logits = model(input_ids=torch.tensor([source]), decoder_input_ids=target).logits[:, -1:]
            target = torch.cat([target, logits.argmax(-1)], dim=1)

    assert drawn_ids(t5, SOURCE, max_tokens=20) == target[0, 1:].tolist()


def test_flash_attention_and_other_caches_change_the_numbers_little(written: TinyT5, t5: Engine) -> None:
    source, target = [*t5.tokenize(SOURCE), EOS], [PAD, *t5.tokenize(OTHER)]
    expected = target_logits(t5, source, target)
    for params in ({"flash_attention": "on"}, {"kv_type_k": "bf16", "kv_type_v": "bf16"}, {"flash_attention": "auto"}):
        engine = engines.load(written.path, context_length=64, **params)
        assert np.abs(target_logits(engine, source, target) - expected).max() < 0.05


def test_guesses_from_the_text_change_nothing(written: TinyT5, t5: Engine) -> None:
    guessing = engines.load(written.path, context_length=64, speculation="ngram", **EXACT)
    answer = collect(guessing, raw(SOURCE, max_tokens=40))
    assert answer.text == collect(t5, raw(SOURCE, max_tokens=40)).text
    assert answer.end.usage.drafted_tokens > 0


# --- the source -------------------------------------------------------------------------------------------------


def test_the_source_is_read_once_and_again_when_it_is_another_one(t5: Engine) -> None:
    n_source = len(t5.tokenize(SOURCE)) + 1
    first = collect(t5, raw(SOURCE, max_tokens=8))
    again = collect(t5, raw(SOURCE, max_tokens=8))
    other = collect(t5, raw(OTHER, max_tokens=8))
    back = collect(t5, raw(SOURCE, max_tokens=8))

    assert again.text == back.text == first.text
    assert other.text != first.text
    assert (again.end.usage.cached_tokens, again.end.usage.evaluated_tokens) == (n_source, 1)
    assert again.end.usage.reuse_note == ""
    for answer in (other, back):
        assert answer.end.usage.cached_tokens == 0
        assert "another one" in answer.end.usage.reuse_note


def test_nothing_of_an_earlier_source_stays(written: TinyT5, t5: Engine) -> None:
    source, other, target = [*t5.tokenize(SOURCE), EOS], [*t5.tokenize(OTHER), EOS], [PAD, *t5.tokenize("the bread")]
    fresh = target_logits(engines.load(written.path, context_length=64, **EXACT), source, target)
    used = engines.load(written.path, context_length=64, **EXACT)
    target_logits(used, other, [*target, *target, *target])
    assert np.array_equal(target_logits(used, source, target), fresh)


def test_a_source_ends_with_the_models_own_mark_once(t5: Engine) -> None:
    build = t5._prompts.build  # type: ignore[attr-defined]
    expected = [*t5.tokenize(SOURCE), EOS, PAD]
    assert build(raw(SOURCE)).ids == build(raw(SOURCE + "</s>")).ids == expected
    sentinel = t5.tokenize("<extra_id_0>", special=True)
    assert len(sentinel) == 1
    assert sentinel[0] in build(raw("the <extra_id_0> turns")).ids
    ids = GenerationRequest(prompt_ids=(5, 6, EOS))
    assert build(ids).ids == [5, 6, EOS, PAD]


def test_progress_covers_the_source_and_the_beginning_of_the_target(t5: Engine) -> None:
    collect(t5, raw(OTHER, max_tokens=1))
    progress = collect(t5, raw(SOURCE, max_tokens=1)).progress
    n_source = len(t5.tokenize(SOURCE)) + 1
    assert [(event.done, event.total) for event in progress] == [
        (0, n_source + 1), (n_source, n_source + 1), (n_source + 1, n_source + 1)
    ]  # fmt: skip


@pytest.mark.parametrize("start", [None, 7])
def test_a_target_begins_with_the_token_of_the_file_or_with_padding(tmp_path: Path, start: int | None) -> None:
    engine = engines.load(write_tiny_t5(tmp_path / "t5.gguf", start=start).path, context_length=64)
    assert engine._prompts.build(raw("the")).ids[-1] == (PAD if start is None else start)  # type: ignore[attr-defined]
    assert collect(engine, raw("the", max_tokens=2)).end.usage.generated_tokens == 2


# --- limits, Stop and samplers ----------------------------------------------------------------------------------


def test_a_source_may_fill_what_the_encoder_reads_and_no_more(t5: Engine) -> None:
    full = GenerationRequest(prompt_ids=(5, 6, 7, 8) * 16, sampling=GREEDY.replace(max_tokens=4))
    assert collect(t5, full).end.usage.generated_tokens == 4
    with pytest.raises(UserError) as caught:
        collect(t5, GenerationRequest(prompt_ids=(5,) * 65))
    assert caught.value.info.code == "source_too_long"
    assert "65 tokens" in caught.value.info.title
    assert collect(t5, raw("the", max_tokens=2)).end.usage.generated_tokens == 2


@pytest.mark.parametrize("policy", ["drop", "shift", "stop"])
def test_a_target_ends_where_the_context_is_full(t5: Engine, policy: str) -> None:
    policies = {"drop": SamplingParams().context_policy}
    params = GREEDY.replace(max_tokens=200, context_policy=policies.get(policy, policy))  # type: ignore[arg-type]
    answer = collect(t5, GenerationRequest(prompt=SOURCE, ignore_end=True, sampling=params))
    assert answer.end.reason is FinishReason.CONTEXT
    assert answer.end.usage.context_used == 64


def test_max_tokens_and_stop_texts_end_a_target(t5: Engine) -> None:
    whole = collect(t5, raw(SOURCE, max_tokens=12))
    assert whole.end.reason is FinishReason.LENGTH
    stop = whole.text[4:6]
    cut = collect(t5, raw(SOURCE, max_tokens=12, stop=(stop,)))
    assert cut.end.reason is FinishReason.STOP_TEXT
    assert cut.text == whole.text[: whole.text.index(stop)]


def test_stop_before_the_source_is_read_leaves_the_engine_whole(t5: Engine) -> None:
    expected = collect(t5, raw(SOURCE, max_tokens=6)).text
    collect(t5, raw(OTHER, max_tokens=1))
    stop = StopFlag()
    stop.set()
    stopped = collect(t5, raw(SOURCE, max_tokens=6), stop)
    assert stopped.end.reason is FinishReason.STOPPED
    assert stopped.text == ""
    after = collect(t5, raw(SOURCE, max_tokens=6))
    assert after.text == expected
    assert after.end.usage.cached_tokens == 0


def test_samplers_and_grammars_work_on_the_target(t5: Engine) -> None:
    params = {"temperature": 1.5, "seed": 7, "max_tokens": 12}
    assert collect(t5, raw(SOURCE, **params)).text == collect(t5, raw(SOURCE, **params)).text
    assert collect(t5, raw(SOURCE, **params)).text != collect(t5, raw(SOURCE, **{**params, "seed": 8})).text
    assert collect(t5, raw(SOURCE, grammar='root ::= "old stone"')).text.strip() == "old stone"


def test_what_the_source_says_is_no_repetition(t5: Engine) -> None:
    source = [*t5.tokenize(SOURCE), EOS]
    while (first := first_drawn(t5, source)) not in source:
        source.append(first)

    assert first_drawn(t5, source, repeat_penalty=10.0, penalty_window=-1) == first


def first_drawn(engine: Engine, source: list[int], **sampling: object) -> int:
    params = GREEDY.replace(max_tokens=1, **sampling)
    answer = collect(engine, GenerationRequest(prompt_ids=tuple(source), alternatives=1, sampling=params))
    return next(event.token for event in answer.events if isinstance(event, TokenDrawn))


# --- receipts ---------------------------------------------------------------------------------------------------


def receipt_of(engine: Engine, request: GenerationRequest) -> Receipt:
    receipt = collect(engine, msgspec.structs.replace(request, receipt=True)).end.receipt
    assert receipt is not None
    return msgspec.structs.replace(receipt, model_sha256=ModelHashes().of(path_of(engine.info.path)))


def replayed(engine: Engine, receipt: Receipt) -> Replayed:
    *_progress, last = engine.replay(parsed(written_receipt(receipt)), StopFlag())
    assert isinstance(last, Replayed)
    return last


def test_a_target_is_made_again_from_its_receipt_whatever_was_read_before(written: TinyT5, t5: Engine) -> None:
    drawn = {"max_tokens": 12, "temperature": 1.5, "seed": 7}
    collect(t5, raw(OTHER, max_tokens=1))
    first, again = receipt_of(t5, raw(SOURCE, **drawn)), receipt_of(t5, raw(SOURCE, **drawn))
    assert again == first, "a source that was not read again leaves the same receipt"
    for engine in (t5, engines.load(written.path, context_length=64, **EXACT)):
        collect(engine, raw(OTHER, max_tokens=1))
        found = replayed(engine, first)
        assert (found.text, found.difference) == (first.text, None)
    assert replayed(t5, msgspec.structs.replace(first, seed=8)).difference is not None


def test_a_source_that_fills_the_encoder_and_a_full_target_are_made_again(t5: Engine) -> None:
    full = GenerationRequest(prompt_ids=(5, 6, 7, 8) * 16, ignore_end=True, sampling=GREEDY)
    receipt = receipt_of(t5, full)
    assert receipt.reason == FinishReason.CONTEXT
    assert replayed(t5, receipt).difference is None


@pytest.mark.parametrize("length", [65, 640])
def test_a_receipt_of_a_longer_source_is_refused(t5: Engine, length: int) -> None:
    prompt = after_source((5,) * length, Schedule((PAD,), (Step("read", 1),)))
    hostile = msgspec.structs.replace(receipt_of(t5, raw(SOURCE, max_tokens=3)), prompt=prompt)
    with pytest.raises(UserError, match="more tokens than its context"):
        replayed(t5, hostile)
    assert collect(t5, raw("the", max_tokens=2)).end.usage.generated_tokens == 2


# --- what it does not do ----------------------------------------------------------------------------------------


def test_a_conversation_is_refused_with_what_works_instead(t5: Engine) -> None:
    assert t5.info.reads_source
    for ask in (lambda: collect(t5, chat("hi")), lambda: t5.count(chat("hi").messages)):
        with pytest.raises(UserError) as caught:
            ask()
        assert caught.value.info.code == "holds_no_conversation"
        assert "quern complete" in caught.value.info.hint


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_an_empty_source_is_refused(t5: Engine, prompt: str) -> None:
    with pytest.raises(UserError) as caught:
        collect(t5, raw(prompt))
    assert caught.value.info.code == "no_source"


def test_a_score_and_vectors_are_refused_and_the_engine_still_answers(t5: Engine) -> None:
    expected = collect(t5, raw(SOURCE, max_tokens=4)).text
    for reading, code in (
        (lambda: list(t5.score(SOURCE, StopFlag())), "no_score_without_source"),
        (lambda: list(t5.logits([5, 6], StopFlag(), first=0, at_most=2)), "no_score_without_source"),
        (lambda: list(t5.embed(EmbedRequest(texts=("the",)), StopFlag())), "unsupported_model"),
    ):
        with pytest.raises(UserError) as caught:
            reading()  # type: ignore[no-untyped-call]
        assert caught.value.info.code == code
    assert collect(t5, raw(SOURCE, max_tokens=4)).text == expected


def test_no_state_is_saved_since_it_would_lack_the_source(t5: Engine, tmp_path: Path) -> None:
    collect(t5, raw(SOURCE, max_tokens=4))
    saved = t5.save_state(tmp_path / "state")
    assert (saved.tokens, (tmp_path / "state").exists()) == (0, False)
    assert "keeps no state" in saved.note
    assert t5.load_state(tmp_path / "state").note == saved.note


def test_a_target_without_a_source_is_an_error_not_a_crash(written: TinyT5) -> None:
    engine = engines.load(written.path, context_length=64)
    with pytest.raises(EvaluationFailed):
        engine._cache.append(5)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["q8_0", "q4_0", "iq4_nl"])
def test_values_of_a_packed_type_are_kept_as_f16_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(tiny_t5, "D", 32)  # a head that blocks of 32 fit
    engine = engines.load(write_tiny_t5(tmp_path / "t5.gguf").path, context_length=64, kv_type_v=kind)
    assert engine.info.kv_type_v == "f16"
    assert any(kind in note for note in engine.info.notes)
    assert collect(engine, raw(SOURCE, max_tokens=4)).end.usage.generated_tokens == 4


def test_a_draft_model_is_left_out_with_a_note_and_an_encoder_decoder_is_no_draft(
    written: TinyT5, tmp_path: Path
) -> None:
    plain = tiny_gguf.write_tiny(tmp_path / "plain.gguf")
    engine = engines.load(written.path, context_length=64, speculation="draft", draft_model=str(plain))
    assert any("source" in note for note in engine.info.notes)
    assert collect(engine, raw(SOURCE, max_tokens=4)).end.usage.drafted_tokens == 0
    with pytest.raises(UnsupportedModel, match="cannot guess"):
        engines.load(plain, speculation="draft", draft_model=str(written.path))


# --- files that cannot be --------------------------------------------------------------------------------------


def test_more_decoder_layers_than_encoder_layers_are_refused_in_words(tmp_path: Path) -> None:
    path = write_tiny_t5(tmp_path / "t5.gguf", n_decoder_layers=3).path
    with pytest.raises(UnsupportedModel, match="decoder has 3 layers and its encoder only 2"):
        engines.load(path)


def test_keys_that_would_end_the_process_are_damage(tmp_path: Path) -> None:
    with pytest.raises(DamagedModel, match="decoder_start_token_id"):
        engines.load(write_tiny_t5(tmp_path / "start.gguf", start=tiny_t5.N_VOCAB).path)
    with pytest.raises(DamagedModel, match="relative_buckets_count"):
        engines.load(write_tiny_t5(tmp_path / "buckets.gguf", n_buckets=2).path)


# --- memory -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [{}, {"flash_attention": "off"}], ids=str)
@pytest.mark.parametrize("context_length", [64, 512, 2048])
def test_the_memory_that_was_foretold_is_what_is_taken(
    written: TinyT5, context_length: int, params: dict[str, object]
) -> None:
    foretold = memory.estimate(read_header(written.path), LoadParams(**params), context_length=context_length)  # type: ignore[arg-type]
    engine = engines.load(written.path, context_length=context_length, **params)
    assert engine.info.memory_bytes == pytest.approx(foretold.total, rel=0.1)


def test_the_default_context_is_what_the_model_was_trained_for(written: TinyT5) -> None:
    assert engines.load(written.path, context_length=0).info.context_length == 64
