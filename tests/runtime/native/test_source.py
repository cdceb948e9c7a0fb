"""Source to target: greedy and by beams as transformers writes, as llama.cpp writes, and a source that is read once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

import engines
import tiny_gguf
import tiny_t5
from engines import GREEDY, chat, collect, raw
from hf_models import oracle
from runtime.beams import BeamParams
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.native import beams
from runtime.native.engine import NativeEngine
from runtime.params import LoadParams
from runtime.protocol import FinishReason, GenerationRequest
from runtime.source import gguf_target_start, target_start
from tiny_tokenizers import write_tokenizer

SOURCE = "The miller opened the sluice"
OTHER = "every evening they carried them home"
N_VOCAB = 162  # of the tiny Unigram tokenizer
ENDS = [2, 160]  # </s> and <|im_end|>


def native(path: Path, **params: object) -> NativeEngine:
    settings = {"dtype": "f32", "threads": 1, **params}
    engine = NativeEngine(path, LoadParams(**settings).validated())  # type: ignore[arg-type]
    engines.OPEN.append(engine)  # type: ignore[arg-type]
    return engine


def saved(name: str, folder: Path, **generation: Any) -> Any:
    """Saves a tiny model with a tokenizer, and returns what transformers has of it."""
    model = oracle(name, vocab_size=N_VOCAB, eos_token_id=2)
    model.save_pretrained(folder)
    write_tokenizer(folder, "unigram")
    (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    return model


@pytest.fixture(scope="module", params=["t5", "bart"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, NativeEngine]:
    """transformers' model, and our engine on its folder."""
    folder = tmp_path_factory.mktemp(request.param)
    start = {"decoder_start_token_id": 0} if request.param == "t5" else {
        "decoder_start_token_id": 2, "forced_bos_token_id": 7}  # fmt: skip
    return saved(request.param, folder, **start), native(folder)


def generated(model: Any, engine: NativeEngine, **options: Any) -> Any:
    """Returns what transformers generates of SOURCE, as (ids, scores)."""
    source = engine._prompts.build(raw(SOURCE))
    ids, start = source.ids[: source.source], source.ids[source.source :]
    forced = {"forced_bos_token_id": start[1]} if len(start) > 1 else {}
    return model.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
        decoder_start_token_id=start[0], eos_token_id=ENDS, pad_token_id=1, return_dict_in_generate=True,
        output_scores=True, **forced, **options,
    )  # fmt: skip


def text_of(engine: NativeEngine, ids: list[int]) -> str:
    end = next((at for at, token in enumerate(ids) if token in ENDS), len(ids))
    return engine._model.vocabulary.decode(ids[:end]).decode("utf-8", "replace")


def n_start(engine: NativeEngine) -> int:
    return len(engine._model.target_start)


# --- against transformers and llama.cpp -------------------------------------------------------------------------


def test_a_greedy_target_is_that_of_transformers(pair: tuple[Any, NativeEngine]) -> None:
    model, engine = pair
    skipped = n_start(engine)

    theirs = generated(model, engine, max_new_tokens=16 + skipped - 1).sequences[0, skipped:].tolist()

    answer = collect(engine, raw(SOURCE, max_tokens=16))
    assert answer.text.strip() == text_of(engine, theirs).strip()
    assert answer.end.usage.generated_tokens > 2


@pytest.mark.parametrize("penalty", [-0.5, 1.0, 2.0])
@pytest.mark.parametrize("early", ["true", "false"])
def test_beams_find_the_target_that_transformers_finds(
    penalty: float, early: str, pair: tuple[Any, NativeEngine]
) -> None:
    model, engine = pair
    skipped = n_start(engine)
    theirs = generated(
        model, engine, max_new_tokens=12 + skipped - 1, num_beams=4, length_penalty=penalty,
        early_stopping=early == "true",
    ).sequences[0, skipped:].tolist()  # fmt: skip

    wanted = BeamParams(beams=4, length_penalty=penalty, early_stopping=early)  # type: ignore[arg-type]
    answer = collect(engine, GenerationRequest(prompt=SOURCE, beams=wanted, sampling=GREEDY.replace(max_tokens=12)))

    assert answer.text.strip() == text_of(engine, theirs).strip()


def test_a_token_that_must_come_first_counts_in_a_texts_length(pair: tuple[Any, NativeEngine]) -> None:
    model, engine = pair
    skipped = n_start(engine)
    theirs = generated(model, engine, max_new_tokens=6 + skipped - 1, num_beams=3, length_penalty=1.0)
    request = GenerationRequest(prompt=SOURCE, beams=BeamParams(beams=3), sampling=GREEDY.replace(max_tokens=6))
    prompt, cache = engine._prompts.build(request), engine._cache

    cached, _note = cache.keep_common(prompt.ids)
    list(cache.evaluate(prompt.ids[cached:]))
    asked = beams.answer_of(request, prompt, engine._model, cache, StopFlag())
    best = asked.search()

    assert best.score == pytest.approx(float(theirs.sequences_scores[0]), abs=1e-4)


