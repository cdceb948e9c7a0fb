"""An engine that says what it is told to, for tests of what stands around an engine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runtime.engine import SAMPLING_DEFAULTS, StopFlag
from runtime.errors import UserError
from runtime.messages import Message
from runtime.params import SamplingParams
from runtime.protocol import (
    ContextMeasured,
    ContextTrimmed,
    EngineInfo,
    Finished,
    FinishReason,
    GenerationEvent,
    GenerationRequest,
    PromptProgress,
    ReplayEvent,
    StateLoaded,
    StateSaved,
    TextDelta,
    Usage,
)
from runtime.reading import Embedded, EmbedRequest, ReadingStopped, ReadProgress, Scored
from runtime.receipt import BadReceipt, Receipt

ENDLESS = "endless"
"""The answer that goes on until it is stopped."""


@dataclass
class FakeEngine:
    """Gives `answers` one after the other, then echoes the last message. An answer may be an error, which is raised."""

    answers: list[str | UserError] = field(default_factory=list)
    thoughts: str = ""  # what it thinks before each answer
    drops: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    requests: list[GenerationRequest] = field(default_factory=list)
    closed: bool = False

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(engine="fake", name="Fake model", context_length=4096, threads=1, has_template=True)

    def generate(self, request: GenerationRequest, stop: StopFlag) -> Iterator[GenerationEvent]:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else self._echo(request)
        if isinstance(answer, UserError):
            raise answer
        if self.drops:
            yield ContextTrimmed(id=0, dropped=self.drops)
        yield PromptProgress(id=0, done=3, total=3)
        count, reason = 0, FinishReason.END
        for piece in self._pieces(self.thoughts) if self.thoughts else ():
            count += 1
            yield TextDelta(id=0, text=piece, n_tokens=count, reasoning=True)
        thought = count
        for piece in self._pieces(answer):
            if stop.is_set():
                reason = FinishReason.STOPPED
                break
            count += 1
            yield TextDelta(id=0, text=piece, n_tokens=count)
        usage = Usage(
            prompt_tokens=3, evaluated_tokens=3, generated_tokens=count, reasoning_tokens=thought,
            prompt_seconds=0.1, generation_seconds=0.5,
            context_used=3 + count, context_length=4096,
        )  # fmt: skip
        seed = request.sampling.seed if request.sampling.seed >= 0 else 7
        yield Finished(id=0, reason=reason, usage=usage, seed=seed, notes=self.notes)

    @staticmethod
    def _echo(request: GenerationRequest) -> str:
        said = request.prompt if request.prompt is not None else request.messages[-1].content
        return f"echo {said}"

    @staticmethod
    def _pieces(answer: str) -> Iterator[str]:
        if answer == ENDLESS:
            while True:
                yield "on and "
                time.sleep(0.01)
        words = answer.split(" ")
        yield from (word + " " for word in words[:-1])
        if words[-1]:
            yield words[-1]

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        return [ord(character) for character in text]

    def begin_marks(self) -> list[int]:
        return [1]

    def pieces(self, ids: list[int]) -> list[str]:
        return [chr(token) for token in ids]

    def decode(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        return "".join(map(chr, ids)).encode()

    def count(self, messages: tuple[Message, ...], sampling: SamplingParams = SAMPLING_DEFAULTS) -> int:
        return sum(len(message.content) for message in messages)

    def measure(self, request: GenerationRequest) -> ContextMeasured:
        tokens = tuple(len(message.content) for message in request.messages)
        return ContextMeasured(
            id=0, tokens=tokens, reused=(0,) * len(tokens), marks=4, total=sum(tokens) + 4, reserve=1024,
            context_length=4096, dropped=self.drops, held=request.pinned,
        )  # fmt: skip

    def score(self, text: str, stop: StopFlag) -> Iterator[ReadProgress | Scored]:
        ids = tuple(self.tokenize(text))
        yield ReadProgress(done=len(ids), total=len(ids))
        if stop.is_set():
            raise ReadingStopped
        yield Scored(ids=ids, logprobs=(-1.0,) * len(ids), begin_mark=True, windows=1, stride=2048)

    def embed(self, request: EmbedRequest, stop: StopFlag) -> Iterator[ReadProgress | Embedded]:
        lengths = tuple(map(len, request.texts))
        yield ReadProgress(done=0, total=sum(lengths))
        if stop.is_set():
            raise ReadingStopped
        yield Embedded(vectors=tuple((0.6, 0.8) for _text in lengths), tokens=lengths, pooling="mean")

    def save_state(self, path: Path) -> StateSaved:
        path.write_text(str(len(self.requests)))
        return StateSaved(id=0, tokens=len(self.requests), size_bytes=path.stat().st_size)

    def load_state(self, path: Path) -> StateLoaded:
        if not path.exists():
            return StateLoaded(id=0, tokens=0, note="There is none.")
        return StateLoaded(id=0, tokens=int(path.read_text()))

    def replay(self, receipt: Receipt, stop: StopFlag, *, anyway: bool = False) -> Iterator[ReplayEvent]:
        raise BadReceipt("form")

    def close(self) -> None:
        self.closed = True
