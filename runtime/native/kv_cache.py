"""Remembers the keys and values of positions that were read, so that each is computed once.

With it a decoder reads one new token against all that came before: q is (B, H, 1, D), k and v are (B, K, S, D). Room
is made ahead and doubles when it is full, so that appending a token copies nothing but that token. A layer with a
sliding window keeps its window and a little more. Knows no model, no mask and no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from runtime.native.cache_storage import Scratch, Storage, room, row_bytes

ROLLBACK = 64  # positions behind a window that are kept, so that the last tokens can be taken back
_SPARE = 128  # rows a windowed layer fills before it moves its window to the beginning again


class CacheConfig(Protocol):
    """What a cache asks of a model's description."""

    @property
    def n_layers(self) -> int: ...

    @property
    def n_kv_heads(self) -> int: ...

    @property
    def head_dim(self) -> int: ...

    def window_of(self, layer: int) -> int | None:
        """Returns how many positions a layer sees, the present one included; None for all."""
        ...


def cache_bytes(
    config: CacheConfig, positions: int, *, k_type: str = "f32", v_type: str = "f32", batch: int = 1, full: bool = False
) -> int:
    """Returns the memory that a cache with room for so many positions takes, without what is dequantized for use."""
    row = sum(row_bytes(kind, config.n_kv_heads, config.head_dim) for kind in (k_type, v_type))
    windows = (None if full else config.window_of(layer) for layer in range(config.n_layers))
    return batch * row * sum(positions if window is None else min(positions, _most_rows(window)) for window in windows)


def _most_rows(window: int) -> int:
    """Returns the rows that a windowed layer holds, but while a longer piece is read."""
    return window + ROLLBACK + _SPARE


class _Layer:
    """The keys and values of one layer. The first row is position `start`."""

    def __init__(self, types: tuple[str, str], *, capacity: int, window: int | None, full: bool) -> None:
        self._types = types
        self._window = window
        self._most = None if full or window is None else _most_rows(window)
        self._capacity = capacity if self._most is None else min(capacity, self._most)
        self._stored: list[Storage] = []  # keys, values
        self.start = 0

    def first_for(self, length: int) -> int:
        """Returns the first position that the token at position `length` sees."""
        return 0 if self._window is None else max(0, length - self._window + 1)

    def write(self, length: int, *vectors: Tensor) -> None:
        """Stores k and v (B, K, T, D) from position `length` on."""
        more = vectors[0].shape[2]
        if not self._stored:
            rows = max(self._capacity, more)
            self._stored = [room(kind, x, rows) for kind, x in zip(self._types, vectors, strict=True)]
        self._make_room(length, more)
        for storage, x in zip(self._stored, vectors, strict=True):
            storage.write(length - self.start, x)

    def read(self, first: int, stop: int, scratch: tuple[Scratch, Scratch]) -> list[Tensor]:
        """Returns the keys and the values (B, K, stop - first, D) of these positions."""
        rows = first - self.start, stop - self.start
        return [storage.read(*rows, memory) for storage, memory in zip(self._stored, scratch, strict=True)]

    def settle(self, length: int) -> None:
        """Gives back the room that a long piece needed, once it is read.

        The rows that stay are copied to other memory: torch lets nobody write outside of its inference mode into what
        was made in it.
        """
        if self._most is not None and self._stored and self._stored[0].rows > self._most:
            start = self._oldest_kept(length)
            self._stored = [
                storage.moved(start - self.start, length - self.start, self._most) for storage in self._stored
            ]
            self.start = start

    def contents(self, length: int) -> list[Tensor]:
        return [buffer for storage in self._stored for buffer in storage.contents(length - self.start)]

    def restore(self, start: int, like: Tensor, buffers: list[Tensor]) -> None:
        """Fills an empty layer with buffers, which it takes off the list; `like` (B, K, any, D) is its vectors."""
        self.start = start
        rows = max(self._capacity, buffers[0].shape[2])
        self._stored = [room(kind, like, rows) for kind in self._types]
        for storage in self._stored:
            storage.restore([buffers.pop(0) for _buffer in range(storage.count)])

    def reorder(self, batch: Tensor, length: int) -> None:
        self._stored = [storage.reordered(batch, length - self.start) for storage in self._stored]

    def _make_room(self, length: int, more: int) -> None:
        rows = self._stored[0].rows
        if self._most is not None and length - self.start + more > max(rows, self._most):
            self._drop_old(length)
        needed = length - self.start + more
        if needed > rows:
            doubled = 2 * rows if self._most is None else min(2 * rows, self._most)
            self._resize(length, max(needed, doubled))

    def _oldest_kept(self, length: int) -> int:
        """Returns the first position that has to stay where there are `length`."""
        return max(self.start, self.first_for(length) - ROLLBACK)

    def _drop_old(self, length: int) -> None:
        start = self._oldest_kept(length)
        if start > self.start:
            for storage in self._stored:
                storage.shift(start - self.start, length - self.start)
            self.start = start

    def _resize(self, length: int, rows: int) -> None:
        self._stored = [storage.moved(0, length - self.start, rows) for storage in self._stored]

    @property
    def nbytes(self) -> int:
        return sum(storage.nbytes for storage in self._stored)


