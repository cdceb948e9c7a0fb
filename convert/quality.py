"""How far one model's predictions lie from another's, over a text. Works on logits; knows no model and no file.

For every scored position, with the reference's probabilities p and the candidate's q of the next token:
KL divergence `sum p ln(p / q)` in nats; the change of the true token's probability; whether both find the same token
likeliest. Perplexity is e to the mean of -ln of the true token's probability. Source: the definitions of llama.cpp's
perplexity tool (`--kl-divergence`), which these figures are compared with.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

WORST = 5


class Position(NamedTuple):
    """A place in the text: the id foretold there, and where it stands."""

    at: int
    target: int


class WorstPosition(msgspec.Struct, frozen=True, kw_only=True):
    """One of the places where the candidate strays most."""

    position: int
    kl: float
    before: str = ""  # the text that leads there
    token: str = ""  # what the text goes on with
    reference: str = ""  # what the reference would go on with
    candidate: str = ""


class Perplexity(msgspec.Struct, frozen=True, kw_only=True):
    """Of both models on the same positions; `ratio` above 1 means that the candidate is worse."""

    reference: float
    candidate: float
    ratio: float


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Of the candidate from the reference, in nats."""

    mean: float
    median: float
    p99: float
    max: float


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison found. Shares are fractions of 1."""

    tokens: int
    kl: Divergence
    top1_agreement: float
    perplexity: Perplexity
    probability_rms: float  # root of the mean square of the change of the true token's probability
    worst: tuple[WorstPosition, ...] = ()


class Worst(NamedTuple):
    """A position among the worst, with the likeliest token of both models."""

    kl: float
    position: Position
    reference: int
    candidate: int


class Comparison:
    """Gathers the figures piece by piece; holds five numbers a position, never logits."""

    def __init__(self) -> None:
        self._kl: list[NDArray[np.float64]] = []
        self._reference: list[NDArray[np.float64]] = []  # log-probabilities of the true tokens
        self._candidate: list[NDArray[np.float64]] = []
        self._same: list[NDArray[np.bool_]] = []
        self.worst: list[Worst] = []

    def add(
        self, reference: NDArray[np.float32], candidate: NDArray[np.float32], positions: Sequence[Position]
    ) -> None:
        """Takes both models' logits (n, V) at n positions."""
        targets = np.array([position.target for position in positions])
        p, q = _log_softmax(reference), _log_softmax(candidate)
        kl = _divergence(p, q)
        rows = np.arange(len(targets))
        self._kl.append(kl)
        self._reference.append(p[rows, targets].astype(np.float64))
        self._candidate.append(q[rows, targets].astype(np.float64))
        best = p.argmax(axis=1), q.argmax(axis=1)
        self._same.append(best[0] == best[1])
        found = (
            Worst(float(each), position, int(ours), int(theirs))
            for each, position, ours, theirs in zip(kl, positions, *best, strict=True)
        )
        self.worst = heapq.nlargest(WORST, [*self.worst, *found], key=lambda one: one.kl)

    def __len__(self) -> int:
        return sum(map(len, self._kl))

    def quality(self) -> Quality:
        """Returns the figures. Asserts that there is at least one position."""
        assert len(self)
        kl, reference, candidate = map(np.concatenate, (self._kl, self._reference, self._candidate))
        change = np.exp(candidate) - np.exp(reference)
        ours, theirs = _perplexity(reference), _perplexity(candidate)
        return Quality(
            tokens=len(kl),
            kl=_spread(kl),
            top1_agreement=float(np.concatenate(self._same).mean()),
            perplexity=Perplexity(reference=ours, candidate=theirs, ratio=theirs / ours),
            probability_rms=float(np.sqrt((change**2).mean())),
        )


def _spread(kl: NDArray[np.float64]) -> Divergence:
    return Divergence(
        mean=float(kl.mean()), median=_quantile(kl, 0.5), p99=_quantile(kl, 0.99), max=float(kl.max())
    )


def _quantile(values: NDArray[np.float64], share: float) -> float:
    """Returns a quantile between neighbours, also where values are infinite."""
    at = share * (len(values) - 1)
    low, high = np.partition(values, [math.floor(at), math.ceil(at)])[[math.floor(at), math.ceil(at)]]
    return float(low if low == high else low + (high - low) * (at - math.floor(at)))


def _perplexity(log_probabilities: NDArray[np.float64]) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(-log_probabilities.mean()))


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns log-probabilities (n, V) of logits (n, V)."""
    scaled = logits - logits.max(axis=1, keepdims=True)
    sums = np.exp(scaled).sum(axis=1, dtype=np.float64, keepdims=True)
    return np.asarray(scaled - np.log(sums).astype(np.float32))


def _divergence(p: NDArray[np.float32], q: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns KL(p || q) for log-probabilities (n, V); never below 0, which rounding alone could bring about."""
    chance = np.exp(p)
    with np.errstate(invalid="ignore"):  # minus infinity from minus infinity: impossible in both
        terms = np.where(chance > 0, chance * (p - q), 0)
    return np.asarray(np.maximum(terms.sum(axis=1, dtype=np.float64), 0.0))
