"""Follows the likeliest tokens through the samplers of one draw, to show what became of them. Knows no engine."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.protocol import Alternative, TokenDrawn

CONSTRAINT = "grammar"  # the stage's name, for a schema too
GREEDY = "greedy"


class Labels(Protocol):
    """What is asked of a vocabulary."""

    def label(self, token: int) -> str: ...


class DrawTrace:
    """The `count` tokens that the model itself, with scores (V,), finds likeliest, and the samplers that end them."""

    def __init__(self, logits: NDArray[np.float32], count: int) -> None:
        self._count = count
        self._before = _softmax(logits)
        chosen = np.argpartition(self._before, len(logits) - count)[len(logits) - count :]
        self._followed = {int(token) for token in chosen}
        self._removed_by: dict[int, str] = {}

    def note(self, stage: str, ids: NDArray[Any], logits: NDArray[np.float32]) -> None:
        """Takes note of the candidates (n,) that a sampler left; those with a score of minus infinity are out."""
        left_of_all = np.zeros(len(self._before), bool)
        left_of_all[ids[logits > -np.inf]] = True
        left = {token for token in self._followed if left_of_all[token]}
        self._removed_by |= dict.fromkeys(self._followed - left, stage)
        self._followed = left

    def result(self, token: int, ids: NDArray[Any], logits: NDArray[np.float32], labels: Labels) -> TokenDrawn:
        """Returns how `token` was drawn from the candidates (n,) that were left."""
        after = dict(zip(ids.tolist(), _softmax(logits).tolist(), strict=True))
        best = sorted(after, key=lambda each: -after[each])[: self._count]
        shown = sorted({*self._removed_by, *self._followed, *best, token}, key=lambda each: -self._before[each])
        listed = tuple(
            Alternative(
                token=each, text=labels.label(each), before=float(self._before[each]),
                after=after.get(each, 0.0), removed_by=self._removed_by.get(each, ""),
            )
            for each in shown
        )  # fmt: skip
        return TokenDrawn(id=0, token=token, text=labels.label(token), probability=after[token], alternatives=listed)


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns the probabilities (n,) of scores (n,), of which one at least is finite."""
    weights = np.exp(logits.astype(np.float64) - float(logits.max()))
    return np.asarray(weights / weights.sum())
