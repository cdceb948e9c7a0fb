"""Opens engines on small self-made models, and collects what they say."""

from __future__ import annotations

from pathlib import Path

from runtime.engine import Engine, StopFlag
from runtime.engines import open_engine
from runtime.messages import Message, Role
from runtime.params import LoadParams, SamplingParams
from runtime.protocol import ContextTrimmed, Finished, GenerationEvent, GenerationRequest, PromptProgress, TextDelta

OPEN: list[Engine] = []  # what `load` opened; tests/conftest.py closes what a test leaves behind
GREEDY = SamplingParams(temperature=0.0, seed=1)
EXACT = {"kv_type_k": "f32", "kv_type_v": "f32", "flash_attention": "off"}  # what `load` needs for equal numbers
DEFAULTS: dict[str, object] = {"context_length": 512, "threads": 1, "dtype": "f32"}  # a test may add the engine


def collect(engine: Engine, request: GenerationRequest, stop: StopFlag | None = None) -> Answer:
    """Runs a request to its end."""
    return Answer(list(engine.generate(request, StopFlag() if stop is None else stop)))


def chat(*contents: str, system: str = "", **sampling: object) -> GenerationRequest:
    """Returns a greedy request whose messages alternate, the first one from the person."""
    roles = [Role.USER, Role.ASSISTANT]
    messages = tuple(Message(roles[at % 2], content) for at, content in enumerate(contents))
    head = (Message(Role.SYSTEM, system),) if system else ()
    params = SamplingParams(**{"temperature": 0.0, "seed": 1, "max_tokens": 64, **sampling})  # type: ignore[arg-type]
    return GenerationRequest(messages=head + messages, sampling=params)


def raw(prompt: str, **sampling: object) -> GenerationRequest:
    """Returns a greedy request for plain continuation."""
    params = SamplingParams(**{"temperature": 0.0, "seed": 1, "max_tokens": 64, **sampling})  # type: ignore[arg-type]
    return GenerationRequest(prompt=prompt, sampling=params)


def load(path: Path, **params: object) -> Engine:
    """Loads a model with a small context and one thread, since tests run beside each other; our own engine in f32."""
    settings = {**DEFAULTS, **params}
    engine = open_engine(path, LoadParams(**settings).validated())  # type: ignore[arg-type]
    OPEN.append(engine)
    return engine


class Answer:
    """The events of one answer, by kind."""

    def __init__(self, events: list[GenerationEvent]) -> None:
        self.events = events

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def deltas(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, TextDelta)]

    @property
    def progress(self) -> list[PromptProgress]:
        return [event for event in self.events if isinstance(event, PromptProgress)]

    @property
    def dropped(self) -> tuple[int, ...]:
        return next((event.dropped for event in self.events if isinstance(event, ContextTrimmed)), ())

    @property
    def end(self) -> Finished:
        last = self.events[-1]
        assert isinstance(last, Finished)
        return last
