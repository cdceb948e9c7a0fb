"""Who may look at whom: causal, sliding-window, prefix and padding masks. Knows nothing about scores or heads.

A mask is made once per forward pass and kind of layer, and left out where nothing would be hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# (query positions (T), key positions (S)) → what is added to the scores, (1, H, T, S)
Bias = Callable[[Tensor, Tensor], Tensor]


class Mask(NamedTuple):
    """What one kind of layer may see.

    `table` (B|1, H|1, T, S) is True where a position may look, or a number added to the scores; None: everywhere.
    `causal` stands for the plain lower triangle of a square, which fused kernels know without a table.
    """

    table: Tensor | None = None
    causal: bool = False


EVERYTHING = Mask()
TRIANGLE = Mask(causal=True)


class Masks:
    """Makes the masks of one forward pass over T new positions that begin at `start`, each only once.

    `padding` (B) counts the unused positions on the left; `keys` (B, S) is True at real tokens, where padding may lie
    anywhere; positions before `prefix` are seen by all. `bias` adds relative positions, in `dtype`, that of the scores.
    """

    def __init__(
        self, start: int, length: int, device: torch.device, *, causal: bool = True, padding: Tensor | None = None,
        keys: Tensor | None = None, prefix: int = 0, bias: Bias | None = None, dtype: torch.dtype = torch.float32,
    ) -> None:  # fmt: skip
        self.start, self.length, self.device, self.dtype = start, length, device, dtype
        self.causal, self.prefix, self.bias = causal, prefix, bias
        self.padding, self.keys = padding, keys
        self._made: dict[tuple[int | None, int, int], Mask] = {}

    def get(self, window: int | None, first: int, count: int) -> Mask:
        """Returns the mask over `count` keys from position `first` on, for layers with that window."""
        if window is not None and not self._window_hides(window, first):
            window = None
        key = (window, first, count)
        if key not in self._made:
            self._made[key] = self._make(*key)
        return self._made[key]

    def _window_hides(self, window: int, first: int) -> bool:
        return self.start + self.length - 1 - first >= window

    def _make(self, window: int | None, first: int, count: int) -> Mask:
        plain = window is None and self.padding is None and self.keys is None and self.bias is None
        if plain and (not self.causal or self.length == 1):
            return EVERYTHING
        if plain and not self.prefix and count == self.length:
            return TRIANGLE
        queries = torch.arange(self.start, self.start + self.length, device=self.device)
        keys = torch.arange(first, first + count, device=self.device)
        return Mask(self._with_bias(self._visible(queries[:, None], keys, window), queries, keys))

    def _visible(self, queries: Tensor, keys: Tensor, window: int | None) -> Tensor:
        """Returns (B|1, 1, T, S). Padding sees itself, for a row without any key would have no softmax."""
        seen = keys <= queries if self.causal else torch.ones_like(keys <= queries)
        if window is not None:
            seen = seen & ((queries - keys).abs() < window)
        if self.prefix:
            seen = seen | (keys < self.prefix)
        seen = seen[None, None]
        if self.keys is not None:
            seen = seen & self.keys[:, None, None, :]
        if self.padding is not None:
            seen = (seen & (keys >= self.padding[:, None, None, None])) | (keys == queries)
        return seen

    def _with_bias(self, seen: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        if self.bias is None:
            return seen
        return self.bias(queries, keys).to(self.dtype).masked_fill(~seen, float("-inf"))
