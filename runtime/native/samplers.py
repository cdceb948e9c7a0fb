"""The samplers that narrow the choice of the next token or change its odds: each is a function of a few lines.

Their results are llama.cpp's, candidate by candidate. A sampler changes a list of candidates in place and leaves at
least one. Knows no history, no text and no order of samplers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from runtime.native.candidates import Candidates, Indices, Scores, best_first, logarithms, running_sum
from runtime.native.generator import Generator

Sampler = Callable[[Candidates], None]


def top_n_sigma(n: float) -> Sampler:
    """Forbids tokens more than n standard deviations below the best (arXiv:2411.07641)."""

    def apply(c: Candidates) -> None:
        if c.size <= 1:
            return
        c.forbid(c.logits > -math.inf)  # what cannot come has no part in the mean
        count = np.float32(len(c))
        deviations = c.logits - running_sum(c.logits)[-1] / count
        sigma = np.sqrt(running_sum(deviations * deviations)[-1] / count)
        c.forbid(c.logits >= c.highest - np.float32(n) * sigma)

    return apply


def top_k(k: int) -> Sampler:
    """Keeps the k best."""
    return lambda c: c.keep_best(k)


def typical_p(p: float) -> Sampler:
    """Keeps the tokens whose surprise is nearest to the mean surprise, up to probability p (arXiv:2202.00666)."""

    def apply(c: Candidates) -> None:
        c.sort()
        probabilities = c.probabilities()
        possible = probabilities > 0
        if not possible.all():
            c.keep(possible.nonzero()[0])
            probabilities = probabilities[possible]
        surprise = -logarithms(probabilities)
        entropy = running_sum(probabilities * surprise)[-1]
        nearest = np.argsort(np.abs(surprise - entropy), kind="stable")
        reached = np.searchsorted(running_sum(probabilities[nearest]), np.float32(p), side="right")
        c.keep(nearest[: reached + 1], sorted=False)

    return apply


def top_p(p: float) -> Sampler:
    """Keeps the fewest best tokens that together reach probability p (arXiv:1904.09751)."""

    def apply(c: Candidates) -> None:
        probabilities = c.probabilities()
        for count in (256, 4096, len(c)):
            best = _best(c, count)
            reached = int(np.searchsorted(running_sum(probabilities[best]), np.float32(p)))
            if reached < len(best) or len(best) == len(c):
                break
        c.keep(best[: reached + 1], sorted=True)

    return apply


def _best(c: Candidates, count: int) -> Indices:
    if c.sorted:
        return np.arange(len(c))
    return best_first(c.logits, min(count, len(c)))


def min_p(p: float) -> Sampler:
    """Keeps tokens at least p times as likely as the best."""

    def apply(c: Candidates) -> None:
        c.keep((c.logits >= c.highest + np.float32(math.log(np.float32(p)))).nonzero()[0])

    return apply


def xtc(probability: float, threshold: float, generator: Generator) -> Sampler:
    """By chance, takes out all tokens above the threshold but the least likely of them ("exclude top choices")."""

    def apply(c: Candidates) -> None:
        if c.size < 2 or generator.single() > np.float32(probability):
            return
        c.sort()
        above = int(np.searchsorted(-c.probabilities(), -np.float32(threshold), side="right"))
        c.keep(slice(max(above - 1, 0), None))

    return apply


def temperature(degree: float) -> Sampler:
    """Divides the scores: above 1 flattens the odds, below 1 sharpens them."""

    def apply(c: Candidates) -> None:
        c.logits = c.logits / np.float32(degree)

    return apply


def dynamic_temperature(degree: float, reach: float, exponent: float) -> Sampler:
    """Moves the temperature up to `reach` both ways with the entropy of the choice (arXiv:2309.02772).

        T = T_min + (T_max - T_min) * (H / H_max) ^ exponent        H_max = ln n
    """
    low, high = max(np.float32(0), np.float32(degree) - np.float32(reach)), np.float32(degree) + np.float32(reach)

    def apply(c: Candidates) -> None:
        if c.size <= 1:
            return
        share = entropy_of(c) / -np.float32(math.log(np.float32(1) / np.float32(c.size)))
        degree = low + (high - low) * np.float32(math.pow(share, np.float32(exponent)))
        if degree <= 0:
            c.keep_best(1)
        else:
            c.logits = c.logits / degree

    return apply


def entropy_of(c: Candidates) -> np.float32:
    """Returns H = -sum p ln p of the candidates, which it sorts."""
    c.sort()
    probabilities = c.probabilities()
    possible: Scores = probabilities[probabilities > 0]
    return np.float32(running_sum(possible * -logarithms(possible))[-1])
