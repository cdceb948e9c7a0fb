"""A conversation with one engine: what was said, and how it goes on. Knows no terminal."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from runtime.engine import Engine, StopFlag
from runtime.messages import Message, Role
from runtime.params import SamplingParams
from runtime.protocol import Finished, GenerationEvent, GenerationRequest, TextDelta


class Dialogue:
    """Keeps the messages that were answered. A message without an answer is given back in `unanswered`, never lost."""

    def __init__(
        self, engine: Engine, *, sampling: SamplingParams, system: str = "", alternatives: int = 0,
        receipts: bool = False,
    ) -> None:  # fmt: skip
        self.engine = engine
        self.sampling = sampling
        self.system = system
        self.alternatives = alternatives
        self.receipts = receipts
        self.turns: list[Message] = []
        self.pinned: set[int] = set()  # places in `turns` of what is never left out of a prompt
        self.unanswered = ""
        self.last: Finished | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The system prompt, where there is one, and all turns."""
        system = (Message(Role.SYSTEM, self.system),) if self.system.strip() else ()
        return (*system, *self.turns)

    @property
    def question(self) -> GenerationRequest:
        """The conversation as it would be read if nothing more were said."""
        return self._request(self.messages)

    def _request(self, messages: tuple[Message, ...], *, continue_last: bool = False) -> GenerationRequest:
        before = len(self.messages) - len(self.turns)
        return GenerationRequest(
            messages=messages, pinned=tuple(before + at for at in sorted(self.pinned)), continue_last=continue_last,
            sampling=self.sampling, alternatives=self.alternatives, receipt=self.receipts,
        )  # fmt: skip

    def ask(self, text: str, stop: StopFlag) -> Iterator[GenerationEvent]:
        """Yields the answer to `text`. Partial answers are kept; a message that got none is taken back.

        Raises `UserError` where the engine cannot answer.
        """
        self.unanswered = text
        answer = _Written()
        question = Message(Role.USER, text)
        try:
            yield from self._events(self._request((*self.messages, question)), stop, answer)
        finally:
            if answer.message.content or answer.message.reasoning:
                self.turns += [question, answer.message]
                self.unanswered = ""

    def go_on(self, stop: StopFlag) -> Iterator[GenerationEvent]:
        """Yields more of the last answer, which was cut. Raises `UserError` where the engine cannot go on."""
        answer = _Written(self.turns[-1])
        request = msgspec.structs.replace(self._request(self.messages, continue_last=True), alternatives=0)
        try:
            yield from self._events(request, stop, answer)
        finally:
            self.turns[-1] = answer.message

    def _events(self, request: GenerationRequest, stop: StopFlag, answer: _Written) -> Iterator[GenerationEvent]:
        for event in self.engine.generate(request, stop):
            if isinstance(event, TextDelta):
                answer.add(event)
            elif isinstance(event, Finished):
                self.last = event
            yield event

    def retry(self, stop: StopFlag) -> Iterator[GenerationEvent]:
        """Yields another answer to the last question; the first one stays where no other comes."""
        before, pinned = self.turns[-2:], set(self.pinned)
        question = self.undo()
        try:
            yield from self.ask(question, stop)
        finally:
            if self.unanswered:
                self.turns += before
                self.unanswered = ""
            self.pinned = pinned

    def undo(self) -> str:
        """Takes the last exchange back and returns its question; the empty text where there is none."""
        if not self.turns:
            return ""
        question, _answer = self.turns[-2:]
        del self.turns[-2:]
        self.pinned &= set(range(len(self.turns)))
        return question.content

    def clear(self) -> None:
        """Forgets all turns; the system prompt stays."""
        self.turns.clear()
        self.pinned.clear()
        self.unanswered = ""


class _Written:
    """An answer as it comes, its reasoning apart."""

    def __init__(self, before: Message | None = None) -> None:
        self._texts = {False: before.content, True: before.reasoning} if before else {False: "", True: ""}

    def add(self, event: TextDelta) -> None:
        text = self._texts[event.reasoning]
        self._texts[event.reasoning] = text[: len(text) - event.replaces] + event.text

    @property
    def message(self) -> Message:
        return Message(Role.ASSISTANT, self._texts[False], self._texts[True])
