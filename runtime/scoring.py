"""Finds out how likely a model thinks a text is: the log-probability of each token given what stands before it.

A text longer than the context is read in windows. The first fills the context; each later one begins half a context
before its first new token and scores only what is new, so that no token is judged with less than half a context before
it, at the price of reading a long text about twice. Knows no chat and keeps no cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.logits import InvalidNumbers
from runtime.reading import NothingToScore, ReadProgress, Scored

if TYPE_CHECKING:
    from runtime.tokenizer import Tokenizer

Logits = NDArray[np.float32]


class Reader(Protocol):
    """An engine's way to read a text from an empty memory."""

    def rows(self, tokens: Sequence[int], first: int, *, at_most: int = 0) -> Iterator[tuple[int, Logits]]:
        """Yields (tokens read, logits (n, V) at those from `first` on) for each piece; valid until the next one.

        `at_most` limits further how many tokens of a piece have logits. Raises `ReadingStopped` and `ReadingFailed`.
        """
        ...


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


def score(
    text: str, reader: Reader, vocabulary: Tokenizer, *, context_length: int
) -> Iterator[ReadProgress | Scored]:
    """Yields progress, and `Scored` last. Raises `NothingToScore`, `InvalidNumbers`, and what the reader raises."""
    head = vocabulary.tokenize("", add_bos=True)
    ids = vocabulary.tokenize(text)
    windows = windows_of(len(ids), context_length=context_length, begin_mark=bool(head))
    if not windows:
        raise NothingToScore
    total = sum(len(head) + window.end - window.start for window in windows)
    done, logprobs = 0, list[float]()
    yield ReadProgress(done=0, total=total)
    for window in windows:
        tokens = [*head, *ids[window.start : window.end]]
        wanted = ids[window.first : window.end + 1]
        for read, found in _read(reader, tokens, wanted):
            done += read
            logprobs += found
            yield ReadProgress(done=done, total=total)
    yield Scored(
        ids=tuple(ids[windows[0].first :]), logprobs=tuple(logprobs), begin_mark=bool(head),
        windows=len(windows), stride=context_length // 2,
    )  # fmt: skip


def _read(reader: Reader, tokens: Sequence[int], targets: Sequence[int]) -> Iterator[tuple[int, list[float]]]:
    """Yields (tokens read, log-probabilities) for each piece; `targets` follow the last tokens, one each."""
    done = 0
    for read, logits in reader.rows(tokens, len(tokens) - len(targets)):
        due = targets[done : done + len(logits)]
        done += len(logits)
        yield read, log_probabilities(logits, due) if len(due) else []


def log_probabilities(logits: Logits, targets: Sequence[int]) -> list[float]:
    """Returns, for each row of logits (T, V), the natural log of its target's probability. Raises `InvalidNumbers`."""
    highest = logits.max(axis=1, keepdims=True)  # NaN where any is NaN
    if not np.isfinite(highest).all():
        raise InvalidNumbers
    scaled = logits - highest
    chosen = np.take_along_axis(scaled, np.asarray(targets)[:, None], axis=1)[:, 0]
    sums = np.exp(scaled, out=scaled).sum(axis=1, dtype=np.float64)
    return [float(value) for value in chosen - np.log(sums)]
