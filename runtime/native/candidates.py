"""A list of tokens that may come next, with their scores, which samplers narrow and change. Knows no sampler.

Sums, quotients and exponentials are taken in the precision and the order in which llama.cpp takes them, so that a
token at the edge of a filter falls on the same side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]
Scores = NDArray[np.float32]

_WHOLE = 2048  # up to so many scores, sorting all of them is quicker than looking for the best first
_GROUPS = 512  # groups whose maxima bound the best scores from below


class Candidates:
    """Tokens `ids` (n,) and their scores `logits` (n,). `sorted` says that the best come first.

    `size` counts the tokens that a sampler left in the list with a score of minus infinity, too: they cannot be drawn,
    but a few samplers count the list.
    """

    def __init__(self, ids: NDArray[np.int32], logits: Scores) -> None:
        self.ids = ids
        self.logits = logits
        self.size = len(ids)
        self.sorted = False

    def __len__(self) -> int:
        return len(self.ids)

    def keep(self, chosen: Indices | slice, *, sorted: bool | None = None) -> None:
        """Leaves the candidates at these places, in this order; nothing else stays in the list."""
        self.ids, self.logits = self.ids[chosen], self.logits[chosen]
        self.size = len(self.ids)
        self.sorted = self.sorted if sorted is None else sorted

    def keep_best(self, count: int) -> None:
        """Leaves the `count` best, the best first; of equal ones those with the lower id."""
        count, size = min(count, self.size), self.size
        if self.sorted:
            self.keep(slice(count))
        else:
            self.keep(best_first(self.logits, count), sorted=True)
        self.size = min(count, size)

    def sort(self) -> None:
        """Puts the best first."""
        if not self.sorted:
            self.keep_best(self.size)

    def forbid(self, wanted: NDArray[np.bool_]) -> None:
        """Gives the candidates that are not `wanted` (n,) a score of minus infinity: they still count in `size`."""
        size = self.size
        self.keep(wanted.nonzero()[0])
        self.size = size

    def probabilities(self) -> Scores:
        """Returns the softmax (n,) of the scores: p_i = exp(x_i - max x) / sum_j exp(x_j - max x)."""
        weights = exponentials(self.logits, self.highest)
        shares: Scores = weights / running_sum(weights)[-1]
        return shares

    @property
    def highest(self) -> np.float32:
        return np.float32(self.logits[0] if self.sorted else self.logits.max())


def exponentials(logits: Scores, highest: np.float32) -> Scores:
    """Returns e^(x - highest) in f32, as exact as C's expf."""
    return np.exp((logits - highest).astype(np.float64)).astype(np.float32)


def logarithms(x: Scores) -> Scores:
    """Returns ln x in f32, as exact as C's logf."""
    return np.log(x.astype(np.float64)).astype(np.float32)


def running_sum(x: Scores) -> Scores:
    """Returns the sums of the first 1, 2, … n numbers, added one after the other in f32."""
    return np.add.accumulate(x, dtype=np.float32)


def best_first(logits: Scores, count: int) -> Indices:
    """Returns the places of the `count` best scores, the best first; of equal ones the first.

    With few of many, most scores are only compared with a bound: the `count`-th best of the maxima of many groups is
    reached by `count` scores at least.
    """
    if len(logits) <= _WHOLE or count > len(logits) // 8:
        return _order(logits)[:count]
    places = (logits >= _floor(logits, count)).nonzero()[0]
    return places[_order(logits[places])[:count]]


def _floor(logits: Scores, count: int) -> np.float32:
    groups = max(_GROUPS, 4 * count)
    groups = min(groups, len(logits))
    grid = logits[: len(logits) - len(logits) % groups].reshape(-1, groups)
    best = np.maximum.reduce(grid, axis=0)
    return np.float32(np.partition(best, groups - count)[groups - count])


def _order(logits: Scores) -> Indices:
    """Returns the places that sort the scores downwards; equal ones stay in order."""
    if len(logits) <= _WHOLE:
        return np.argsort(-logits, kind="stable")
    # numpy sorts integers many times faster than it sorts stably: the score's bits, which order like the score,
    # and below them the place.
    bits = (logits + np.float32(0)).view(np.int32)  # -0 becomes 0
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = (~rising).astype(np.int64) << 32 | np.arange(len(logits))
    keys.sort()
    return (keys & 0xFFFFFFFF).astype(np.intp)
