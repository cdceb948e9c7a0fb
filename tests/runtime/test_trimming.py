"""What may be left out of a conversation, and what pins hold in it."""

from __future__ import annotations

import pytest

from runtime.messages import Message, Role
from runtime.trimming import held_by_pins, leading, left_out, possible_cuts

LETTERS = {"s": Role.SYSTEM, "u": Role.USER, "a": Role.ASSISTANT, "t": Role.TOOL}


def turns(letters: str) -> list[Message]:
    return [Message(LETTERS[letter], f"{letter}{at}") for at, letter in enumerate(letters)]


def test_a_conversation_is_cut_at_messages_of_the_person() -> None:
    assert possible_cuts(turns("suauau")) == [0, 1, 3, 5]
    assert possible_cuts(turns("uaua")) == [0, 2]
    assert possible_cuts([]) == [0]


@pytest.mark.parametrize(
    ("letters", "pinned", "held"),
    [
        ("suauau", {1}, {1, 2}),  # a question brings its answer along
        ("suauau", {2}, {1, 2}),  # and an answer its question
        ("suatau", {3}, {1, 2, 3, 4}),  # and what a tool said between
        ("suauau", {5}, {5}),
        ("auau", {0}, {0}),  # what was said before the first question stands alone
        ("suau", {0}, set()),  # a system prompt stays anyway
        ("suau", set(), set()),
    ],
)
def test_a_pin_holds_its_whole_exchange(letters: str, pinned: set[int], held: set[int]) -> None:
    assert held_by_pins(turns(letters), pinned) == held


def test_what_is_held_stays_before_the_cut_and_turns_still_alternate() -> None:
    conversation = turns("suauauau")
    held = held_by_pins(conversation, {4})
    gone = left_out(conversation, 7, held)
    assert gone == (1, 2, 5, 6)
    kept = "".join(turn.content[0] for at, turn in enumerate(conversation) if at not in gone)
    assert kept == "suau"


def test_only_what_stands_together_at_the_beginning_stays_when_the_context_rolls() -> None:
    conversation = turns("suauauau")
    held = held_by_pins(conversation, {1, 5})
    assert leading(conversation, range(8), held) == (0, 1, 2)
    assert leading(conversation, [0, 1, 2, 5, 6, 7], held) == (0, 1, 2, 5, 6)
    assert leading(conversation, [3, 4, 5, 6], held) == ()
