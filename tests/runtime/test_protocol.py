"""The engine's lines: everything that can be said survives the way there and back."""

from __future__ import annotations

import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import protocol
from runtime.errors import ErrorInfo
from runtime.messages import Message, Role
from runtime.params import LoadParams, SamplingParams
from runtime.protocol import EngineInfo, FinishReason, GenerationRequest, Usage
from runtime.receipt import Receipt
from runtime.schedule import Schedule, Step

RECEIPT = Receipt(
    model_path="/модель é/x.gguf", engine="llama", build="b", seed=7, ids=(3, 4), text="é\n", reason="end",
    prompt=Schedule((1, 2), (Step("read", 2),)), answer=Schedule((3,), (Step("read", 1),)),
)  # fmt: skip
COMMANDS = [
    protocol.Load(id=1, path="/модель é/x.gguf", params=LoadParams(context_length=128), language="zh_CN"),
    protocol.Generate(
        id=2,
        request=GenerationRequest(
            messages=(Message(Role.USER, "line\nbreak\u2028and 🦙"),), sampling=SamplingParams(stop=("\n",))
        ),
    ),
    protocol.Stop(id=2),
    protocol.Tokenize(id=3, text="\x00<|im_end|>", special=True),
    protocol.CountTokens(id=4, messages=(Message(Role.SYSTEM, ""),)),
    protocol.MeasureContext(id=10, request=GenerationRequest(messages=(Message(Role.USER, "é"),), pinned=(0,))),
    protocol.SaveState(id=6, path="/chats/état.state"),
    protocol.LoadState(id=7, path="/chats/état.state"),
    protocol.Replay(id=8, receipt=RECEIPT, anyway=True),
    protocol.IdentifyModel(id=9),
    protocol.Unload(id=5),
]
EVENTS = [
    protocol.Hello(id=0, pid=17),
    protocol.LoadProgress(id=1, fraction=0.5),
    protocol.Loaded(id=1, info=EngineInfo(engine="llama", name="é", notes=("a note",))),
    protocol.PromptProgress(id=2, done=3, total=9, cached=1),
    protocol.TextDelta(id=2, text="a\nb", n_tokens=2),
    protocol.TextDelta(id=2, text="é", n_tokens=3, replaces=1),
    protocol.ContextTrimmed(id=2, dropped=(1, 2)),
    protocol.TokenDrawn(
        id=2, token=7, text=" a", probability=0.75,
        alternatives=(protocol.Alternative(token=7, text=" a", before=0.5, after=0.75),
                      protocol.Alternative(token=9, text="�", before=0.1, removed_by="top_k")),
    ),
    protocol.Finished(id=2, reason=FinishReason.STOP_TEXT, usage=Usage(prompt_tokens=9), seed=7, stop_text="\n"),
    protocol.Tokenized(id=3, ids=(1, 2), pieces=("a", "\ufffd")),
    protocol.TokensCounted(id=4, total=9),
    protocol.ContextMeasured(
        id=10, tokens=(1, 2), reused=(1, 0), marks=3, total=6, cached=2, reserve=16, context_length=64, dropped=(1,),
        next=(0,), held=(0,), loose=(0,), error=ErrorInfo(title="It is too long.", code="prompt_too_long"),
    ),
    protocol.StateSaved(id=6, tokens=9, size_bytes=4096),
    protocol.StateLoaded(id=7, tokens=0, note="It is damaged."),
    protocol.Finished(id=2, reason=FinishReason.END, usage=Usage(), receipt=RECEIPT),
    protocol.Replayed(
        id=8, text="é", tokens=1, difference=protocol.Difference(tokens=1, character=1, expected="a", found="")
    ),
    protocol.ModelIdentified(id=9, sha256=("0" * 64,)),
    protocol.Unloaded(id=5),
    protocol.Failed(id=2, error=ErrorInfo(title="It failed.", code="x")),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_command_is_one_line_and_comes_back_equal(command: protocol.Command) -> None:
    line = protocol.encode_line(command)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert protocol.decode_command(line) == command


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_one_line_and_comes_back_equal(event: protocol.Event) -> None:
    line = protocol.encode_line(event)
    assert line.count(b"\n") == 1
    assert protocol.decode_event(line) == event


def test_every_command_and_event_is_tried_above() -> None:
    assert {type(command) for command in COMMANDS} == set(typing.get_args(protocol.AnyCommand))
    assert {type(event) for event in EVENTS} == set(typing.get_args(protocol.AnyEvent))


@given(st.text())
def test_any_text_stays_on_one_line(text: str) -> None:
    line = protocol.encode_line(protocol.TextDelta(id=1, text=text, n_tokens=1))
    assert line.count(b"\n") == 1
    assert protocol.decode_event(line).text == text


@pytest.mark.parametrize("line", [b"", b"{}", b"[1]", b"not json", b'{"type":"reboot","id":1}', b'{"type":"stop"}'])
def test_what_is_no_command_is_refused(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        protocol.decode_command(line)


def test_speeds_are_zero_where_nothing_was_measured() -> None:
    assert Usage().prompt_speed == Usage().generation_speed == 0.0
    assert Usage(generated_tokens=1, generation_seconds=1.0).generation_speed == 0.0
    assert Usage(generated_tokens=11, generation_seconds=2.0).generation_speed == 5.0
