"""What is told of a context that was measured."""

from __future__ import annotations

import msgspec
import pytest

from desktop.chat.conversation import asked
from desktop.chat.ledger.entries import (
    Kind,
    Ledger,
    entry_sentence,
    ledger_of,
    missed_places,
    policy_sentences,
    reuse_sentence,
)
from desktop.chat.ledger.watch import with_draft
from desktop.store.records import MessageRecord, Receipt
from runtime.messages import Role
from runtime.protocol import ContextMeasured

ROLES = [Role.USER, Role.ASSISTANT]


def branch_of(*texts: str, pinned: tuple[int, ...] = ()) -> list[MessageRecord]:
    return [
        MessageRecord(id=f"m{at}", chat_id="c", parent_id=None, role=ROLES[at % 2], content=text, created=0.0,
                      model="Tiny" if at % 2 else "", pinned=at in pinned)
        for at, text in enumerate(texts)
    ]  # fmt: skip


def measured(**fields: object) -> ContextMeasured:
    usual = {"tokens": (4, 10, 20, 30), "reused": (4, 10, 5, 0), "marks": 6, "total": 70, "cached": 21,
             "reserve": 25, "context_length": 100}  # fmt: skip
    return ContextMeasured(id=1, **{**usual, **fields})  # type: ignore[arg-type]


def ledger(**fields: object) -> Ledger:
    branch = branch_of("What?", "That.", "Why?", pinned=(1,))
    return ledger_of(measured(**fields), asked("Be brief.", branch), branch, policy=str(fields.pop("p", "drop_turns")))


def test_the_sums_are_those_of_the_prompt_the_answers_share_and_the_rest() -> None:
    assert ledger().sums == (
        (Kind.SYSTEM, 4), (Kind.USER, 40), (Kind.ASSISTANT, 20), (Kind.MARKS, 6), (Kind.RESERVE, 25), (Kind.FREE, 5)
    )  # fmt: skip


def test_what_is_left_out_is_listed_and_takes_no_room() -> None:
    found = ledger(dropped=(1, 2), total=40)
    assert found.left_out == 2
    assert dict(found.sums)[Kind.USER] == 30
    assert [entry.standing for entry in found.entries] == ["", "left out", "left out", ""]


def test_pins_and_what_they_hold_are_told_apart() -> None:
    found = ledger(held=(1, 2), next=(3,))
    assert [entry.standing for entry in found.entries] == ["", "stays with a pinned message", "pinned", "goes next"]
    assert [entry.id for entry in found.entries] == ["", "m0", "m1", "m2"]
    assert "Pinned messages stay" in policy_sentences(found)


def test_a_pin_that_a_policy_cannot_honour_is_said() -> None:
    branch = branch_of("What?", "That.", pinned=(1,))
    found = ledger_of(
        measured(tokens=(1, 2), reused=(0, 0), held=(0, 1), loose=(0, 1)), asked("", branch), branch, policy="shift"
    )
    assert found.entries[1].standing == "pinned, but it may roll out"
    assert "roll out" in policy_sentences(found)


def test_what_is_being_written_is_an_entry_that_is_no_message_yet() -> None:
    branch = branch_of("What?")
    question = with_draft(asked("", branch), "And why?")
    found = ledger_of(
        measured(tokens=(3, 4), reused=(0, 0)), question, branch, policy="stop", drafted=True
    )
    assert [(entry.kind, entry.id) for entry in found.entries] == [(Kind.USER, "m0"), (Kind.DRAFT, "")]
    assert found.entries[1].standing == "not sent yet"
    assert with_draft(asked("", branch), "") == asked("", branch)


def test_what_is_written_behind_a_question_without_an_answer_becomes_part_of_it() -> None:
    branch = branch_of("What?")
    question = with_draft(asked("", branch), "And why?", joins=True)
    assert [message.content for message in question.messages] == ["What?\n\nAnd why?"]
    found = ledger_of(measured(tokens=(7,), reused=(3,)), question, branch, policy="stop", drafted=True)
    assert [(entry.kind, entry.id) for entry in found.entries] == [(Kind.DRAFT, "m0")]
    assert with_draft(asked("", branch_of("What?", "That.")), "Why?", joins=True).messages[2].content == "Why?"


def test_what_the_last_answer_was_written_without_is_shown() -> None:
    branch = branch_of("What?", "That.", "Why?", "Because.")
    branch[3] = msgspec.structs.replace(branch[3], receipt=Receipt(reason="end", left_out=((0, 2),)))
    assert missed_places(branch) == (0, 1)
    found = ledger_of(
        measured(tokens=(1, 1, 1, 1), reused=(0, 0, 0, 0)), asked("", branch), branch, policy="drop_turns"
    )
    assert [entry.standing for entry in found.entries] == ["missing in the last prompt"] * 2 + ["", ""]
    assert "The last answer was written without 2 messages." in policy_sentences(found)


@pytest.mark.parametrize("policy", ["drop_turns", "shift", "stop"])
def test_every_policy_is_explained(policy: str) -> None:
    branch = branch_of("What?")
    found = ledger_of(measured(tokens=(1,), reused=(0,)), asked("", branch), branch, policy=policy)
    assert policy_sentences(found).startswith("When it is full")


def test_reuse_is_said_in_words() -> None:
    assert reuse_sentence(ledger()) == "21 are read already; 49 will be read for the next answer."
    assert reuse_sentence(ledger(cached=0)) == "Nothing of it has been read yet."
    assert entry_sentence(ledger().entries[2]) == "Tiny · 20 tokens · 5 read already · pinned"
