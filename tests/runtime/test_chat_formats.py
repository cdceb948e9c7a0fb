"""The template of a conversation can be chosen: the model's own, one of ours, a file, or none."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

import template_oracle
from runtime import chat_formats
from runtime.chat_formats import ChatFormats, built_in, built_in_names, guess
from runtime.chat_template import ChatTemplate
from runtime.errors import UserError
from runtime.messages import Message, Role
from runtime.params import SamplingParams
from runtime.settings import BadSetting
from runtime.template_variables import read_variables, variables_of
from runtime.turns import render_turns

TALK = (
    Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "Hi <b>"), Message(Role.ASSISTANT, "Hello."),
    Message(Role.USER, "Who?"),
)  # fmt: skip
# What each family's documentation shows for this conversation, with <s> and </s> for the model's begin and end marks.
EXPECTED = {
    "chatml": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <b><|im_end|>\n"
              "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n",
    "llama2": "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi <b> [/INST] Hello. </s><s>[INST] Who? [/INST]",
    "llama3": "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
              "<|start_header_id|>user<|end_header_id|>\n\nHi <b><|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
              "<|start_header_id|>user<|end_header_id|>\n\nWho?<|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "mistral": "<s>[INST] Hi <b>[/INST] Hello.</s>[INST] Be brief.\n\nWho?[/INST]",
    "gemma": "<s><start_of_turn>user\nBe brief.\n\nHi <b><end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n"
             "<start_of_turn>user\nWho?<end_of_turn>\n<start_of_turn>model\n",
    "phi": "<|system|>\nBe brief.<|end|>\n<|user|>\nHi <b><|end|>\n<|assistant|>\nHello.<|end|>\n"
           "<|user|>\nWho?<|end|>\n<|assistant|>\n",
    "zephyr": "<|system|>\nBe brief.</s>\n<|user|>\nHi <b></s>\n<|assistant|>\nHello.</s>\n<|user|>\nWho?</s>\n"
              "<|assistant|>\n",
    "alpaca": "Be brief.\n\n### Instruction:\nHi <b>\n\n### Response:\nHello.</s>\n\n### Instruction:\nWho?\n\n"
              "### Response:\n",
    "vicuna": "<s>Be brief. USER: Hi <b> ASSISTANT: Hello.</s>USER: Who? ASSISTANT:",
    "command-r": "<s><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Be brief.<|END_OF_TURN_TOKEN|>"
                 "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hi <b><|END_OF_TURN_TOKEN|>"
                 "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Hello.<|END_OF_TURN_TOKEN|>"
                 "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Who?<|END_OF_TURN_TOKEN|>"
                 "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    "deepseek": "<s>Be brief.<｜User｜>Hi <b><｜Assistant｜>Hello.<｜end▁of▁sentence｜><｜User｜>Who?<｜Assistant｜>",
    "granite": "<|start_of_role|>system<|end_of_role|>Be brief.<|end_of_text|>\n"
               "<|start_of_role|>user<|end_of_role|>Hi <b><|end_of_text|>\n"
               "<|start_of_role|>assistant<|end_of_role|>Hello.<|end_of_text|>\n"
               "<|start_of_role|>user<|end_of_role|>Who?<|end_of_text|>\n"
               "<|start_of_role|>assistant<|end_of_role|>",
}  # fmt: skip


def rendered(name: str, *turns: Message) -> str:
    template = ChatTemplate(built_in(name), bos="<s>", eos="</s>")
    return render_turns(template, turns, now=datetime(2031, 2, 3))[0]


def test_every_format_of_ours_is_expected_below() -> None:
    assert set(built_in_names()) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_format_writes_a_conversation_as_its_family_does(name: str) -> None:
    assert rendered(name, *TALK) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_format_is_rendered_as_transformers_does(name: str) -> None:
    for turns in (TALK, TALK[1:], TALK[1:2], TALK[:2]):
        expected = template_oracle.oracle(built_in(name), turns, bos_token="<s>", eos_token="</s>")
        assert rendered(name, *turns) == expected


@pytest.mark.parametrize("name", EXPECTED)
def test_a_format_takes_every_conversation_and_lets_an_answer_go_on(name: str) -> None:
    odd = (TALK[1], TALK[1], TALK[2], TALK[2], TALK[3])
    assert "Who?" in rendered(name, *odd)
    template = ChatTemplate(built_in(name), bos="<s>", eos="</s>")
    assert template.render(TALK[1:3], continue_last=True).endswith("Hello.")


# --- choosing ---------------------------------------------------------------------------------------------------


def all_tokens(_text: str) -> bool:
    return True


def chosen(own: dict[str, str], template: str = "", *template_vars: str) -> chat_formats.ChatFormat:
    return ChatFormats(own, all_tokens).chosen(SamplingParams(template=template, template_vars=template_vars))


def test_the_models_own_default_is_taken_where_nothing_is_chosen() -> None:
    assert chosen({"default": "D", "rag": "R"}).source == "D"
    assert chosen({"default": "D", "rag": "R"}, "rag").source == "R"
    assert chosen({"default": "D", "chatml": "own"}, "chatml").source == "own"


def test_ours_a_file_and_none_can_be_chosen(tmp_path: Path) -> None:
    file = tmp_path / "mine.jinja"
    file.write_bytes(b"\xef\xbb\xbf{{ messages }}\r\n")
    assert chosen({"default": "D"}, "gemma").source == built_in("gemma")
    assert chosen({"default": "D"}, str(file)).source == "{{ messages }}\n"
    assert chosen({}, "raw").source == ""


def failure(own: dict[str, str], template: str) -> UserError:
    with pytest.raises(UserError) as caught:
        ChatFormats(own, lambda text: text.startswith("<|im_")).chosen(SamplingParams(template=template))
    return caught.value


@pytest.mark.parametrize(
    ("written", "name"),
    [("ChatML", "chatml"), ("RAW", "raw"), ("TOOLS", "Tools"), ("Short", "Short"), ("short", "short")],
)
def test_the_case_of_a_name_matters_only_between_two_that_differ_in_it(written: str, name: str) -> None:
    formats = ChatFormats({"Tools": "T", "short": "s", "Short": "S"}, lambda _mark: True)
    assert formats.chosen(SamplingParams(template=written)).name == name


def test_a_name_that_is_none_lists_what_there_is() -> None:
    error = failure({"rag": "R"}, "chatlm")
    assert error.code == "no_template"
    assert "rag, alpaca, chatml" in error.info.message
    assert "raw" in error.info.message
    assert failure({"a": "A", "b": "B"}, "").code == "template_choice"


def test_a_model_without_a_template_is_told_the_one_its_vocabulary_was_made_for() -> None:
    error = failure({}, "")
    assert error.code == "no_template"
    assert "“chatml”" in error.info.hint


@pytest.mark.parametrize("content", [None, b"", b"  \n", b"\xff\xfe\x00"])
def test_a_file_that_gives_no_template_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "mine.jinja"
    if content is not None:
        file.write_bytes(content)
    error = failure({}, str(file))
    assert error.code == "template_unreadable"
    assert "mine.jinja" in error.info.title
    assert failure({}, str(tmp_path) + "/").code == "template_unreadable"
    assert failure({}, "../evil").code == "template_unreadable"


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "huge.jinja").write_bytes(b"x" * 1_000_001)
    assert failure({}, str(tmp_path / "huge.jinja")).code == "template_unreadable"


def test_marks_that_the_model_does_not_know_are_told() -> None:
    formats = ChatFormats({"default": "D"}, lambda _text: False)
    (note,) = formats.chosen(SamplingParams(template="chatml")).notes
    assert "<|im_start|> <|im_end|>" in note
    assert formats.chosen(SamplingParams(template="alpaca")).notes == ()
    assert chosen({}, "chatml").notes == ()


def test_formats_are_guessed_by_all_of_their_marks() -> None:
    assert guess({"<|im_start|>", "<|im_end|>"}.__contains__) == "chatml"
    assert guess({"<|im_start|>"}.__contains__) == ""
    assert guess({"<|user|>", "<|assistant|>"}.__contains__) == ""
    assert guess({"<start_of_turn>", "<end_of_turn>"}.__contains__) == "gemma"


# --- variables --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "names"), [
    ("{{ messages }}{% if enable_thinking is defined and not enable_thinking %}x{% endif %}", ("enable_thinking",)),
    ("{% set effort = reasoning_effort | default('low') %}{{ effort }}", ("reasoning_effort",)),
    ("{% if keep is not defined %}{% set keep = true %}{% endif %}{{ keep }}", ("keep",)),
    ("{% set x = 1 %}{{ x }}{% for m in messages %}{{ loop.index }}{{ m.role }}{% endfor %}", ()),
    ("{% macro say(text, loud=volume) %}{{ text }}{{ loud }}{% endmacro %}{{ say(bos_token) }}", ("volume",)),
    ("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", ()),
    ("{% set ns = namespace(a=1) %}{% set ns.a = b %}{{ ns.a }}{{ raise_exception('x') }}", ("b",)),
    ("{{ 'A' * 10**10 }}{{ x }}", ("x",)), ("{% if %}", ()), ("{{ " + "(" * 5000, ()), ("x" * 1_000_001, ()),
])  # fmt: skip
def test_the_variables_of_a_template_are_found_without_running_it(source: str, names: tuple[str, ...]) -> None:
    assert variables_of(source) == names


def test_ours_read_no_variables() -> None:
    assert [variables_of(built_in(name)) for name in built_in_names()] == [()] * len(built_in_names())


def test_values_are_json_or_text() -> None:
    written = ("a=false", "b=high", "c=[1, 2]", 'd={"e": null}', "f=", "g=a=b", " h =1", "i=NaN", 'j="3"')
    assert read_variables(written) == {
        "a": False, "b": "high", "c": [1, 2], "d": {"e": None}, "f": "", "g": "a=b", "h": 1, "i": "NaN", "j": "3",
    }  # fmt: skip


@pytest.mark.parametrize("written", [
    "a", "=1", "a b=1", "1a=1", "messages=[]", 'a="\\ud800"', "a=" + "[" * 100_000,
])  # fmt: skip
def test_what_is_no_variable_is_refused_in_words(written: str) -> None:
    with pytest.raises(BadSetting) as caught:
        SamplingParams(template_vars=(written,)).validated()
    assert caught.value.info.code == "bad_template_variable"


def test_a_variable_that_the_template_does_not_read_is_told() -> None:
    reads = {"default": "{{ enable_thinking }}"}
    assert chosen(reads, "", "enable_thinking=false") == chat_formats.ChatFormat(
        "default", "{{ enable_thinking }}", {"enable_thinking": False}
    )
    (note,) = chosen(reads, "", "thinking=false").notes
    assert "“thinking”" in note
    assert "enable_thinking" in note