@pytest.mark.parametrize("gated", [False, True])
def test_a_gguf_file_is_turned_as_llama_cpp_turns_it(gated: bool, tmp_path: Path) -> None:
    path = tiny_t5.write_tiny_t5(tmp_path / "t5.gguf", gated=gated).path
    exact = {"kv_type_k": "f32", "kv_type_v": "f32", "flash_attention": "off", "context_length": 64}
    request = raw("translate the miller and the old stone", max_tokens=12)

    assert collect(native(path), request).text == collect(engines.load(path, **exact), request).text != ""


# --- the source -------------------------------------------------------------------------------------------------


def test_the_source_is_read_once_and_again_when_it_is_another_one(pair: tuple[Any, NativeEngine]) -> None:
    _model, engine = pair
    n_source = engine._prompts.build(raw(SOURCE)).source
    first, again, other, back = (collect(engine, raw(text, max_tokens=8)) for text in (SOURCE, SOURCE, OTHER, SOURCE))

    assert again.text == back.text == first.text
    assert other.text != first.text
    assert (again.end.usage.cached_tokens, again.end.usage.evaluated_tokens) == (n_source, n_start(engine))
    for answer in (other, back):
        assert answer.end.usage.cached_tokens == 0
        assert "another one" in answer.end.usage.reuse_note


def test_a_beam_search_leaves_the_source_for_the_next_answer(pair: tuple[Any, NativeEngine]) -> None:
    _model, engine = pair
    before = collect(engine, raw(SOURCE, max_tokens=8))
    searched = GenerationRequest(prompt=SOURCE, beams=BeamParams(beams=3), sampling=GREEDY.replace(max_tokens=8))

    first, second = collect(engine, searched), collect(engine, searched)
    after = collect(engine, raw(SOURCE, max_tokens=8))

    assert first.text == second.text
    assert after.text == before.text
    assert after.end.usage.cached_tokens == engine._prompts.build(raw(SOURCE)).source


def test_stop_before_the_source_is_read_leaves_the_engine_whole(pair: tuple[Any, NativeEngine]) -> None:
    _model, engine = pair
    expected = collect(engine, raw(SOURCE, max_tokens=6)).text
    collect(engine, raw(OTHER, max_tokens=1))
    stop = StopFlag()
    stop.set()

    stopped = collect(engine, raw(SOURCE, max_tokens=6), stop)

    assert (stopped.end.reason, stopped.text) == (FinishReason.STOPPED, "")
    assert collect(engine, raw(SOURCE, max_tokens=6)).text == expected


def test_a_target_ends_where_the_context_is_full_also_by_beams(pair: tuple[Any, NativeEngine]) -> None:
    _model, engine = pair
    small = native(engine._model.path, context_length=24)
    for wanted in (BeamParams(), BeamParams(beams=3)):
        request = GenerationRequest(
            prompt=OTHER, ignore_end=True, beams=wanted, sampling=GREEDY.replace(context_policy="shift")
        )
        answer = collect(small, request)
        assert answer.end.reason is FinishReason.CONTEXT
        assert answer.end.usage.generated_tokens == 24 - n_start(small) + 1


def test_a_source_may_fill_what_the_encoder_reads_and_no_more(pair: tuple[Any, NativeEngine]) -> None:
    _model, engine = pair
    small = native(engine._model.path, context_length=16)

    assert collect(small, GenerationRequest(prompt_ids=(5,) * 16, sampling=GREEDY.replace(max_tokens=2))).events
    with pytest.raises(UserError, match="17 tokens"):
        collect(small, GenerationRequest(prompt_ids=(5,) * 17))


def test_samplers_stop_texts_and_grammars_work_on_the_target(pair: tuple[Any, NativeEngine]) -> None:
    _model, engine = pair
    params = {"temperature": 1.5, "seed": 7, "max_tokens": 12}
    assert collect(engine, raw(SOURCE, **params)).text == collect(engine, raw(SOURCE, **params)).text
    assert collect(engine, raw(SOURCE, **params)).text != collect(engine, raw(SOURCE, **{**params, "seed": 8})).text
    assert collect(engine, raw(SOURCE, grammar='root ::= "the stone"')).text.strip() == "the stone"
    whole = collect(engine, raw(SOURCE, **params)).text
    cut = collect(engine, raw(SOURCE, **params, stop=(whole[2:4],)))
    assert cut.end.reason is FinishReason.STOP_TEXT
    assert cut.text == whole[: whole.index(whole[2:4])]


