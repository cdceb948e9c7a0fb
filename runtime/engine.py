"""What every engine can do. Knows no particular engine; the process around one is in `worker.py`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from runtime.inspection import Inspection, InspectRequest
from runtime.messages import Message
from runtime.params import SamplingParams
from runtime.protocol import (
    ContextMeasured,
    EngineInfo,
    GenerationEvent,
    GenerationRequest,
    ReplayEvent,
    StateLoaded,
    StateSaved,
)
from runtime.reading import Embedded, EmbedRequest, ReadProgress, Scored
from runtime.receipt import Receipt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAMPLING_DEFAULTS = SamplingParams()

LoadListener = Callable[[float], bool]
"""Called with the fraction loaded, 0 to 1; returning False ends the load."""


class StopFlag:
    """Says "stop" to a running evaluation, from any thread and to native code as well.

    The state is one byte in memory that C code can read without Python (`address`): 0 while running, 1 when set.
    """

    def __init__(self) -> None:
        self._byte = ctypes.create_string_buffer(2)

    @property
    def address(self) -> int:
        """Address of the byte, valid as long as this object lives."""
        return ctypes.addressof(self._byte)

    def set(self) -> None:
        self._byte[0] = b"\x01"

    def clear(self) -> None:
        self._byte[0] = b"\x00"

    def __bool__(self) -> bool:
        raise TypeError("a flag is always there; ask is_set()")  # “stop or StopFlag()” would lose a flag not yet set

    def is_set(self) -> bool:
        return self._byte[0] != b"\x00"


class Engine(Protocol):
    """One loaded model. Not thread-safe, except `tokenize`, `count` and `measure`, which need no evaluation."""

    @property
    def info(self) -> EngineInfo: ...

    def generate(self, request: GenerationRequest, stop: StopFlag) -> Iterator[GenerationEvent]:
        """Yields progress and text, and `Finished` last. Events carry id 0; the worker fills in the command's.

        Raises `UserError` where the request cannot be met; text yielded before stays valid.
        """
        ...

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Returns token ids of plain text, without BOS; `special` recognises control tokens written in it."""
        ...

    def pieces(self, ids: list[int]) -> list[str]:
        """Returns each token's own text, control tokens by their name; bytes that are no text as U+FFFD."""
        ...

    def decode(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        """Returns the bytes that the tokens spell; control tokens by their name with `special`, else nothing."""
        ...

    def count(self, messages: tuple[Message, ...], sampling: SamplingParams = SAMPLING_DEFAULTS) -> int:
        """Returns the length in tokens of the prompt that these messages make, the template's marks included.

        `sampling` names the template.
        """
        ...

    def measure(self, request: GenerationRequest) -> ContextMeasured:
        """Returns what a conversation would take of the context, and what would be left out of it.

        Nothing is evaluated, and what the next answer reads is not changed. Raises what a chat template raises.
        """
        ...

    def score(self, text: str, stop: StopFlag) -> Iterator[ReadProgress | Scored]:
        """Yields progress, and last the log-probability of each token of a plain text given those before it.

        Raises `UserError`: `NothingToScore`, `ReadingStopped` where `stop` was set.
        """
        ...

    def begin_marks(self) -> list[int]:
        """Returns the ids that the model wants before any text: one begin mark, or nothing."""
        ...

    def logits(self, ids: Sequence[int], stop: StopFlag, *, first: int, at_most: int) -> Iterator[NDArray[np.float32]]:
        """Evaluates tokens from an empty memory and yields the logits (n, V) at those from `first` on, in order.

        In pieces of at most `at_most` rows and what the engine has room for; each is valid until the next one. Raises
        `ReadingStopped` where `stop` was set, and `ReadingFailed`.
        """
        ...

    def embed(self, request: EmbedRequest, stop: StopFlag) -> Iterator[ReadProgress | Embedded]:
        """Yields progress, and last a vector for each text.

        Raises `UserError`: `NothingToEmbed`, `TextTooLong`, `ReadingStopped` where `stop` was set.
        """
        ...

    def save_state(self, path: Path) -> StateSaved:
        """Saves what the model has read, so that a chat need not be read again. Raises `UserError`: `StateNotSaved`."""
        ...

    def load_state(self, path: Path) -> StateLoaded:
        """Takes a saved state back. A file that is of no use here is refused with a note, and nothing else happens."""
        ...

    def replay(self, receipt: Receipt, stop: StopFlag, *, anyway: bool = False) -> Iterator[ReplayEvent]:
        """Makes an answer again, from an empty cache, and yields progress and last how it compares.

        `Replayed` comes also for an answer that differs. Raises `UserError`: `BadReceipt`, `ReplayRefused` where the
        conditions are others, unless `anyway`, and `ReadingStopped` where `stop` was set.
        """
        ...

    def close(self) -> None:
        """Frees the model. May be called twice."""
        ...


class Embedder(Protocol):
    """A loaded model that only makes vectors: also one that cannot write, such as BERT."""

    def embed(self, request: EmbedRequest, stop: StopFlag) -> Iterator[ReadProgress | Embedded]:
        """Does what `Engine.embed` does."""
        ...

    def close(self) -> None:
        """Frees the model. May be called twice."""
        ...


class Inspector(Protocol):
    """A loaded model that is looked into while it reads."""

    def inspect(self, request: InspectRequest, stop: StopFlag) -> Inspection:
        """Returns attention, probabilities and what each layer would say.

        Raises `UserError`: `NothingToInspect`, `TooLongToInspect`, `NoSuchPart`, `ReadingStopped`.
        """
        ...

    def close(self) -> None:
        """Frees the model. May be called twice."""
        ...


class Tokenizer(Protocol):
    """A model's vocabulary alone, without its weights. Safe to use from any thread."""

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Does what `Engine.tokenize` does."""
        ...

    def pieces(self, ids: list[int]) -> list[str]:
        """Does what `Engine.pieces` does."""
        ...

    def decode(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        """Returns the bytes that the tokens spell; control tokens by their name with `special`, else nothing."""
        ...

    def close(self) -> None:
        """Frees the vocabulary. May be called twice."""
        ...
