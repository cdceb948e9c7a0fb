"""Finds out how likely a model thinks a text is: the log-probability of each token given what stands before it.

A text longer than the context is read in windows. The first fills the context; each later one begins half a context
before its first new token and scores only what is new, so that no token is judged with less than half a context before
it, at the price of reading a long text about twice. Knows no chat and keeps no cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.llama.batch import Batch
from runtime.llama.model import LlamaModel
from runtime.logits import InvalidNumbers
from runtime.reading import NothingToScore, ReadProgress, Scored

Logits = NDArray[np.float32]



@dataclass(frozen=True, slots=True)
class Window:
    """Reads ids[start:end], and scores the tokens that follow it from ids[first] to ids[end]."""

    start: int
    end: int
    first: int


def windows_of(n_ids: int, *, context_length: int, begin_mark: bool) -> list[Window]:
    """Returns the windows in which a text is read; a begin mark stands before each and takes one place of it."""
    room, overlap, last = context_length - begin_mark, context_length // 2, n_ids - 1  # the last is only foretold
    start, first = 0, 0 if begin_mark else 1
    found = []
    while first < n_ids:
        found.append(Window(start, min(start + room, last), first))
        first = found[-1].end + 1
        start = first - overlap
    return found


def score(model: LlamaModel, text: str) -> Iterator[ReadProgress | Scored]:
    """Yields progress, and `Scored` last; the model's memory is empty before and after.

    Raises `NothingToScore`, `ReadingStopped` when the flag that the model watches is set, `ReadingFailed` and
    `InvalidNumbers`.
    """
    head = model.vocabulary.tokenize("", add_bos=True)
    ids = model.vocabulary.tokenize(text)
    windows = windows_of(len(ids), context_length=model.context_length, begin_mark=bool(head))
    if not windows:
        raise NothingToScore
    reader = Reader(model)
    total = sum(len(head) + window.end - window.start for window in windows)
    done, logprobs = 0, list[float]()
    yield ReadProgress(done=0, total=total)
    for window in windows:
        tokens = [*head, *ids[window.start : window.end]]
        wanted = ids[window.first : window.end + 1]
        for read, found in reader.read(tokens, wanted):
            done += read
            logprobs += found
            yield ReadProgress(done=done, total=total)
    yield Scored(
        ids=tuple(ids[windows[0].first :]), logprobs=tuple(logprobs), begin_mark=bool(head),
        windows=len(windows), stride=model.context_length // 2,
    )  # fmt: skip


class Reader:
    """Evaluates token sequences from an empty memory, in pieces whose logits fit into a bounded room."""

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self._n_vocab = model.vocabulary.size
        self._step = min(model.micro_batch, model.logit_rows)

    def read(self, tokens: Sequence[int], targets: Sequence[int]) -> Iterator[tuple[int, list[float]]]:
        """Yields (tokens read, log-probabilities) for each piece; `targets` follow the last tokens, one each."""
        done = 0
        for read, logits in self.rows(tokens, len(tokens) - len(targets)):
            due = targets[done : done + len(logits)]
            done += len(logits)
            yield read, log_probabilities(logits, due) if len(due) else []

    def rows(self, tokens: Sequence[int], first: int, *, at_most: int = 0) -> Iterator[tuple[int, Logits]]:
        """Yields (tokens read, logits (n, V) at those from `first` on) for each piece; valid until the next one.

        `at_most` limits the size of a piece further.
        """
        library, context = self._model.library, self._model.context
        library.llama_memory_clear(library.llama_get_memory(context), False)
        step = min(self._step, at_most) if at_most else self._step
        with Batch(library, step) as batch:
            for start in range(0, len(tokens), step):
                piece = tokens[start : start + step]
                batch.clear()
                for position, token in enumerate(piece, start):
                    batch.add(token, position, wanted=position >= first)
                batch.evaluate(context)
                yield len(piece), self._logits(min(max(start + len(piece) - first, 0), len(piece)))

    def _logits(self, count: int) -> Logits:
        if not count:
            return np.empty((0, self._n_vocab), np.float32)
        pointer = self._model.library.llama_get_logits(self._model.context)
        return np.ctypeslib.as_array(pointer, (count, self._n_vocab))


def log_probabilities(logits: Logits, targets: Sequence[int]) -> list[float]:
    """Returns, for each row of logits (T, V), the natural log of its target's probability. Raises `InvalidNumbers`."""
    highest = logits.max(axis=1, keepdims=True)  # NaN where any is NaN
    if not np.isfinite(highest).all():
        raise InvalidNumbers
    scaled = logits - highest
    chosen = np.take_along_axis(scaled, np.asarray(targets)[:, None], axis=1)[:, 0]
    sums = np.exp(scaled, out=scaled).sum(axis=1, dtype=np.float64)
    return [float(value) for value in chosen - np.log(sums)]
