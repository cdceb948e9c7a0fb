"""What happens in both engines when the context is full: old turns go, the context rolls on, or nothing is left out."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

import engines
import tiny_gguf
from engines import EXACT, chat, collect, raw
from runtime.engine import Engine, StopFlag
from runtime.errors import UserError
from runtime.messages import Message, Role
from runtime.params import KVType
from runtime.protocol import FinishReason, GenerationRequest, TextDelta

pytestmark = pytest.mark.usefixtures("engine_name")

KV_TYPES = get_args(KVType)
TEXT = "QUERN miller opened 17 sluices; and the stone began to turn, warm & fine. Was it early?"


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("endless") / "endless.gguf"
    tiny_gguf.write_scripted(path, [b"la ", b"li "], cyclic=True)
    return path


@pytest.fixture(scope="module")
def one_layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("one") / "one.gguf", n_layers=1, n_heads=4)


def held(engine: Engine) -> list[int]:
    """Returns the tokens in the cache."""
    ids: list[int] = engine._cache.ids  # type: ignore[attr-defined]
    return list(ids)


# --- rolling on -------------------------------------------------------------------------------------------------


@pytest.mark.shows("context_policy")
@pytest.mark.parametrize("kind", KV_TYPES)
@pytest.mark.parametrize("length", [64, 256])
def test_an_endless_answer_rolls_through_five_times_the_context(
    endless: Path, kind: str, length: int, engine_name: str
) -> None:
    engine = engines.load(endless, context_length=length, kv_type_k=kind, kv_type_v=kind)
    answer = collect(engine, chat("sing", context_policy="shift", max_tokens=5 * length))
    if engine_name == "native" or kind in ("f32", "f16"):
        assert answer.end.reason is FinishReason.LENGTH
        assert answer.end.usage.generated_tokens == 5 * length
        assert answer.text == "la li " * (5 * length // 2)
        assert any("let go" in note for note in answer.end.notes)
    else:  # this model's heads are too small for llama.cpp to move quantized keys, and bf16 it cannot move at all
        assert answer.end.reason is FinishReason.CONTEXT
        assert any("could not roll on" in note for note in answer.end.notes)
    assert len(held(engine)) <= length
    assert collect(engine, chat("sing", max_tokens=2)).text == "la li "
    engine.close()


@pytest.mark.parametrize("kind", KV_TYPES)
def test_a_model_with_larger_heads_rolls_with_quantized_keys(one_layer: Path, kind: str, engine_name: str) -> None:
    if (engine_name, kind) == ("llama", "bf16"):
        pytest.skip("llama.cpp cannot move keys in bf16")
    engine = engines.load(one_layer, context_length=64, kv_type_k=kind, kv_type_v=kind)
    request = raw("The miller", context_policy="shift", max_tokens=320)
    answer = collect(engine, GenerationRequest(prompt=request.prompt, ignore_end=True, sampling=request.sampling))
    assert answer.end.usage.generated_tokens == 320
    engine.close()


def test_the_system_prompt_stays_when_the_context_rolls(endless: Path) -> None:
    engine = engines.load(endless, context_length=128)
    collect(engine, chat("sing", system="Stay brief.", context_policy="shift", max_tokens=400))
    text = "".join(engine.pieces(held(engine)))
    assert text.startswith("<|im_start|>system\nStay brief.<|im_end|>\n<|im_start|>user\n")
    assert "sing" not in text
    engine.close()


def test_the_answer_to_the_same_question_is_the_same_after_a_shift(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "m.gguf")
    engine = engines.load(path, context_length=96, **EXACT)
    request = chat("Tell me of mills.", system="Be brief.", context_policy="shift", max_tokens=250)
    request = GenerationRequest(messages=request.messages, sampling=request.sampling, ignore_end=True)
    first = collect(engine, request)
    assert first.end.usage.generated_tokens == 250
    assert collect(engine, request).text == first.text
    engine.close()


def test_stopping_at_any_moment_of_a_rolling_answer_does_no_harm(endless: Path) -> None:
    engine = engines.load(endless, context_length=64)
    for tokens in (45, 60, 61, 62, 63, 64, 90):
        stop = StopFlag()
        for event in engine.generate(chat("sing", context_policy="shift", max_tokens=200), stop):
            if isinstance(event, TextDelta) and event.n_tokens == tokens:
                stop.set()
        assert event.reason is FinishReason.STOPPED  # type: ignore[union-attr]
    assert collect(engine, chat("sing", max_tokens=4)).text == "la li la li "
    engine.close()


@pytest.mark.parametrize("swa_full", [False, True])
def test_a_prompt_much_longer_than_the_window_is_read_at_once_as_in_small_pieces(
    tmp_path: Path, swa_full: bool
) -> None:
    path = tiny_gguf.write_windowed(tmp_path / "m.gguf", window=16)
    answers = []
    for size in (8, 512):
        engine = engines.load(path, batch=size, micro_batch=size, swa_full=swa_full, **EXACT)
        first = collect(engine, chat("é" * 150, max_tokens=20))
        answers.append([first.text, collect(engine, chat("é" * 150, first.text, "ü" * 20, max_tokens=20)).text])
    assert answers[0] == answers[1]


def test_a_windowed_model_that_cannot_roll_stops_and_says_so(tmp_path: Path, engine_name: str) -> None:
    path = tiny_gguf.write_windowed(tmp_path / "m.gguf", window=16, n_layers=6)
    sampling = raw("", context_policy="shift", max_tokens=400).sampling
    request = GenerationRequest(prompt="abc", ignore_end=True, sampling=sampling)
    engine = engines.load(path, context_length=64)
    answer = collect(engine, request)
    if engine_name == "llama":
        assert answer.end.reason is FinishReason.CONTEXT
        assert any("could not roll on" in note for note in answer.end.notes)
    else:  # ours reads what stays again, and so can always roll
        assert answer.end.usage.generated_tokens == 400
    engine.close()
    engine = engines.load(path, context_length=64, swa_full=True)
    answer = collect(engine, request)
    assert answer.end.reason is FinishReason.LENGTH
    assert answer.end.usage.generated_tokens == 400
    engine.close()


def test_a_beginning_that_fills_the_context_leaves_nothing_to_roll(endless: Path) -> None:
    engine = engines.load(endless, context_length=96)
    answer = collect(engine, chat("sing", system="x" * 57, context_policy="shift", max_tokens=50))
    assert answer.end.reason is FinishReason.CONTEXT
    assert any("could not roll on" in note for note in answer.end.notes)
    engine.close()


def test_a_rolling_answer_longer_than_the_context_can_be_continued(endless: Path) -> None:
    engine = engines.load(endless, context_length=64)
    messages = (Message(Role.USER, "sing"), Message(Role.ASSISTANT, "la li " * 80))
    sampling = chat("", context_policy="shift", max_tokens=10).sampling
    answer = collect(engine, GenerationRequest(messages=messages, continue_last=True, sampling=sampling))
    assert answer.end.usage.generated_tokens == 10
    assert any("last part" in note for note in answer.end.notes)
    engine.close()


# --- leaving out nothing ----------------------------------------------------------------------------------------


@pytest.mark.shows("context_policy")
def test_a_conversation_that_no_longer_fits_is_refused_where_nothing_may_be_left_out(endless: Path) -> None:
    engine = engines.load(endless, context_length=256)
    turns = [f"turn {number} " + "word " * 4 for number in range(21)]
    assert collect(engine, chat(*turns, max_tokens=4)).dropped
    with pytest.raises(UserError) as caught:
        collect(engine, chat(*turns, context_policy="stop", max_tokens=4))
    assert caught.value.info.code == "nothing_may_be_left_out"
    assert "256" in caught.value.info.title
    answer = collect(engine, chat(*turns[:5], context_policy="stop", max_tokens=-1))
    assert not answer.dropped
    assert answer.end.reason is FinishReason.CONTEXT
    engine.close()


# --- raw texts --------------------------------------------------------------------------------------------------


def going_on(text: str) -> GenerationRequest:
    request = raw(text, max_tokens=4)
    return GenerationRequest(prompt=request.prompt, only_end=True, ignore_end=True, sampling=request.sampling)


def test_a_text_longer_than_the_context_is_continued_from_its_end(one_layer: Path) -> None:
    engine = engines.load(one_layer, context_length=64)
    with pytest.raises(UserError, match="too long"):
        collect(engine, raw(TEXT * 3, max_tokens=4))
    whole = engine.begin_marks() + engine.tokenize(TEXT * 3)
    answer = collect(engine, going_on(TEXT * 3))
    read_ids = held(engine)[: answer.end.usage.prompt_tokens]
    begin = len(engine.begin_marks())
    assert read_ids[:begin] == whole[:begin]
    assert read_ids[begin:] == whole[-(len(read_ids) - begin) :]
    assert any("only its last part" in note for note in answer.end.notes)
    engine.close()


def test_a_text_that_grows_beyond_the_context_keeps_what_was_read_of_it(one_layer: Path) -> None:
    engine = engines.load(one_layer, context_length=64)
    text, reread = TEXT * 3, 0
    for _step in range(12):
        answer = collect(engine, going_on(text))
        reread += answer.end.usage.evaluated_tokens > 16
        text += answer.text
    assert reread <= 4, "most of the time only the new end is read"
    engine.close()
