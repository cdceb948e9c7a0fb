"""Speculation: whatever is guessed, the answer is the one that comes without guesses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import engines
import recurrent_gguf
import tiny_gguf
from engines import EXACT, Answer, chat, collect, raw
from runtime.engine import Engine, StopFlag
from runtime.messages import Message, Role
from runtime.ngram import NgramDrafter
from runtime.protocol import FinishReason, GenerationRequest, Replayed, TextDelta
from speculating import Foreknowing, ids_of, speculate

SENTENCE = "The miller opened the sluice and the stone began to turn. The miller opened the"

SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "seed 1": {"temperature": 0.9, "seed": 1},
    "seed 2": {"temperature": 0.9, "seed": 2},
    "seed 3, hot": {"temperature": 2.5, "seed": 3},
    "penalties": {"repeat_penalty": 1.3, "frequency_penalty": 0.5, "presence_penalty": 0.4, "penalty_window": -1},
    "dry": {"dry_multiplier": 1.5, "dry_window": -1, "temperature": 0.7},
    "mirostat 1": {"mirostat": "1", "temperature": 0.9, "seed": 4},
    "mirostat 2": {"mirostat": "2", "temperature": 0.9, "seed": 5},
    "adaptive-p": {"adaptive_p_target": 0.4, "temperature": 0.9, "seed": 6},
    "xtc": {"xtc_probability": 0.5, "temperature": 1.2, "seed": 7},
    "typical, dynamic": {"typical_p": 0.9, "dynatemp_range": 0.5, "temperature": 1.0, "seed": 8},
    "top-n-sigma": {"top_n_sigma": 1.5, "temperature": 1.0, "seed": 9},
    "bias": {"logit_bias": ("116=-inf", "101=+2"), "temperature": 0.9, "seed": 10},
    "grammar": {"grammar": 'root ::= ([a-z ]{3,5} ".")+', "temperature": 0.9, "seed": 11},
    "schema": {"json_schema": '{"type": "array", "items": {"type": "integer"}}', "temperature": 0.9, "seed": 12},
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture(scope="module")
def plain(tiny: Path) -> Iterator[Engine]:
    engine = engines.load(tiny, **EXACT)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def other(tiny: Path) -> Iterator[Engine]:
    engine = engines.load(tiny, **EXACT)
    yield engine
    engine.close()


def foreknowing(engine: Engine, other: Engine, request: GenerationRequest, **options: int) -> tuple[Answer, Answer]:
    """Returns the answer without guesses, and the one in which most guesses at it come true."""
    expected = collect(engine, request)
    return expected, collect(speculate(other, Foreknowing(ids_of(engine), **options)), request)


def check_same(expected: Answer, answer: Answer) -> None:
    assert answer.text == expected.text
    assert answer.deltas == expected.deltas
    assert answer.end.reason == expected.end.reason
    assert answer.end.stop_text == expected.end.stop_text
    mine, theirs = answer.end.usage, expected.end.usage
    assert (mine.generated_tokens, mine.context_used) == (theirs.generated_tokens, theirs.context_used)


def logits_after(engine: Engine, token: int) -> np.ndarray:
    """Returns the scores after one more token."""
    engine._cache.append(token)  # type: ignore[attr-defined]
    return last_logits(engine)


def logits_of(engine: Engine, ids: list[int]) -> np.ndarray:
    """Returns the scores after tokens that are read into an empty cache."""
    list(engine._cache.evaluate(ids))  # type: ignore[attr-defined]
    return last_logits(engine)


def last_logits(engine: Engine) -> np.ndarray:
    model = engine._model  # type: ignore[attr-defined]
    pointer = model.library.llama_get_logits_ith(model.context, -1)
    return np.ctypeslib.as_array(pointer, (model.vocabulary.size,)).copy()


# --- samplers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLINGS)
def test_the_text_is_the_same_whatever_the_samplers(plain: Engine, other: Engine, name: str) -> None:
    expected, answer = foreknowing(plain, other, chat("hello there", **SAMPLINGS[name]))

    check_same(expected, answer)
    assert answer.end.usage.drafted_tokens > answer.end.usage.accepted_tokens > 0
    assert ids_of(other) == ids_of(plain)


@pytest.mark.parametrize("wrong_at", [1, 2, 100])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_text_is_the_same_however_many_guesses_come_true(
    plain: Engine, other: Engine, wrong_at: int, seed: int
) -> None:
    expected, answer = foreknowing(plain, other, raw(SENTENCE, temperature=1.0, seed=seed), wrong_at=wrong_at)

    check_same(expected, answer)
    assert (answer.end.usage.accepted_tokens == 0) == (wrong_at == 1)


@pytest.mark.shows("speculation")
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_guesses_from_the_text_itself_leave_it_the_same(plain: Engine, other: Engine, temperature: float) -> None:
    request = raw(SENTENCE, temperature=temperature, repeat_penalty=0.7)  # below 1, it likes to repeat itself
    expected = collect(plain, request)

    answer = collect(speculate(other, NgramDrafter(1)), request)

    check_same(expected, answer)
    assert answer.end.usage.drafted_tokens > 0


def test_every_draw_is_shown_as_without_guesses(plain: Engine, other: Engine) -> None:
    request = msgspec.structs.replace(chat("hello", temperature=0.9), alternatives=3)
    expected, answer = foreknowing(plain, other, request)

    drawn = [event for event in answer.events if type(event).__name__ == "TokenDrawn"]
    before = [event for event in expected.events if type(event).__name__ == "TokenDrawn"]
    assert [event.token for event in drawn] == [event.token for event in before]
    assert [event.probability for event in drawn] == pytest.approx([event.probability for event in before], abs=1e-4)


# --- ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", range(1, 20))
def test_an_answer_is_cut_at_its_limit_amid_guesses_that_came_true(plain: Engine, other: Engine, limit: int) -> None:
    collect(plain, chat("hello there", max_tokens=30))
    known = ids_of(plain)

    expected = collect(plain, chat("hello there", max_tokens=limit))
    answer = collect(speculate(other, Foreknowing(known)), chat("hello there", max_tokens=limit))

    check_same(expected, answer)
    assert ids_of(other) == ids_of(plain)
    right = speculate(other, Foreknowing(known, wrong_at=1000))
    usage = collect(right, chat("hello there", max_tokens=limit)).end.usage
    assert usage.drafted_tokens == usage.accepted_tokens  # nothing is evaluated that cannot be drawn any more


def test_a_stop_text_over_several_guesses_ends_the_answer(tmp_path: Path) -> None:
    pieces = [b"one ", b"two", b" ST", b"OP", b" three", b" four"]
    path = tmp_path / "script.gguf"
    tiny_gguf.write_scripted(path, pieces)
    before, engine = engines.load(path, **EXACT), engines.load(path, **EXACT)
    collect(before, chat("hi"))

    expected = collect(engines.load(path, **EXACT), chat("hi", stop=("STOP",)))
    answer = collect(speculate(engine, Foreknowing(ids_of(before), wrong_at=1000)), chat("hi", stop=("STOP",)))

    check_same(expected, answer)
    assert answer.text == "one two "
    assert answer.end.usage.accepted_tokens >= 2


def test_nothing_is_guessed_past_the_end_of_the_turn(tmp_path: Path) -> None:
    path = tmp_path / "script.gguf"
    script = tiny_gguf.write_scripted(path, [b"one ", b"two ", b"three"])
    engine = engines.load(path, **EXACT)
    prompt = engine._prompts.build(chat("hi")).ids  # type: ignore[attr-defined]
    text = [*prompt, *script.ids, tiny_gguf.IM_END, *script.ids, *script.ids]

    answer = collect(speculate(engine, Foreknowing(text, wrong_at=1000)), chat("hi"))

    assert answer.text == "one two three"
    assert answer.end.reason is FinishReason.END
    assert answer.end.usage.drafted_tokens == answer.end.usage.accepted_tokens == 2
    assert ids_of(engine) == [*prompt, *script.ids]


def test_stop_amid_guesses_that_came_true_keeps_what_was_said(plain: Engine, other: Engine) -> None:
    request = chat("hello there", max_tokens=40)
    collect(plain, request)
    known = ids_of(plain)
    stop, texts = StopFlag(), []
    for event in speculate(other, Foreknowing(known, wrong_at=1000)).generate(request, stop):
        if isinstance(event, TextDelta):
            texts.append(event)
            if event.n_tokens >= 4:
                stop.set()

    assert event.reason is FinishReason.STOPPED  # type: ignore[union-attr]
    said = texts[-1].n_tokens
    prompt = len(known) - 39
    assert prompt < len(ids_of(other)) <= prompt + said
    assert ids_of(other) == known[: len(ids_of(other))]
    assert collect(other, request).text == collect(plain, request).text


def test_an_answer_that_is_given_up_leaves_no_guesses_behind(plain: Engine, other: Engine) -> None:
    request = chat("hello there", max_tokens=40)
    collect(plain, request)
    known = ids_of(plain)
    events = speculate(other, Foreknowing(known, wrong_at=2)).generate(request, StopFlag())
    for event in events:
        if isinstance(event, TextDelta) and event.n_tokens >= 6:
            break
    events.close()  # type: ignore[attr-defined]

    assert ids_of(other) == known[: len(ids_of(other))]
    check_same(collect(plain, request), collect(other, request))


# --- the context ------------------------------------------------------------------------------------------------


def test_a_full_context_ends_the_answer_at_the_same_token(tiny: Path) -> None:
    before, engine = (engines.load(tiny, context_length=64, **EXACT) for _ in range(2))
    expected, answer = foreknowing(before, engine, raw(SENTENCE, max_tokens=-1))

    check_same(expected, answer)
    assert answer.end.reason is FinishReason.CONTEXT
    assert len(ids_of(engine)) == 64


def test_nothing_is_guessed_beyond_the_context(tmp_path: Path) -> None:
    path = tmp_path / "endless.gguf"
    tiny_gguf.write_scripted(path, [b"la ", b"li "], cyclic=True)
    engine = engines.load(path, context_length=256)  # llama.cpp has room for exactly so many

    answer = collect(speculate(engine, NgramDrafter(1)), chat("sing", max_tokens=-1))

    assert answer.end.reason is FinishReason.CONTEXT
    assert len(ids_of(engine)) == 256
    assert answer.end.usage.accepted_tokens > 150


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_context_that_rolls_on_rolls_on_at_the_same_token(tiny: Path, temperature: float) -> None:
    before, engine = (engines.load(tiny, context_length=64, **EXACT) for _ in range(2))
    request = raw(SENTENCE, max_tokens=150, context_policy="shift", temperature=temperature, repeat_penalty=0.7)
    expected = collect(before, request)

    answer = collect(speculate(engine, NgramDrafter(1)), request)

    check_same(expected, answer)
    assert answer.end.notes == expected.end.notes != ()
    assert answer.end.usage.accepted_tokens > 0
    assert ids_of(engine) == ids_of(before)


def test_the_next_turns_regenerating_and_continuing_are_the_same(plain: Engine, other: Engine) -> None:
    speculate(other, NgramDrafter(1))
    first = chat("hello there", temperature=0.8)
    answers = [collect(engine, first) for engine in (plain, other)]
    check_same(*answers)
    text = answers[0].text

    for request in (
        first,
        chat("hello there", text, "and now?", temperature=0.8),
        GenerationRequest(
            messages=(Message(Role.USER, "hello there"), Message(Role.ASSISTANT, text)), continue_last=True,
            sampling=first.sampling,
        ),
    ):  # fmt: skip
        expected, answer = collect(plain, request), collect(other, request)
        check_same(expected, answer)
        assert (answer.end.usage.cached_tokens > 0) == (request is not first)  # a prompt is read in one piece
        assert ids_of(other) == ids_of(plain)


def test_a_saved_state_holds_no_guesses(tiny: Path, tmp_path: Path, plain: Engine) -> None:
    first, second = engines.load(tiny, **EXACT), engines.load(tiny, **EXACT)
    request = chat("hello there", temperature=0.8)
    expected = collect(plain, request)
    collect(speculate(first, Foreknowing(ids_of(plain))), request)

    saved = first.save_state(tmp_path / "state")
    loaded = second.load_state(tmp_path / "state")

    assert saved.tokens == loaded.tokens == len(ids_of(plain))
    later = chat("hello there", expected.text, "and then?")
    check_same(collect(plain, later), collect(speculate(second, NgramDrafter(1)), later))


@pytest.mark.parametrize("length", [100, 251, 300, 613])
def test_a_window_that_was_cut_back_still_holds_what_is_looked_back_at(tmp_path: Path, length: int) -> None:
    path = tiny_gguf.write_windowed(tmp_path / "windowed.gguf", window=16)
    options = {"context_length": 1024, "micro_batch": 16, **EXACT}
    before, engine, fresh = (engines.load(path, **options) for _ in range(3))
    request = raw(SENTENCE, max_tokens=length, temperature=0.8)
    collect(before, request)

    answer = collect(speculate(engine, Foreknowing(ids_of(before), wrong_at=4)), request)

    # Cut back, a window lies otherwise in memory, which can change the last bits of a sum: so numbers, and not text.
    assert answer.end.usage.drafted_tokens > answer.end.usage.accepted_tokens > length // 4
    after, anew = logits_after(engine, 65), logits_of(fresh, [*ids_of(engine)])
    assert np.abs(after - anew).max() < 1e-3


def test_a_receipt_tells_of_the_drafts_and_the_replay_is_equal(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "quantized.gguf", type="Q4_0")
    engine, again = engines.load(path), engines.load(path)
    request = msgspec.structs.replace(raw(SENTENCE, temperature=0.9, repeat_penalty=0.7), receipt=True)

    answer = collect(speculate(engine, NgramDrafter(1)), request)

    receipt = answer.end.receipt
    assert receipt is not None
    assert any(operation.kind == "draft" for operation in receipt.answer.operations())
    *_progress, replayed = again.replay(receipt, StopFlag(), anyway=True)
    assert isinstance(replayed, Replayed)
    assert (replayed.difference, replayed.text) == (None, answer.text)


# --- which models -----------------------------------------------------------------------------------------------


def test_a_model_that_cannot_go_back_is_answered_one_by_one_and_says_so(tmp_path: Path) -> None:
    path = recurrent_gguf.write_recurrent(tmp_path / "mamba.gguf")
    engine = engines.load(path, speculation="ngram")

    answer = collect(engine, raw(SENTENCE * 2, max_tokens=16))

    assert any("cannot take tokens back" in note for note in engine.info.notes)
    assert engine.info.speculation == "off"
    assert answer.end.usage.drafted_tokens == 0
    assert answer.text == collect(engines.load(path), raw(SENTENCE * 2, max_tokens=16)).text


def test_speculation_is_off_unless_asked_for(plain: Engine, tiny: Path) -> None:
    assert engines.load(tiny).info.speculation == "off"
    assert engines.load(tiny, speculation="ngram").info.speculation == "ngram"
