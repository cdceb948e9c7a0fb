"""Pinned messages stay in the prompt, and the context is measured message by message; with both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest

import engines
import tiny_gguf
from engines import chat, collect
from runtime.engine import Engine
from runtime.errors import UserError
from runtime.messages import Message, Role
from runtime.protocol import ContextMeasured, GenerationRequest

LONG = [f"{'question' if at % 2 == 0 else 'answer'} {at} of the miller" for at in range(13)]  # more than 256 tokens
Load = Callable[..., Engine]


@pytest.fixture(scope="module", params=["llama", "native"])
def load(request: pytest.FixtureRequest) -> Load:
    """Opens a model with one engine, then with the other."""
    return partial(engines.load, engine=request.param)


@pytest.fixture(scope="module")
def engine(load: Load, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("pins") / "m.gguf"
    tiny_gguf.write_scripted(path, [b"la ", b"li "], cyclic=True)
    engine = load(path, context_length=256)
    yield engine
    engine.close()


def pinned(request: GenerationRequest, *positions: int) -> GenerationRequest:
    return msgspec.structs.replace(request, pinned=positions)


def long_chat(**sampling: Any) -> GenerationRequest:
    return chat(*LONG, system="Be brief.", **{"max_tokens": 4, **sampling})


def held(engine: Engine) -> str:
    return "".join(engine.pieces(list(engine._cache.ids)))  # type: ignore[attr-defined]


# --- pins -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["drop_turns", "shift"])
def test_a_pinned_answer_stays_with_its_question_while_others_around_it_go(engine: Engine, policy: str) -> None:
    request = long_chat(context_policy=policy)
    assert collect(engine, request).dropped[:4] == (1, 2, 3, 4)
    answer = collect(engine, pinned(request, 4))
    assert {1, 2, 5, 6} <= set(answer.dropped)
    assert not {0, 3, 4, 13} & set(answer.dropped)
    seen = held(engine)
    assert f"user\n{LONG[2]}<|im_end|>\n<|im_start|>assistant\n{LONG[3]}<|im_end|>\n<|im_start|>user\n" in seen
    assert "Be brief." in seen
    assert LONG[0] not in seen


def test_turns_alternate_for_a_template_that_insists_on_it(load: Load, tmp_path: Any) -> None:
    strict = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('turns must alternate') }}{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    path = tmp_path / "strict.gguf"
    tiny_gguf.write_scripted(path, [b"la "], cyclic=True, chat_template=strict)
    engine = load(path, context_length=256)
    request = chat(*LONG, max_tokens=4)
    for position in range(len(LONG) - 2):
        answer = collect(engine, pinned(request, position))
        assert position not in answer.dropped
        assert answer.dropped
        assert not answer.end.notes
    engine.close()


def test_the_same_turns_stay_out_with_the_next_question(engine: Engine) -> None:
    request = pinned(long_chat(), 4)
    before = collect(engine, request).dropped
    more = (*request.messages, Message(Role.ASSISTANT, "la"), Message(Role.USER, "more"))
    after = collect(engine, msgspec.structs.replace(request, messages=more))
    assert after.dropped == before


@pytest.mark.parametrize("policy", ["drop_turns", "shift"])
def test_pins_that_alone_exceed_the_context_are_refused_with_the_numbers(engine: Engine, policy: str) -> None:
    request = pinned(long_chat(context_policy=policy), *range(1, 14))
    with pytest.raises(UserError) as caught:
        collect(engine, request)
    error = caught.value.info
    assert error.code == "pinned_too_long"
    total = engine.count(request.messages)
    assert f"{total - 255:,}" in error.title
    assert f"{total:,}" in error.message
    assert "256" in error.message
    assert "Unpin" in error.hint
    assert collect(engine, pinned(request, 1)).end.usage.generated_tokens == 4  # with fewer pins it goes on


def test_a_message_that_is_too_long_is_not_blamed_on_pins(engine: Engine) -> None:
    with pytest.raises(UserError) as caught:
        collect(engine, pinned(chat("first", "answer", "x" * 300), 0))
    assert caught.value.info.code == "prompt_too_long"


def test_pinned_turns_at_the_beginning_stay_when_the_context_rolls(engine: Engine) -> None:
    request = chat("remember the stone", "la", "sing", system="Be brief.", context_policy="shift", max_tokens=600)
    collect(engine, pinned(request, 1))
    assert "remember the stone" in held(engine)
    collect(engine, request)
    assert "remember the stone" not in held(engine)


# --- measuring --------------------------------------------------------------------------------------------------


def adds_up(measured: ContextMeasured) -> bool:
    kept = [n for at, n in enumerate(measured.tokens) if at not in measured.dropped]
    return sum(kept) + measured.marks == measured.total


def test_every_message_is_measured_and_the_measures_add_up(engine: Engine) -> None:
    request = chat("Hello there", "General miller", "12345", system="Be brief.")
    measured = engine.measure(request)
    assert measured.tokens == (9, 11, 14, 5)  # this vocabulary's tokens are bytes
    assert measured.total == engine.count(request.messages)
    assert adds_up(measured)
    assert (measured.context_length, measured.reserve, measured.dropped) == (256, 64, ())
    assert measured.error is None


def test_what_was_read_already_is_shown_as_reused_and_is_reused(load: Load, tmp_path: Any) -> None:
    path = tmp_path / "m.gguf"
    tiny_gguf.write_scripted(path, [b"la "], cyclic=True)
    engine = load(path, context_length=256, micro_batch=8)
    answer = collect(engine, chat("Hello there", system="Be brief.", max_tokens=2))
    request = chat("Hello there", answer.text, "and then?", system="Be brief.", max_tokens=2)
    measured = engine.measure(request)
    assert measured.reused[:2] == measured.tokens[:2] == (9, 11)
    assert measured.reused[3] == 0
    assert 0 < measured.cached < measured.total
    assert measured.cached == collect(engine, request).end.usage.cached_tokens
    engine.close()


def test_measuring_says_what_is_left_out_and_what_goes_next(engine: Engine) -> None:
    request = pinned(long_chat(), 4)
    measured = engine.measure(request)
    assert measured.dropped == collect(engine, request).dropped
    assert measured.total <= 256 - measured.reserve
    assert measured.tokens[1] == len(LONG[0])
    assert adds_up(measured)
    assert measured.held == (3, 4)
    assert measured.next == ()  # nothing is left that could go
    free = engine.measure(pinned(chat(*LONG[:5], system="Be brief.", max_tokens=4), 2))
    assert (free.dropped, free.held, free.next) == ((), (1, 2), (3, 4))


def test_measuring_changes_nothing_for_the_next_answer(engine: Engine) -> None:
    request = long_chat()
    before = collect(engine, request)
    engine.measure(chat(*LONG, "and", "so on", system="Another chat.", context_policy="drop_turns"))
    again = collect(engine, request)
    assert again.dropped == before.dropped
    assert again.end.usage.evaluated_tokens < 64


def test_measuring_names_what_would_be_refused(engine: Engine) -> None:
    whole = engine.measure(long_chat(context_policy="stop"))
    assert whole.error is not None
    assert whole.error.code == "nothing_may_be_left_out"
    assert (whole.dropped, whole.next) == ((), ())
    far = engine.measure(chat(*LONG * 5, context_policy="stop"))
    assert far.error is not None
    assert far.error.code == "nothing_may_be_left_out"
    assert far.total == sum(far.tokens)
    everything = engine.measure(pinned(long_chat(), *range(1, 14)))
    assert everything.error is not None
    assert everything.error.code == "pinned_too_long"


def test_pins_that_may_roll_out_are_named(engine: Engine) -> None:
    request = chat("one", "la", "two", "la", "three", context_policy="shift")
    assert engine.measure(pinned(request, 0)).loose == ()
    assert engine.measure(pinned(request, 2)).loose == (2, 3)
    assert engine.measure(pinned(chat(*LONG, context_policy="drop_turns"), 2)).loose == ()


def test_reasoning_that_a_template_leaves_out_is_not_counted(engine: Engine) -> None:
    measured = engine.measure(GenerationRequest(messages=(
        Message(Role.USER, "hi"), Message(Role.ASSISTANT, "yes", "what a long thought"), Message(Role.USER, "go"),
    )))  # fmt: skip
    assert measured.tokens == (2, 3, 2)


def test_messages_that_hold_control_marks_are_measured_as_text(engine: Engine) -> None:
    measured = engine.measure(chat("a <|im_end|> b", "é🦙", "more"))
    assert measured.tokens == (14, 6, 4)
    assert adds_up(measured)


def test_an_empty_conversation_takes_nothing(engine: Engine) -> None:
    measured = engine.measure(GenerationRequest())
    assert (measured.tokens, measured.total, measured.context_length) == ((), 0, 256)
