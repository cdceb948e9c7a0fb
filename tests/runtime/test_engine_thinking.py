"""Models that think before they answer, on replies known in advance, in both engines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

import engines
import tiny_gguf
from engines import Answer, chat, collect, raw
from runtime.engine import Engine, StopFlag
from runtime.errors import UserError
from runtime.llama.engine import LlamaEngine
from runtime.messages import Message, Role
from runtime.native.engine import NativeEngine
from runtime.protocol import FinishReason, GenerationRequest, TextDelta

pytestmark = pytest.mark.usefixtures("engine_name")

CHATML = tiny_gguf.scripted_template()
READS = CHATML.replace(
    "{{ message['content'] }}",
    "{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}{{ message.content }}",
)
KNOWS = CHATML + "{# <think> #}"
OPENS = CHATML.replace("<|reply|>", "<think><|reply|>")
REPLY = [b"<think>", b"\nHm", b", well", b".\n", b"</think>", b"\n\n", b"It is ", b"Paris."]


def scripted(tmp_path: Path, reply: Sequence[bytes], template: str = KNOWS, **options: object) -> Engine:
    path = tmp_path / "scripted.gguf"
    tiny_gguf.write_scripted(path, reply, chat_template=template, **options)  # type: ignore[arg-type]
    return engines.load(path)


def parts(answer: Answer) -> tuple[str, str]:
    deltas = [event for event in answer.events if isinstance(event, TextDelta)]
    return tuple("".join(d.text for d in deltas if d.reasoning is kind) for kind in (True, False))  # type: ignore


@pytest.mark.parametrize("kind", ["control", "user_defined", "text"])
def test_reasoning_comes_apart_whatever_kind_of_tokens_the_marks_are(tmp_path: Path, kind: str) -> None:
    options = {} if kind == "text" else {kind: (b"<think>", b"</think>")}
    answer = collect(scripted(tmp_path, REPLY, **options), chat("Where?"))
    assert parts(answer) == ("Hm, well.", "It is Paris.")
    assert answer.end.usage.generated_tokens == 8
    assert answer.end.usage.reasoning_tokens == 4


def test_marks_may_be_cut_anywhere(tmp_path: Path) -> None:
    reply = [b"<th", b"ink>Hm", b".<", b"/thi", b"nk>It", b" is", b" Paris."]
    assert parts(collect(scripted(tmp_path, reply), chat("Where?"))) == ("Hm.", "It is Paris.")


def test_reasoning_that_the_template_opened_is_recognised(tmp_path: Path) -> None:
    reply = [b"Hm", b".\n", b"</think>", b"\n\n", b"Paris."]
    assert parts(collect(scripted(tmp_path, reply, OPENS), chat("Where?"))) == ("Hm.", "Paris.")


def test_reasoning_cut_by_the_limit_is_readable_and_goes_on(tmp_path: Path) -> None:
    engine = scripted(tmp_path, REPLY)
    cut = collect(engine, chat("Where?", max_tokens=3))
    assert (parts(cut), cut.end.reason) == (("Hm, well", ""), FinishReason.LENGTH)
    for last in (Message(Role.ASSISTANT, "", "Hm, well"), Message(Role.ASSISTANT, "<think>\nHm, well")):
        request = chat("Where?")
        messages = (*request.messages, last)
        more = collect(engine, msgspec.structs.replace(request, messages=messages, continue_last=True))
        assert parts(more) == (".", "It is Paris.")


def test_an_answer_cut_behind_its_reasoning_goes_on(tmp_path: Path) -> None:
    engine = scripted(tmp_path, REPLY)
    collect(engine, chat("Where?", max_tokens=7))
    request = chat("Where?")
    messages = (*request.messages, Message(Role.ASSISTANT, "It is ", "Hm, well."))
    more = collect(engine, msgspec.structs.replace(request, messages=messages, continue_last=True))
    assert parts(more) == ("", "Paris.")


def test_a_model_that_knows_no_marks_may_write_them(tmp_path: Path) -> None:
    answer = collect(scripted(tmp_path, REPLY, CHATML), chat("Where?"))
    assert answer.text == b"".join(REPLY).decode()


def test_raw_completion_takes_nothing_apart(tmp_path: Path) -> None:
    assert parts(collect(scripted(tmp_path, REPLY), raw("x"))) == ("", b"".join(REPLY).decode())


def test_stop_texts_work_within_reasoning_and_across_its_end(tmp_path: Path) -> None:
    answer = collect(scripted(tmp_path, REPLY), chat("Where?", stop=("well",)))
    assert (parts(answer), answer.end.reason) == (("Hm, ", ""), FinishReason.STOP_TEXT)


# --- history ----------------------------------------------------------------------------------------------------


def prompt_of(engine: Engine, *turns: Message) -> str:
    assert isinstance(engine, LlamaEngine | NativeEngine)
    ids = engine._prompts.build(GenerationRequest(messages=turns)).ids
    return "".join(engine.pieces(ids))


@pytest.mark.parametrize("answer", [
    Message(Role.ASSISTANT, "Paris.", "Hm."), Message(Role.ASSISTANT, "<think>\nHm.\n</think>\n\nParis."),
])  # fmt: skip
def test_a_template_decides_what_earlier_reasoning_becomes(tmp_path: Path, answer: Message) -> None:
    turns = (Message(Role.USER, "Where?"), answer, Message(Role.USER, "Sure?"))
    assert "assistant\nParis.<|im_end|>" in prompt_of(scripted(tmp_path, REPLY), *turns)
    kept = prompt_of(scripted(tmp_path, REPLY, READS), *turns)
    assert "assistant\n<think>Hm.</think>Paris.<|im_end|>" in kept


def test_reasoning_cannot_forge_a_control_token(tmp_path: Path) -> None:
    engine = scripted(tmp_path, REPLY, READS)
    turns = (Message(Role.USER, "Where?"), Message(Role.ASSISTANT, "P.", "<|im_end|>"), Message(Role.USER, "Sure?"))
    assert isinstance(engine, LlamaEngine | NativeEngine)
    ids = engine._prompts.build(GenerationRequest(messages=turns)).ids
    assert ids.count(tiny_gguf.IM_END) == 3  # one a message


def test_the_answer_is_read_again_as_the_tokens_that_were_drawn(tmp_path: Path) -> None:
    engine = scripted(tmp_path, REPLY)
    collect(engine, chat("Where?"))
    request = chat("Where?", "It is Paris.", "Sure?")
    assert isinstance(engine, LlamaEngine | NativeEngine)
    ids = engine._prompts.build(request).ids
    pieces = engine.pieces(ids)
    assert pieces[pieces.index("It is ") + 1] == "Paris."


# --- errors and receipts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [[b"one ", b"two \xf0\x9f", b"x"], [b"one ", b"two st", b"x"], [b"<think>", b"a\n"]])
def test_held_back_text_comes_out_before_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: list[bytes]
) -> None:
    engine = scripted(tmp_path, reply)
    assert isinstance(engine, LlamaEngine | NativeEngine)
    evaluated = engine._cache.append

    def fail_at_last(token: int) -> None:
        if len(shown) >= 1 and engine.pieces([token]) == [reply[1].decode("utf-8", "replace")]:
            raise UserError("The machine is on fire.")
        evaluated(token)

    monkeypatch.setattr(engine._cache, "append", fail_at_last)
    shown: list[str] = [""]

    def show() -> None:
        for event in engine.generate(chat("say", stop=("stop",)), StopFlag()):
            shown.extend([event.text] if isinstance(event, TextDelta) else [])

    with pytest.raises(UserError, match="fire"):
        show()
    said = b"".join(reply[:2]).decode("utf-8", "replace")
    assert "".join(shown) == said.replace("<think>", "").rstrip("\n")


def test_an_answer_with_reasoning_is_made_again(tmp_path: Path) -> None:
    engine = scripted(tmp_path, REPLY, control=(b"<think>", b"</think>"))
    receipt = collect(engine, msgspec.structs.replace(chat("Where?"), receipt=True)).end.receipt
    assert receipt is not None
    assert receipt.text == b"".join(REPLY).decode()
    *_progress, replayed = engine.replay(receipt, StopFlag(), anyway=True)
    assert replayed.difference is None  # type: ignore[union-attr]
