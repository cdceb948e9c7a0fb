"""Conversations that a template cannot take are changed as little as possible, and the person is told."""

from __future__ import annotations

import pytest

from look_alike_templates import ALPACA, CHATML, GEMMA, LLAMA_2
from runtime.chat_template import ChatTemplate, TemplateBroken, TemplateRefused
from runtime.messages import Message, Role
from runtime.turns import RenderNote, render_turns

SYSTEM = Message(Role.SYSTEM, "Be brief.")
USER = Message(Role.USER, "Hello")
ASSISTANT = Message(Role.ASSISTANT, "Hi.")
FOLDED = (RenderNote.SYSTEM_FOLDED,)
JOINED = (RenderNote.TURNS_JOINED,)


def turned(source: str, *messages: Message, **options: bool) -> tuple[str, tuple[RenderNote, ...]]:
    return render_turns(ChatTemplate(source, bos="<s>", eos="</s>"), messages, **options)


def test_conversation_that_the_template_takes_is_not_changed() -> None:
    text, notes = turned(CHATML, SYSTEM, USER)

    assert text.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>")
    assert notes == ()


def test_refused_system_prompt_goes_into_the_first_question() -> None:
    assert turned(GEMMA, SYSTEM, USER) == (
        "<s><start_of_turn>user\nBe brief.\n\nHello<end_of_turn>\n<start_of_turn>model\n", FOLDED,
    )  # fmt: skip


def test_system_prompt_that_vanishes_without_a_word_goes_into_the_first_question() -> None:
    text, notes = turned(ALPACA, SYSTEM, USER)

    assert text == "### Instruction:\nBe brief.\n\nHello\n\n### Response:\n"
    assert notes == FOLDED


def test_system_prompt_for_which_the_template_has_no_name_goes_into_the_first_question() -> None:
    source = "{% for m in messages %}{{ {'user': 'U', 'assistant': 'A'}[m.role] + m.content }}{% endfor %}"

    assert turned(source, SYSTEM, USER) == ("UBe brief.\n\nHello", FOLDED)


@pytest.mark.parametrize("blank", ["", "  \n\t"])
@pytest.mark.parametrize("source", [CHATML, GEMMA, ALPACA, LLAMA_2])
def test_blank_system_prompt_is_left_out(source: str, blank: str) -> None:
    assert turned(source, Message(Role.SYSTEM, blank), USER) == turned(source, USER)
    assert turned(source, USER)[1] == ()


def test_blank_system_prompt_alone_is_all_there_is() -> None:
    assert "<|im_start|>system\n <|im_end|>" in turned(CHATML, Message(Role.SYSTEM, " "))[0]


def test_system_prompt_alone_becomes_the_question() -> None:
    assert turned(GEMMA, SYSTEM)[0] == "<s><start_of_turn>user\nBe brief.<end_of_turn>\n<start_of_turn>model\n"


def test_system_prompts_in_between_go_into_the_next_question() -> None:
    late = Message(Role.SYSTEM, "Now in French.")

    text, notes = turned(GEMMA, SYSTEM, USER, ASSISTANT, late, late, USER)

    assert "user\nBe brief.\n\nHello<end_of_turn>" in text
    assert "user\nNow in French.\n\nNow in French.\n\nHello<end_of_turn>" in text
    assert notes == FOLDED


def test_system_prompt_before_an_answer_becomes_a_question() -> None:
    text, notes = turned(GEMMA, SYSTEM, ASSISTANT, USER)

    assert text.startswith("<s><start_of_turn>user\nBe brief.<end_of_turn>\n<start_of_turn>model\nHi.<end_of_turn>")
    assert notes == FOLDED


def test_neighbours_are_joined_where_turns_must_alternate() -> None:
    text, notes = turned(GEMMA, USER, USER, ASSISTANT, ASSISTANT, USER)

    assert "user\nHello\n\nHello<end_of_turn>\n<start_of_turn>model\nHi.\n\nHi.<end_of_turn>" in text
    assert notes == JOINED


def test_system_prompt_is_folded_and_neighbours_are_joined_where_both_are_needed() -> None:
    text, notes = turned(GEMMA, SYSTEM, USER, USER)

    assert "user\nBe brief.\n\nHello\n\nHello<end_of_turn>" in text
    assert notes == FOLDED + JOINED


def test_system_prompt_that_the_template_knows_stays_when_neighbours_are_joined() -> None:
    text, notes = turned(LLAMA_2, SYSTEM, USER, USER)

    assert text == "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHello\n\nHello [/INST]"
    assert notes == JOINED


def test_unfinished_answer_is_continued_after_folding() -> None:
    text, notes = turned(GEMMA, SYSTEM, USER, ASSISTANT, continue_last=True)

    assert text.endswith("<start_of_turn>model\nHi.")
    assert notes == FOLDED


def test_refusal_that_nothing_helps_is_the_templates_first() -> None:
    source = "{{ raise_exception('no: ' ~ messages | length) }}"

    with pytest.raises(TemplateRefused, match="no: 3"):
        turned(source, SYSTEM, USER, USER)


def test_conversation_that_cannot_be_changed_is_offered_once() -> None:
    offered = []

    class Refusing(ChatTemplate):
        def render(self, messages: tuple[Message, ...], **options: object) -> str:
            offered.append(messages)
            raise TemplateRefused("no")

    with pytest.raises(TemplateRefused):
        render_turns(Refusing(CHATML), (USER, ASSISTANT))

    assert offered == [(USER, ASSISTANT)]


def test_broken_template_stays_broken() -> None:
    with pytest.raises(TemplateBroken):
        turned("{{ foo.bar }}", SYSTEM, USER)


@pytest.mark.parametrize("note", RenderNote)
def test_every_note_is_a_sentence(note: RenderNote) -> None:
    assert note.sentence.startswith("This model's chat template")
    assert note.sentence.endswith(".")
