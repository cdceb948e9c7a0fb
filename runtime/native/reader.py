"""Reads a text from an empty cache and hands out the scores at its tokens. Implements `runtime.scoring.Reader`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runtime.evaluation import Stopped
from runtime.native.candidates import Scores
from runtime.native.decode import TokenCache
from runtime.reading import ReadingStopped


class CacheReader:
    """Reads with the cache of an engine; what it held is forgotten."""

    def __init__(self, cache: TokenCache) -> None:
        self._cache = cache

    def rows(self, tokens: Sequence[int], first: int, *, at_most: int = 0) -> Iterator[tuple[int, Scores]]:
        """Yields (tokens read, scores (n, V) at those from `first` on) for each piece. Raises `ReadingStopped`."""
        self._cache.clear()
        try:
            yield from self._cache.rows(tokens, first, at_most=at_most)
        except Stopped as error:
            raise ReadingStopped from error
