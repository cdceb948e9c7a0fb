"""The last step: takes one of the candidates that are left, by chance or not. Knows no filters.

Every draw returns the place of the token among the candidates, which it may narrow; results are llama.cpp's.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from runtime.native.candidates import Candidates, Scores, exponentials, logarithms, running_sum
from runtime.native.generator import Generator

_MIROSTAT_M = 100  # candidates in Mirostat 1's estimate, as in its paper and in llama.cpp
_WIDTH, _PEAK, _SHARPNESS = np.float32(0.3), np.float32(5), np.float32(10)  # adaptive-p's constants in llama.cpp


class Draw(Protocol):
    """Takes a candidate. May keep what it learns from token to token."""

    def choose(self, c: Candidates) -> int:
        """Returns the place of the token taken in what is left of `c`, which holds at least one candidate."""
        ...


class Greedy:
    """Takes the best; of equal ones the first."""

    def choose(self, c: Candidates) -> int:
        best = int(np.argmax(c.logits))
        c.keep(slice(best, best + 1))
        return 0


class PlainDraw:
    """Takes a candidate with its probability: the first whose running sum reaches a uniform number."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def choose(self, c: Candidates) -> int:
        number = self._generator.double()  # one for each token, also where there is no choice
        sums = np.add.accumulate(exponentials(c.logits, c.highest), dtype=np.float64)
        return int(np.searchsorted(sums, sums[-1] * number))


class Mirostat1:
    """Steers the surprise of the text to `tau` through the size of a top-k (arXiv:2007.14966).

    The scores' fall is taken for Zipf's law with exponent s, and k follows from s and the surprise mu aimed at.
    """

    def __init__(self, generator: Generator, *, tau: float, eta: float, n_vocab: int) -> None:
        self._generator = generator
        self._aim = _Aim(tau, eta)
        self._n_vocab = n_vocab

    def choose(self, c: Candidates) -> int:
        c.sort()
        c.keep_best(self._count(c.probabilities()[:_MIROSTAT_M], most=len(c)))
        return self._aim.taken(c, self._generator)

    def _count(self, p: Scores, *, most: int) -> int:
        ranks = np.arange(1, len(p), dtype=np.float32)
        t = logarithms((ranks + 1) / ranks)
        with np.errstate(all="ignore"):  # one candidate, or all alike: no fall to measure
            b = logarithms(p[:-1] / p[1:])
            s = np.float32(running_sum(t * b)[-1] / running_sum(t * t)[-1]) if len(t) else np.float32(math.nan)
            excess = s - np.float32(1)
            spread = np.float32(1) - np.float32(np.power(float(self._n_vocab), -float(excess)))
            base = excess * np.float32(np.exp2(float(self._aim.mu))) / spread
            k = float(np.float32(np.power(float(base), float(np.float32(1) / s))))
        return 1 if math.isnan(k) else int(min(max(k, 1), most))  # k may be infinite


class Mirostat2:
    """Steers the surprise of the text to `tau`: drops tokens of more surprise than mu, and learns mu."""

    def __init__(self, generator: Generator, *, tau: float, eta: float) -> None:
        self._generator = generator
        self._aim = _Aim(tau, eta)

    def choose(self, c: Candidates) -> int:
        c.sort()
        with np.errstate(divide="ignore"):  # a probability of 0 is of infinite surprise
            surprise = -np.log2(c.probabilities().astype(np.float64)).astype(np.float32)
        few = surprise > self._aim.mu
        c.keep(slice(max(int(np.argmax(few)), 1) if few.any() else None))
        return self._aim.taken(c, self._generator)


class _Aim:
    """The surprise mu that Mirostat allows: begins at 2 tau and is corrected with each token."""

    def __init__(self, tau: float, eta: float) -> None:
        self.mu = np.float32(2) * np.float32(tau)
        self._tau, self._eta = np.float32(tau), np.float32(eta)

    def taken(self, c: Candidates, generator: Generator) -> int:
        p = c.probabilities()
        place = _discrete(p, generator, count=c.size)
        error = np.float32(-math.log2(p[place])) - self._tau
        self.mu = self.mu - self._eta * error
        return place


class AdaptiveP:
    """Favours tokens near a target probability, moved so that the running average of those taken meets it.

    The new score falls with the distance d of a probability from the target, in widths: 5 - 10 d² / (1 + d).
    """

    def __init__(self, generator: Generator, *, target: float, decay: float) -> None:
        self._generator = generator
        self._target = np.float32(min(target, 1))
        self._decay = np.float32(decay)
        self._weight = np.float32(1) / (np.float32(1) - self._decay)
        self._sum = self._target / (np.float32(1) - self._decay)

    def choose(self, c: Candidates) -> int:
        p = c.probabilities()
        target = min(max(np.float32(2) * self._target - self._sum / self._weight, np.float32(0)), np.float32(1))
        d = np.abs((p - target) * (np.float32(1) / _WIDTH))
        c.logits = np.where(c.logits > -math.inf, _PEAK - _SHARPNESS * d * d / (np.float32(1) + d), c.logits)
        place = _discrete(c.probabilities(), self._generator, count=c.size)
        self._sum = p[place] + self._decay * self._sum
        self._weight = np.float32(1) + self._decay * self._weight
        return place


def _discrete(p: Scores, generator: Generator, *, count: int) -> int:
    """Takes a place with probability p (n,), as C++'s discrete_distribution does, from `count` listed candidates."""
    if count < 2:
        return 0
    total = np.add.accumulate(p, dtype=np.float64)[-1]
    sums = np.add.accumulate(p / total)
    sums[-1] = 1.0
    return int(np.searchsorted(sums, generator.double()))
