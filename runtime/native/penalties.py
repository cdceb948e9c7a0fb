"""Lowers the scores of tokens that were used lately. Knows token ids only; control tokens are kept from it."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np

from runtime.native.candidates import Scores


class Penalties:
    """The repeat, frequency and presence penalties over the last `window` tokens.

        x := x / repeat where x > 0, else x * repeat        (Keskar et al. 2019, and the usual repair for x < 0)
        x := x - (count * frequency + presence)
    """

    def __init__(self, *, window: int, repeat: float, frequency: float, presence: float) -> None:
        self._recent = deque[int](maxlen=window)
        self._counts = Counter[int]()
        self._repeat = np.float32(repeat)
        self._frequency, self._presence = np.float32(frequency), np.float32(presence)

    def add(self, token: int) -> None:
        """Takes note of a token that was said."""
        if len(self._recent) == self._recent.maxlen:
            self._counts[self._recent[0]] -= 1
        self._recent.append(token)
        self._counts[token] += 1

    def apply(self, scores: Scores) -> None:
        """Changes the scores (V,) in place."""
        self._counts = +self._counts
        if not self._counts:
            return
        ids = np.fromiter(self._counts.keys(), np.intp, len(self._counts))
        counts = np.fromiter(self._counts.values(), np.float32, len(self._counts))
        x = scores[ids]
        x = np.where(x <= 0, x * self._repeat, x / self._repeat)
        scores[ids] = x - (counts * self._frequency + self._presence)
