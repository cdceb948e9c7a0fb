"""What both engines do alike: tokens, scores of a text, and what is kept of a conversation. Evaluates nothing itself.

An engine brings a model, a cache, prompts, and a way to read texts; its answers are its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from runtime.answering import receipt_of
from runtime.conditions import Conditions
from runtime.engine import SAMPLING_DEFAULTS, StopFlag
from runtime.evaluation import Cache
from runtime.known_answers import Answer, KnownAnswers
from runtime.messages import Message
from runtime.params import SamplingParams
from runtime.prompt import Prompt
from runtime.protocol import ContextMeasured, EngineInfo, GenerationRequest, StateLoaded, StateSaved
from runtime.reading import ReadProgress, Scored
from runtime.receipt import Receipt
from runtime.saved_state import StateRefused
from runtime.source_errors import NoScoreWithoutSource, why_no_state

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from runtime.scoring import Reader
    from runtime.tokenizer import Tokenizer


class LoadedModel(Protocol):
    """What is asked of an engine's model."""

    @property
    def vocabulary(self) -> Tokenizer: ...

    @property
    def context_length(self) -> int: ...

    @property
    def reads_source(self) -> bool: ...


class Prompts(Protocol):
    """What is asked of an engine's prompts."""

    def count(self, messages: tuple[Message, ...], sampling: SamplingParams) -> int: ...

    def measure(self, request: GenerationRequest, reusable: Callable[[Sequence[int]], int]) -> ContextMeasured: ...


class BaseEngine(ABC):
    """Implements what `runtime.engine.Engine` asks besides answers, vectors and the end."""

    _model: LoadedModel
    _cache: Cache
    _prompts: Prompts
    _known: KnownAnswers
    _info: EngineInfo
    _conditions: Conditions

    @property
    def info(self) -> EngineInfo:
        return self._info

    @abstractmethod
    def _reader(self, stop: StopFlag) -> Reader:
        """Returns a way to read texts, which forgets what the cache held, until `stop` is set."""

    @abstractmethod
    def _write_state(self, path: Path) -> tuple[int, int]:
        """Returns how many tokens and bytes were written. Raises `StateNotSaved`."""

    @abstractmethod
    def _read_state(self, path: Path) -> tuple[Answer, ...]:
        """Fills the cache; returns the answers that were saved with it. Raises `StateRefused`."""

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        return self._model.vocabulary.tokenize(text, special=special)

    def pieces(self, ids: list[int]) -> list[str]:
        return [self._model.vocabulary.label(token) for token in ids]

    def decode(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        return self._model.vocabulary.decode(ids, special=special)

    def count(self, messages: tuple[Message, ...], sampling: SamplingParams = SAMPLING_DEFAULTS) -> int:
        return self._prompts.count(messages, sampling)

    def measure(self, request: GenerationRequest) -> ContextMeasured:
        return self._prompts.measure(request, self._cache.reusable)

    def begin_marks(self) -> list[int]:
        return self._model.vocabulary.tokenize("", add_bos=True)

    def score(self, text: str, stop: StopFlag) -> Iterator[ReadProgress | Scored]:
        from runtime import scoring  # brings numpy, which answers do without

        self._require_no_source()
        reader, vocabulary = self._reader(stop), self._model.vocabulary
        try:
            yield from scoring.score(text, reader, vocabulary, context_length=self._model.context_length)
        finally:
            self._cache.clear()  # it was used; the next answer reads its prompt anew

    def logits(self, ids: Sequence[int], stop: StopFlag, *, first: int, at_most: int) -> Iterator[NDArray[np.float32]]:
        self._require_no_source()
        reader = self._reader(stop)
        try:
            for _read, rows in reader.rows(ids, first, at_most=at_most):
                if len(rows):
                    yield rows
        finally:
            self._cache.clear()

    def save_state(self, path: Path) -> StateSaved:
        if self._model.reads_source:
            return StateSaved(id=0, tokens=0, note=why_no_state())
        if not len(self._cache):
            return StateSaved(id=0, tokens=0)
        tokens, size = self._write_state(path)
        return StateSaved(id=0, tokens=tokens, size_bytes=size)

    def load_state(self, path: Path) -> StateLoaded:
        if self._model.reads_source:
            return StateLoaded(id=0, tokens=0, note=why_no_state())
        try:
            answers = self._read_state(path)
        except StateRefused as refusal:
            return StateLoaded(id=0, tokens=0, note=str(refusal))
        self._known.remember_all(answers)
        return StateLoaded(id=0, tokens=len(self._cache))

    def _receipt(self, request: GenerationRequest, prompt: Prompt) -> Callable[..., Receipt] | None:
        """Returns what makes an answer's receipt at its end; None where there shall be or can be none."""
        if not request.receipt or request.beams.beams > 1:  # a replay draws one token after the other
            return None
        return receipt_of(request, prompt, self._info, self._conditions)

    def _check_receipt(self, receipt: Receipt, *, n_vocab: int) -> None:
        """Raises `BadReceipt` where no answer of this model can have left it."""
        source = self._model.context_length if self._model.reads_source else 0  # which lies outside the context
        receipt.check(n_vocab=n_vocab, context_length=self._model.context_length + source)

    def _require_no_source(self) -> None:
        """Raises `NoScoreWithoutSource` for an encoder-decoder; llama.cpp would end the process."""
        if self._model.reads_source:
            raise NoScoreWithoutSource
