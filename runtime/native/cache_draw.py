"""Draws an answer's tokens from the scores that a cache keeps. Implements `runtime.evaluation.Draw`."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.evaluation import LAST
from runtime.logits import require_numbers
from runtime.native.decode import TokenCache
from runtime.native.sampling import TokenSampler
from runtime.protocol import TokenDrawn


class CacheDraw:
    """Draws from what a cache has read last. Owns the sampler."""

    def __init__(self, cache: TokenCache, sampler: TokenSampler) -> None:
        self._cache = cache
        self._sampler = sampler

    @property
    def drawn(self) -> TokenDrawn | None:
        return self._sampler.drawn

    def remember(self, ids: Sequence[int]) -> None:
        self._sampler.remember(ids)

    def check(self) -> None:
        require_numbers(self._cache.scores())

    def draw(self, row: int = LAST) -> int | None:
        return self._sampler.sample(self._cache.scores(row))

    def close(self) -> None:
        self._sampler.close()
