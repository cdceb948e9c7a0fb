"""Hands llama.cpp's chain only the tokens that can win, where the chain begins with top-k or takes the likeliest.

llama.cpp copies the whole vocabulary into its candidate list for every token it draws, which takes longer than anything
else between two evaluations: about 0.9 ms for 262,144 tokens. Two passes over the scores find the tokens that top-k can
keep in half of that; with a small vocabulary numpy's own cost outweighs the gain.
The draw is the same, token by token; where equal scores would leave the choice to the order in which
llama.cpp happens to sort, the chain gets the whole vocabulary. Knows no sampler.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.logits import InvalidNumbers

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
        rows = np.zeros(_ROOM, _ROW)
        self._ids, self._scores = rows["id"], rows["logit"]
        self._first = ctypes.cast(rows.ctypes.data, ctypes.POINTER(library.llama_token_data))
        self._array = library.llama_token_data_array()
        self._address = 0
        self._logits: NDArray[np.float32] = np.zeros(0, np.float32)  # (V,)
        self._grid: NDArray[np.float32] = np.zeros((0, _GROUPS), np.float32)  # all scores but the last V % groups

    @staticmethod
    def serves(size: int, count: int) -> bool:
        """Whether seeking the best `count` of `size` tokens is safe and worth while."""
        return 0 < count <= min(MOST, _GROUPS // 2) and size >= 8 * _GROUPS

    def draw(self, chain: Any, pointer: Any) -> int | None:
        """Returns the next token from the scores at `pointer` (`float *`, V), and lets the chain accept it.

        None where only the whole vocabulary gives the same draw for certain; then nothing has happened. Raises
        `InvalidNumbers` where a score is not a number or infinite.
        """
        self._look_at(pointer)
        found = (self._logits >= self._floor()).nonzero()[0]
        if not self._count <= len(found) <= _ROOM:
            return None
        scores = self._logits[found]
        if len(set(scores.tolist())) < len(found):  # equal scores: which comes first is llama.cpp's own affair
            return None
        self._apply(chain, found, scores)
        token = int(self._array.data[self._array.selected].id)
        self._library.llama_sampler_accept(chain, token)
        return token

    def _look_at(self, pointer: Any) -> None:
        address = ctypes.addressof(pointer.contents)
        if address != self._address:  # llama.cpp seldom moves its buffer
            self._address = address
            self._logits = np.ctypeslib.as_array(pointer, (self._size,))
            self._grid = self._logits[: self._size - self._size % _GROUPS].reshape(-1, _GROUPS)

    def _floor(self) -> Any:
        """Returns a score that at least `count` tokens reach: the `count`-th best of the best of many groups."""
        best = np.maximum.reduce(self._grid, axis=0)  # NaN where any of a group is
        best.sort()  # NaN last
        if not best[-1] < math.inf:
            raise InvalidNumbers
        return best[-self._count]

    def _apply(self, chain: Any, ids: NDArray[np.intp], scores: NDArray[np.float32]) -> None:
        array, n = self._array, len(ids)
        self._ids[:n] = ids
        self._scores[:n] = scores
        array.data, array.size, array.selected, array.sorted = self._first, n, -1, False
        self._library.llama_sampler_apply(chain, ctypes.byref(array))
