"""A list of candidate tokens that llama.cpp's samplers work on, and that numpy can narrow. Knows no text.

Imported only for answers that need more than llama.cpp's own chain: a grammar, a schema, or a look at the draw.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROW = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data


class Candidates:
    """Candidate tokens with their scores, in the memory layout of a `llama_token_data_array`."""

    def __init__(self, library: Any, rows: NDArray[Any]) -> None:
        self._library = library
        self._hold(rows)

    @classmethod
    def of_logits(cls, library: Any, logits: NDArray[np.float32]) -> Candidates:
        """Returns a candidate for every token of the vocabulary; `logits` is (V,)."""
        rows = np.zeros(len(logits), _ROW)
        rows["id"] = np.arange(len(logits), dtype=np.int32)
        rows["logit"] = logits
        return cls(library, rows)

    @classmethod
    def of_token(cls, library: Any, token: int) -> Candidates:
        """Returns one candidate."""
        return cls(library, np.array([(token, 0.0, 0.0)], _ROW))

    def _hold(self, rows: NDArray[Any]) -> None:
        self._rows = np.ascontiguousarray(rows)
        self._array = self._library.llama_token_data_array(
            data=ctypes.cast(self._rows.ctypes.data, ctypes.POINTER(self._library.llama_token_data)),
            size=len(self._rows), selected=-1, sorted=False,
        )  # fmt: skip

    def __len__(self) -> int:
        return int(self._array.size)

    @property
    def rows(self) -> NDArray[Any]:
        """The candidates that are left, with the fields id, logit and p."""
        first = ctypes.addressof(self._array.data.contents) - self._rows.ctypes.data  # XTC moves the beginning
        start = first // _ROW.itemsize
        return self._rows[start : start + len(self)]

    @property
    def selected(self) -> int:
        """The token that the last sampler drew. Asserts that one did."""
        assert 0 <= self._array.selected < len(self)
        return int(self.rows["id"][self._array.selected])

    def apply(self, sampler: Any) -> None:
        """Lets one of llama.cpp's samplers filter, change or draw."""
        self._library.llama_sampler_apply(sampler, ctypes.byref(self._array))

    def keep(self, wanted: NDArray[np.bool_]) -> None:
        """Drops the candidates that are not wanted: some samplers would count a score of minus infinity."""
        self._hold(self.rows[wanted])

    def keep_selected(self) -> None:
        """Drops all candidates but the one that was drawn."""
        self.keep(self.rows["id"] == self.selected)
        self._array.selected = 0

    def drop_impossible(self) -> None:
        """Drops the candidates whose score is minus infinity."""
        possible = self.rows["logit"] > -math.inf
        if not possible.all():
            self.keep(possible)

    def best(self, count: int) -> Candidates:
        """Returns a copy of the `count` likeliest candidates, in no order."""
        chosen = np.argpartition(self.rows["logit"], len(self) - count)[len(self) - count :]
        return Candidates(self._library, self.rows[chosen])