class KVCache:
    """The keys and values of a batch of sequences. Every layer appends, then `advance` counts the new positions."""

    def __init__(
        self, config: CacheConfig, *, batch: int = 1, capacity: int = 256, k_type: str = "f32", v_type: str = "f32",
        device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32, full: bool = False,
    ) -> None:  # fmt: skip
        """`dtype` is that of what `append` returns; `full` keeps all positions of windowed layers too.

        A layer takes its memory with its first vectors. The types are those of `cache_storage.CACHE_TYPES`.
        """
        self.batch = batch
        self.device = torch.device(device)
        self.length = 0  # positions stored
        self.ids: list[int] = []  # the tokens at these positions, where the batch is 1
        self._n_kv_heads, self._head_dim = config.n_kv_heads, config.head_dim
        self._scratch = Scratch(dtype), Scratch(dtype)
        self._layers = [
            _Layer((k_type, v_type), capacity=max(1, capacity), window=config.window_of(layer), full=full)
            for layer in range(config.n_layers)
        ]
        self._cross: dict[int, tuple[Tensor, Tensor]] = {}

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, int]:
        """Stores k, v (B, K, T, D), after their rotation, behind the positions that are there.

        Returns the keys and values (B, K, S, D) that the T new tokens see, and the absolute position of the first:
        what lies before the first new token's window is left out. The tensors are valid until the next `append`.
        """
        if k.shape[0] != self.batch:
            raise ValueError(f"a cache for {self.batch} sequences was given {k.shape[0]}")
        kept = self._layers[layer]
        kept.write(self.length, k, v)
        first = kept.first_for(self.length)
        keys, values = kept.read(first, self.length + k.shape[2], self._scratch)
        return keys, values, first

    def advance(self, count: int, ids: Sequence[int] = ()) -> None:
        """Counts `count` positions that every layer has appended; `ids` are their tokens."""
        self.length += count
        self.ids.extend(ids)
        for layer in self._layers:
            layer.settle(self.length)

    def longest_valid(self, length: int) -> int:
        """Returns how many of the first `length` positions can be kept: all, or none where a window is gone."""
        whole = length <= self.length and all(layer.start <= layer.first_for(length) for layer in self._layers)
        return length if whole else 0

    def truncate(self, length: int) -> None:
        """Forgets all positions from `length` on. Raises `ValueError` where `longest_valid` is less."""
        if not 0 <= length <= self.length or self.longest_valid(length) < length:
            raise ValueError(f"of {self.length} positions the first {length} cannot be kept")
        self.length = length
        del self.ids[length:]
        if length == 0:
            for layer in self._layers:
                layer.start = 0

    def reorder(self, rows: Tensor) -> None:
        """Makes sequence i a copy of sequence rows[i]; `rows` is (B',), and B' becomes the batch."""
        rows = rows.to(self.device)
        self.batch = len(rows)
        for layer in self._layers:
            layer.reorder(rows, self.length)
        self._cross = {at: (k.index_select(0, rows), v.index_select(0, rows)) for at, (k, v) in self._cross.items()}

    def contents(self) -> tuple[list[int], list[Tensor]]:
        """Returns the first position that each layer keeps, and all buffers, layer by layer, as they are stored."""
        buffers = [buffer for layer in self._layers for buffer in layer.contents(self.length)]
        return [layer.start for layer in self._layers], buffers

    def restore(self, ids: Sequence[int], starts: Sequence[int], buffers: Sequence[Tensor]) -> None:
        """Fills an empty cache with what `contents` gave. Raises `ValueError` for what it cannot have given."""
        left = list(buffers)
        like = torch.empty(1, self._n_kv_heads, 0, self._head_dim, dtype=torch.float32, device=self.device)
        for layer, start in zip(self._layers, starts, strict=True):
            if not left or left[0].shape[2] != len(ids) - start:
                raise ValueError("a layer's rows are not those of the tokens")
            layer.restore(start, like, left)
        if left:
            raise ValueError(f"{len(left)} buffers belong to no layer")
        self.advance(len(ids), ids)

    def set_cross(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Keeps the keys and values (B, K, S, D) that a layer makes of the source, until `clear`."""
        self._cross[layer] = k, v

    def cross(self, layer: int) -> tuple[Tensor, Tensor] | None:
        """Returns what `set_cross` kept; None where this source is new."""
        return self._cross.get(layer)

    def clear(self) -> None:
        """Forgets everything, the source included; the room is kept for what comes next."""
        self.truncate(0)
        self._cross.clear()

    @property
    def bytes(self) -> int:
        """The memory that is taken, with the piece that all layers use to dequantize."""
        cross = sum(x.nbytes for pair in self._cross.values() for x in pair)
        return sum(layer.nbytes for layer in self._layers) + cross + sum(memory.nbytes for memory in self._scratch)
