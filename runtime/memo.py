"""Remembers the last results of a function whose results are asked for again. Knows nothing about them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Memo(Generic[_T]):
    """Results by their keys, the oldest forgotten first. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        """`most` bounds the sum of the sizes that `get` is told."""
        self._most, self._held = most, 0
        self._known: dict[Hashable, tuple[int, _T]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], _T], *, size: int) -> _T:
        """Returns the result under a key, made now where it is not known; one of more than a quarter is not kept."""
        with self._lock:
            if key in self._known:
                self._known[key] = found = self._known.pop(key)
                return found[1]
        made = make()
        if size * 4 <= self._most:
            self._keep(key, made, size)
        return made

    def _keep(self, key: Hashable, made: _T, size: int) -> None:
        with self._lock:
            before = self._known.pop(key, None)
            self._held += size - (before[0] if before is not None else 0)
            self._known[key] = (size, made)
            while self._held > self._most:
                oldest = next(iter(self._known))
                self._held -= self._known.pop(oldest)[0]
