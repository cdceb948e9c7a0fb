"""Reasoning is told from the answer however the text is cut, and no mark is ever shown or lost."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.messages import Message, Role
from runtime.reasoning import JoinedText, Piece, ReasoningSplitter, joined, separated
from runtime.reasoning_marks import FAMILIES, Marks, families_of, opened_by

THINK = next(marks for marks in FAMILIES if marks.open == "<think>")
CHANNELS = next(marks for marks in FAMILIES if "analysis" in marks.open)


def split(pieces: Iterable[str], *families: Marks, inside: Marks | None = None) -> tuple[str, str]:
    """Returns reasoning and answer."""
    splitter = ReasoningSplitter(families or (THINK,), inside=inside)
    found = [piece for text in pieces for piece in splitter.feed(text)] + splitter.finish()
    return "".join(text for text, thought in found if thought), "".join(text for text, thought in found if not thought)


CASES = {
    "a closed block": ("<think>\nLet me see.\n</think>\n\nParis.", None, ("Let me see.", "Paris.")),
    "blanks before it": ("\n <think>Hm.</think>Paris.", None, ("Hm.", "Paris.")),
    "an empty block": ("<think>\n\n</think>\n\nParis.", None, ("", "Paris.")),
    "never closed": ("<think>\nLet me see.\n", None, ("Let me see.", "")),
    "nothing but the mark": ("<think>", None, ("", "")),
    "only closed": ("Let me see.\n</think>\n\nParis.", THINK, ("Let me see.", "Paris.")),
    "no reasoning at all": ("  Paris <b> is</b>\n", None, ("", "  Paris <b> is</b>\n")),
    "a mark in a line": ("Write <think> first.", None, ("", "Write <think> first.")),
    "a mark in code": ("See:\n```xml\n<think>\nx\n</think>\n```\nDone", None,
                       ("", "See:\n```xml\n<think>\nx\n</think>\n```\nDone")),
    "two blocks": ("<think>one</think>First.\n<think>two</think>Second.", None, ("onetwo", "First.\nSecond.")),
    "the beginning of a mark at the end": ("Paris.\n<thi", None, ("", "Paris.\n<thi")),
    "the beginning of an end": ("<think>Hm </thin", None, ("Hm </thin", "")),
    "line breaks within": ("<think>\na\n\nb\n\n</think>\n\nc\n\nd\n", None, ("a\n\nb", "c\n\nd\n")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_any_cutting_gives_the_same(name: str) -> None:
    text, inside, expected = CASES[name]
    assert split([text], inside=inside) == expected
    assert split(text, inside=inside) == expected
    for size in (2, 3, 5, 7):
        assert split([text[at : at + size] for at in range(0, len(text), size)], inside=inside) == expected


def test_channels_are_followed_and_their_names_are_never_shown() -> None:
    text = ("<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>final<|message|>Paris.")
    assert split(text, CHANNELS) == split([text], CHANNELS) == ("Think.", "Paris.")
    assert split("<|channel|>final<|message|>Paris.", CHANNELS) == ("", "Paris.")


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "thi", "\n", "a", "```", " ", "nk>"]), max_size=20))
def test_nothing_but_marks_and_line_breaks_is_lost_and_no_cut_matters(parts: list[str]) -> None:
    text = "".join(parts)
    reasoning, answer = split([text])
    assert split(parts) == split(text) == (reasoning, answer)

    def letters(given: str) -> str:
        return given.replace("<think>", "").replace("</think>", "").replace("\n", "").replace(" ", "")

    assert sorted(letters(reasoning + answer)) == sorted(letters(text)) or "<" in letters(text)


def test_text_is_held_back_only_while_it_may_become_a_mark() -> None:
    splitter = ReasoningSplitter((THINK,))
    assert splitter.feed("The <") == [Piece("The <", False)]  # no mark can begin within a line
    assert splitter.feed("b>\n<") == [Piece("b>\n", False)]
    assert splitter.feed("b") == [Piece("<b", False)]
    inside = ReasoningSplitter((THINK,), inside=THINK)
    assert inside.feed("So <") == [Piece("So ", True)]
    assert inside.feed("b>") == [Piece("<b>", True)]
    assert inside.feed("\n") == []
    assert inside.feed("x") == [Piece("\nx", True)]


def test_without_families_all_text_passes_at_once() -> None:
    assert ReasoningSplitter(()).feed("<think>") == [Piece("<think>", False)]


# --- which marks ------------------------------------------------------------------------------------------------


def no_token(_text: str) -> bool:
    return False


@pytest.mark.parametrize(("template", "opening"), [
    ("{{ '<think>\\n' }}", "<think>"), ("{{ content.split('</think>')[-1] }}", "<think>"), ("[THINK]", "[THINK]"),
    ("<seed:think>", "<seed:think>"), ("<|START_THINKING|>", "<|START_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>analysis<|message|>"),
    ("<|channel>thought\\n<channel|>", "<|channel>thought\n"), ("<|inner_prefix|>", "<|inner_prefix|>"),
    ("'<|begin|>assistant<|think|>'", "<|think|>"), ("[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:\n"),
])  # fmt: skip
def test_a_template_shows_which_marks_its_model_knows(template: str, opening: str) -> None:
    assert [marks.open for marks in families_of(template, no_token)] == [opening]


def test_a_vocabulary_shows_it_too_and_a_plain_model_knows_none() -> None:
    assert families_of("{{ messages }}", no_token) == ()
    assert families_of("{{ messages }}", lambda text: text in ("<think>", "</think>")) == (THINK,)


@pytest.mark.parametrize(("prompt", "inside"), [
    ("<|im_start|>assistant\n<think>\n", THINK), ("<|im_start|>assistant\n", None),
    ("assistant\n<think>\n\n</think>\n\n", None), ("assistant</think>", None), ("assistant<think></think>", None),
])  # fmt: skip
def test_a_prompt_shows_whether_it_opens_the_reasoning(prompt: str, inside: Marks | None) -> None:
    assert opened_by(prompt, (THINK,)) is inside


# --- both in one text ---------------------------------------------------------------------------------------------


@given(st.text(alphabet="ab<>/\n", max_size=8), st.text(alphabet="ab<>/\n", max_size=8))
def test_what_is_joined_can_be_separated_again(reasoning: str, content: str) -> None:
    message = Message(Role.ASSISTANT, content, reasoning)
    assert separated(Message(Role.ASSISTANT, joined(message))) == message


def test_a_text_is_joined_as_it_comes_and_goes_on_where_it_was_cut() -> None:
    writer = JoinedText()
    text = writer.feed("Hm", reasoning=True) + writer.feed("m.", reasoning=True)
    assert text == "<think>\nHmm."
    later = JoinedText(text)
    text += later.feed(" So:", reasoning=True) + later.feed("Paris", reasoning=False) + later.feed(".", reasoning=False)
    assert separated(Message(Role.ASSISTANT, text)) == Message(Role.ASSISTANT, "Paris.", "Hmm. So:")
    plain = JoinedText()
    assert plain.feed("Paris.", reasoning=False) == "Paris."


def test_what_a_person_writes_is_never_taken_for_reasoning() -> None:
    typed = Message(Role.USER, "<think>\nHm.\n</think>\n\nParis.")
    assert separated(typed) == typed


def test_the_table_names_no_marks_twice() -> None:
    assert len({(marks.open, marks.evidence) for marks in FAMILIES}) == len(FAMILIES)
