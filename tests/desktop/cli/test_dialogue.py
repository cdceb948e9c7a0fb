"""A conversation: what is kept when an answer ends, stops, fails or is taken back."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from desktop.cli.dialogue import Dialogue
from fake_engine import ENDLESS, FakeEngine
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.params import SamplingParams
from runtime.protocol import GenerationEvent, GenerationRequest


def _dialogue(*answers: str | UserError, system: str = "") -> Dialogue:
    return Dialogue(FakeEngine(list(answers)), sampling=SamplingParams(), system=system)


def _contents(dialogue: Dialogue) -> list[str]:
    return [message.content for message in dialogue.messages]


def test_an_answered_message_is_part_of_the_next_request():
    dialogue = _dialogue("one", "two", system="Be brief.")
    list(dialogue.ask("first", StopFlag()))
    list(dialogue.ask("second", StopFlag()))
    assert _contents(dialogue) == ["Be brief.", "first", "one", "second", "two"]


def test_a_stopped_answer_is_kept_as_far_as_it_came():
    dialogue = _dialogue(ENDLESS)
    stop = StopFlag()
    for count, _event in enumerate(dialogue.ask("go", stop)):
        if count == 2:
            stop.set()
    assert _contents(dialogue) == ["go", "on and on and "]


def test_a_refused_message_is_given_back_and_not_kept():
    dialogue = _dialogue(UserError("too long"))
    with pytest.raises(UserError):
        list(dialogue.ask("a very long message", StopFlag()))
    assert _contents(dialogue) == []
    assert dialogue.unanswered == "a very long message"


def test_a_retry_replaces_the_answer():
    dialogue = _dialogue("one", "another")
    list(dialogue.ask("go", StopFlag()))
    list(dialogue.retry(StopFlag()))
    assert _contents(dialogue) == ["go", "another"]


def test_a_failed_retry_keeps_the_first_answer():
    dialogue = _dialogue("one", UserError("no"))
    list(dialogue.ask("go", StopFlag()))
    with pytest.raises(UserError):
        list(dialogue.retry(StopFlag()))
    assert _contents(dialogue) == ["go", "one"]


def test_undo_takes_the_last_exchange_back():
    dialogue = _dialogue("one", "two")
    list(dialogue.ask("first", StopFlag()))
    list(dialogue.ask("second", StopFlag()))
    assert dialogue.undo() == "second"
    assert _contents(dialogue) == ["first", "one"]
    dialogue.undo()
    assert dialogue.undo() == ""


class _Completing(FakeEngine):
    """Begins what it continues with the character that was cut."""

    def generate(self, request: GenerationRequest, stop: StopFlag) -> Iterator[GenerationEvent]:
        for number, event in enumerate(super().generate(request, stop)):
            first = number == 1 and request.continue_last
            yield msgspec.structs.replace(event, replaces=1) if first else event


def test_a_continued_answer_completes_the_character_it_was_cut_in():
    dialogue = Dialogue(_Completing(["a\ufffd", "🦙!"]), sampling=SamplingParams())
    list(dialogue.ask("go", StopFlag()))
    list(dialogue.go_on(StopFlag()))
    assert _contents(dialogue) == ["go", "a🦙!"]