def test_guesses_from_the_text_change_nothing(pair: tuple[Any, NativeEngine]) -> None:
    _model, engine = pair
    guessing = native(engine._model.path, speculation="ngram")

    assert collect(guessing, raw(SOURCE, max_tokens=30)).text == collect(engine, raw(SOURCE, max_tokens=30)).text


# --- what it does not do ----------------------------------------------------------------------------------------


def test_conversations_scores_and_empty_sources_are_refused(pair: tuple[Any, NativeEngine]) -> None:
    _model, engine = pair

    assert engine.info.reads_source
    with pytest.raises(UserError, match="quern complete"):
        collect(engine, chat("hello"))
    with pytest.raises(UserError, match="source"):
        list(engine.score("the mill", StopFlag()))
    with pytest.raises(UserError, match="empty"):
        collect(engine, raw(" \n"))
    assert collect(engine, raw(SOURCE, max_tokens=2)).text


def test_a_target_is_made_again_from_its_receipt_and_no_state_is_kept(
    pair: tuple[Any, NativeEngine], tmp_path: Path
) -> None:
    _theirs, engine = pair
    drawn = raw(SOURCE, max_tokens=9, temperature=1.2, seed=3)
    collect(engine, raw(OTHER, max_tokens=1))
    first, again = (collect(engine, msgspec.structs.replace(drawn, receipt=True)).end.receipt for _n in range(2))
    assert first is not None
    assert again == first, "a source that was not read again leaves the same receipt"
    collect(engine, raw(OTHER, max_tokens=1))
    *_progress, result = engine.replay(first, StopFlag(), anyway=True)
    assert (result.text, result.difference) == (first.text, None)  # type: ignore[union-attr]
    state = engine.save_state(tmp_path / "state")
    assert (state.tokens, (tmp_path / "state").exists()) == (0, False)
    assert "keeps no state" in state.note
    assert engine.load_state(tmp_path / "state").note == state.note


@pytest.mark.parametrize("held", [{"grammar": 'root ::= "a"'}, {"json_schema": "{}"}, {"logit_bias": ("5=1",)}])
def test_beams_are_not_silently_held_to_a_form(held: dict[str, Any], pair: tuple[Any, NativeEngine]) -> None:
    _model, engine = pair

    with pytest.raises(UserError) as caught:
        collect(engine, GenerationRequest(prompt=SOURCE, beams=BeamParams(beams=2), sampling=GREEDY.replace(**held)))

    assert caught.value.info.code == "beams_are_free"


# --- decoders search with beams as well -------------------------------------------------------------------------


def test_beams_leave_a_decoders_prompt_in_the_cache(tmp_path: Path) -> None:
    engine = native(tiny_gguf.write_tiny(tmp_path / "tiny.gguf"))
    prompt = "Once upon a time there was a mill"
    greedy = collect(engine, raw(prompt, max_tokens=8))
    one = GenerationRequest(prompt=prompt, beams=BeamParams(beams=4), sampling=GREEDY.replace(max_tokens=8))

    searched = collect(engine, one)

    assert searched.end.usage.generated_tokens == 8
    assert engine._cache.ids == engine._prompts.build(raw(prompt)).ids
    assert collect(engine, raw(prompt, max_tokens=8)).text == greedy.text


def test_llama_cpps_engine_refuses_beams(tmp_path: Path) -> None:
    engine = engines.load(tiny_gguf.write_tiny(tmp_path / "tiny.gguf"))

    with pytest.raises(UserError, match="--engine native"):
        collect(engine, GenerationRequest(prompt="Once", beams=BeamParams(beams=2)))


# --- how a target begins ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "generation", "expected"), [
    ({"decoder_start_token_id": 3, "bos_token_id": 1}, {}, (3,)),
    ({"decoder_start_token_id": 3}, {"decoder_start_token_id": 4}, (4,)),
    ({"bos_token_id": 1, "pad_token_id": 0}, {"decoder_start_token_id": None}, (1,)),
    ({"pad_token_id": 9}, {}, (9,)),
    ({}, {}, (0,)),
    ({"decoder_start_token_id": 2, "forced_bos_token_id": 0}, {}, (2, 0)),
    ({"decoder_start_token_id": True, "bos_token_id": [1, 2], "pad_token_id": "x"}, {}, (0,)),
])  # fmt: skip
def test_a_target_begins_with_what_the_configs_name(
    config: dict[str, Any], generation: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert target_start(config, generation) == expected


def test_a_target_of_a_gguf_file_begins_with_its_token_or_with_padding() -> None:
    base = {"general.architecture": "t5", "tokenizer.ggml.padding_token_id": 6}

    assert gguf_target_start({**base, "t5.decoder_start_token_id": 8}) == (8,)
    assert gguf_target_start(base) == (6,)
