"""Hands llama.cpp's chain only the tokens that can win, where the chain begins with top-k or takes the likeliest.

llama.cpp copies the whole vocabulary into its candidate list for every token it draws: 0.16–0.27 ms for 49,152 tokens,
and what it evicts from the processor's caches. Two passes over the scores find the tokens that top-k can keep in
0.02 ms. The draw is the same, token by token; where equal scores would leave the choice to the order in which
llama.cpp happens to sort, the chain gets the whole vocabulary. Knows no sampler.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.llama.logits import InvalidNumbers

_ROW = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data
_GROUPS = 1024
_ROOM = 4096  # candidates at most; more are not worth the way around
MOST = 256  # the largest top-k that is sought this way


class FrontRunners:
    """Draws with one chain over a vocabulary of `size` tokens, of which the first sampler keeps the best `count`."""

    def __init__(self, library: Any, *, size: int, count: int) -> None:
        self._library = library
        self._size = size
        self._count = count
        self._rows = np.zeros(_ROOM, _ROW)
        self._start = ctypes.cast(self._rows.ctypes.data, ctypes.POINTER(library.llama_token_data))
        self._address = 0
        self._logits: NDArray[np.float32] = np.zeros(0, np.float32)

    @staticmethod
    def serves(size: int, count: int) -> bool:
        """Whether seeking the best `count` of `size` tokens is safe and worth while."""
        return 0 < count <= min(MOST, _GROUPS // 2) and size >= 8 * _GROUPS

    def draw(self, chain: Any, pointer: Any) -> int | None:
        """Returns the next token from the scores at `pointer` (`float *`, V), and lets the chain accept it.

        None where only the whole vocabulary gives the same draw for certain; then nothing has happened. Raises
        `InvalidNumbers` where a score is not a number.
        """
        logits = self._at(pointer)
        found = np.flatnonzero(logits >= self._floor(logits))
        if not self._count <= len(found) <= _ROOM or not self._clear(logits[found]):
            return None
        array = self._candidates(found, logits)
        self._library.llama_sampler_apply(chain, ctypes.byref(array))
        token = int(array.data[array.selected].id)
        self._library.llama_sampler_accept(chain, token)
        return token

    def _at(self, pointer: Any) -> NDArray[np.float32]:
        address = ctypes.addressof(pointer.contents)
        if address != self._address:  # llama.cpp seldom moves its buffer
            self._address = address
            self._logits = np.ctypeslib.as_array(pointer, (self._size,))
        return self._logits

    def _floor(self, logits: NDArray[np.float32]) -> Any:
        """Returns a score that at least `count` tokens reach: the `count`-th best of the best of many groups."""
        whole = self._size - self._size % _GROUPS
        best = logits[:whole].reshape(-1, _GROUPS).max(axis=0)  # NaN where any of a group is
        if np.isnan(best.max()):
            raise InvalidNumbers
        return np.partition(best, _GROUPS - self._count)[_GROUPS - self._count]

    def _clear(self, scores: NDArray[np.float32]) -> bool:
        """Whether the order of the best scores, and which token is the last of them, is beyond doubt."""
        ordered = np.sort(scores)[::-1][: self._count + 1]
        return bool((ordered[1:] < ordered[:-1]).all()) and bool(np.isfinite(ordered[0]))

    def _candidates(self, found: NDArray[np.intp], logits: NDArray[np.float32]) -> Any:
        n = len(found)
        self._rows["id"][:n] = found
        self._rows["logit"][:n] = logits[found]
        return self._library.llama_token_data_array(data=self._start, size=n, selected=-1, sorted=False)
