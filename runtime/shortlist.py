"""Tells whether a few allowed candidates are enough to know what the filters leave of all allowed ones.

To ask a grammar about a whole vocabulary can take long, about a few candidates it does not; and the filters keep few.
Knows no sampler and no grammar.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from runtime.params import SamplingParams

SIZES = (256, 4096)  # how many of the best candidates are asked about, one after the other


class Shortlist:
    """What is known of the filters of one answer."""

    def __init__(self, params: SamplingParams) -> None:
        self._params = params
        self.limit = 1 if params.greedy else params.top_k
        """How many allowed candidates are enough, whatever their scores; 0 for no such number."""
        self.usable = params.greedy or (params.mirostat == "0" and params.top_n_sigma <= 0)

    def settles(self, found: NDArray[np.float32], floor: float, *, unseen: int) -> bool:
        """Whether the filters keep the same of the candidates with scores `found`, whatever the `unseen` ones are.

        The unseen ones' scores are at most `floor`.
        """
        if self.limit and len(found) >= self.limit:
            return True
        if self._params.greedy or self._params.typical_p < 1 or not len(found):
            return False
        weights = np.exp(np.sort(found.astype(np.float64))[::-1] - float(found.max()))
        unseen_weight = math.exp(floor - float(found.max()))
        if self.limit:
            unseen = min(unseen, self.limit - len(found))
        if self._params.top_p < 1:
            return self._top_p_settles(np.cumsum(weights), unseen * unseen_weight)
        return unseen_weight < self._params.min_p

    def _top_p_settles(self, sums: NDArray[np.float64], unseen: float) -> bool:
        """Whether top-p cuts at the same place for any weight of the unseen candidates up to `unseen`."""
        cut = int(np.searchsorted(sums, self._params.top_p * sums[-1]))
        return bool(cut < len(sums) and sums[cut] >= self._params.top_p * (sums[-1] + unseen))
