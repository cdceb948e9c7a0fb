"""Conversations are written with the template that was chosen, and with its variables, in both engines."""

from __future__ import annotations

from pathlib import Path

import pytest

import engines
import tiny_gguf
from engines import chat, collect
from runtime.errors import UserError
from runtime.llama.engine import LlamaEngine
from runtime.native.engine import NativeEngine
from runtime.params import SamplingParams
from runtime.protocol import GenerationRequest, TextDelta

pytestmark = pytest.mark.usefixtures("engine_name")

SWITCHED = tiny_gguf.scripted_template().replace("<|reply|>", "{% if think %}<think>{% endif %}<|reply|>")


def scripted(tmp_path: Path, *reply: bytes, **options: object) -> LlamaEngine | NativeEngine:
    path = tmp_path / "scripted.gguf"
    tiny_gguf.write_scripted(path, list(reply) or [b"yes"], **options)  # type: ignore[arg-type]
    engine = engines.load(path)
    assert isinstance(engine, LlamaEngine | NativeEngine)
    return engine


def prompt_of(engine: LlamaEngine | NativeEngine, request: GenerationRequest) -> str:
    return "".join(engine.pieces(engine._prompts.build(request).ids))


TALK = ("Hi", "Hello.", "Who?")


def test_a_model_without_a_template_answers_with_one_of_ours(tmp_path: Path) -> None:
    engine = scripted(tmp_path, chat_template=None)
    assert (engine.info.has_template, engine.info.template_guess) == (False, "chatml")
    with pytest.raises(UserError) as caught:
        collect(engine, chat("Hi"))
    assert (caught.value.code, "“chatml”" in caught.value.info.hint) == ("no_template", True)
    answer = collect(engine, chat("Hi", template="chatml"))
    assert (answer.text, answer.end.notes) == ("yes", ())
    expected = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert prompt_of(engine, chat("Hi", template="chatml")) == expected


def test_marks_that_the_vocabulary_lacks_are_told_with_the_answer(tmp_path: Path) -> None:
    (note,) = collect(scripted(tmp_path), chat("Hi", template="gemma")).end.notes
    assert "<start_of_turn>" in note


@pytest.mark.shows("template")
def test_another_template_of_the_file_and_one_from_a_file_can_be_chosen(tmp_path: Path) -> None:
    engine = scripted(tmp_path, metadata={"tokenizer.chat_template.short": "S:{{ messages[-1].content }}"})
    assert engine.info.templates == ("default", "short")
    assert prompt_of(engine, chat("Hi", template="short")) == "S:Hi"
    (tmp_path / "mine.jinja").write_text("F:{{ messages[-1].content }}")
    assert prompt_of(engine, chat("Hi", template=str(tmp_path / "mine.jinja"))) == "F:Hi"


def test_a_broken_template_leaves_others_and_raw_to_choose(tmp_path: Path) -> None:
    engine = scripted(tmp_path, chat_template="{% if %}")
    with pytest.raises(UserError) as caught:
        collect(engine, chat("Hi"))
    assert caught.value.code == "template_broken"
    assert collect(engine, chat("Hi", template="chatml")).text == "yes"
    assert collect(engine, chat("Hi", template="raw")).text == "yes"


@pytest.mark.parametrize("add_bos", [False, True])
def test_raw_is_the_text_alone(tmp_path: Path, add_bos: bool) -> None:
    engine = scripted(tmp_path, add_bos=add_bos)
    begin = "<|endoftext|>" if add_bos else ""
    assert prompt_of(engine, chat(*TALK, system="S", template="raw")) == f"{begin}S\n\nHiHello.\n\nWho?"
    typed = engine._prompts.build(chat("<|im_end|>", template="raw")).ids
    assert tiny_gguf.IM_END not in typed


def test_raw_reads_an_answer_again_from_the_cache(tmp_path: Path) -> None:
    engine = scripted(tmp_path)
    answer = collect(engine, chat("Hi", template="raw"))
    again = collect(engine, chat("Hi", answer.text, "Who?", template="raw"))
    assert again.end.usage.cached_tokens == answer.end.usage.prompt_tokens + 1


@pytest.mark.shows("template_vars")
def test_variables_reach_the_template_and_unknown_ones_are_told(tmp_path: Path) -> None:
    engine = scripted(tmp_path, b"Hm", b"</think>", b"Yes", chat_template=SWITCHED)
    answer = collect(engine, chat("Hi", template_vars=("think=true", "colour=red")))
    assert [(event.text, event.reasoning) for event in answer.events if isinstance(event, TextDelta)] == [
        ("Hm", True), ("Yes", False),
    ]  # fmt: skip
    (note,) = answer.end.notes
    assert "“colour”" in note
    assert "think" in note
    assert "<think>" not in prompt_of(engine, chat("Hi", template_vars=("think=false",)))


def test_counting_takes_the_chosen_template(tmp_path: Path) -> None:
    engine = scripted(tmp_path)
    messages = chat("Hi").messages
    assert engine.count(messages, SamplingParams(template="raw")) == 2
    assert engine.count(messages) > 2


def test_a_format_in_plain_words_reads_an_answer_again_as_it_was_drawn(tmp_path: Path) -> None:
    engine = scripted(tmp_path)
    collect(engine, chat("Hi", template="alpaca"))
    pieces = engine.pieces(engine._prompts.build(chat("Hi", "yes", "Who?", template="alpaca")).ids)
    assert "yes" in pieces
