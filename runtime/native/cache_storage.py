"""Keeps vectors in a number format: floats as they are, or int8 and int4 with scales for each token and head.

Rows are positions, counted from 0 here. Knows no layer, no window and no model.

    int8, a scale for each vector:                       int4, a scale and a zero for each group of at most 32 numbers:
    scale = max |x| / 127                                zero = min x,  scale = (max x - min x) / 15
    code  = round(x / scale)      from -127 to 127       code = round((x - zero) / scale)      from 0 to 15
    x     ≈ code * scale                                 x    ≈ code * scale + zero

In both |error| <= scale / 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from math import prod
from typing import Protocol, Self

import torch
from torch import Tensor

CACHE_TYPES = ("f32", "bf16", "f16", "int8", "int4")

# The largest error of a stored number, as a fraction of the largest number in its vector: half a step. f16 holds
# nothing above 65,504, and below 6.1e-5 (where max |x| is that small) no more than steps of 6e-8. In int4 only a group
# that reaches from the largest number to its negative comes near the bound.
ERROR_BOUNDS = {"f32": 0.0, "bf16": 2.0**-8, "f16": 2.0**-11, "int8": 0.5 / 127, "int4": 0.5 / 7.5}

_FLOATS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
# Numbers that share a scale in int4: keys have a few entries that are far larger than the others. On a text of 160
# tokens, mixing all entries by a Hadamard matrix first (arXiv 2404.00456) made the divergence larger, and looking for
# the scale with the least error a tenth smaller, which is not worth its time.
_GROUP = 32
_LEAST_SCALE = 2.0**-126  # the smallest normal number: a vector of zeros needs some scale


class Scratch:
    """One piece of memory for dequantized vectors that every layer uses in turn; it only grows."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._memory: Tensor | None = None

    def view(self, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """Returns uninitialised memory of that shape, valid until the next call."""
        needed = prod(shape)
        if self._memory is None or self._memory.numel() < needed or self._memory.device != device:
            self._memory = torch.empty(needed + needed // 2, dtype=self.dtype, device=device)
        return self._memory[:needed].view(shape)

    @property
    def nbytes(self) -> int:
        return 0 if self._memory is None else self._memory.nbytes


class Storage(Protocol):
    """Room for numbers (B, K, rows, D)."""

    @property
    def rows(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def count(self) -> int:
        """How many buffers it has."""
        ...

    def write(self, row: int, x: Tensor) -> None:
        """Stores x (B, K, T, D) from a row on."""
        ...

    def read(self, start: int, stop: int, scratch: Scratch) -> Tensor:
        """Returns rows (B, K, stop - start, D) in the scratch memory's type: a view, or dequantized in there."""
        ...

    def contents(self, used: int) -> list[Tensor]:
        """Returns the buffers (B, K, used, any) with the first `used` rows, as they are stored."""
        ...

    def restore(self, buffers: Sequence[Tensor]) -> None:
        """Writes back what `contents` gave. Raises `ValueError` for what it did not give."""
        ...

    def moved(self, start: int, stop: int, rows: int) -> Storage:
        """Returns new room for `rows` rows that begins with these."""
        ...

    def shift(self, start: int, stop: int) -> None:
        """Moves rows to the beginning, in place."""
        ...

    def reordered(self, batch: Tensor, used: int) -> Storage:
        """Returns new room with copies of the sequences that `batch` (B', int64) names, up to row `used`."""
        ...


class _Buffers:
    """Buffers (B, K, rows, any) that belong together."""

    def __init__(self, *buffers: Tensor) -> None:
        self._buffers = buffers

    @property
    def rows(self) -> int:
        return self._buffers[0].shape[2]

    @property
    def nbytes(self) -> int:
        return sum(buffer.nbytes for buffer in self._buffers)

    def contents(self, used: int) -> list[Tensor]:
        return [buffer[:, :, :used] for buffer in self._buffers]

    def restore(self, buffers: Sequence[Tensor]) -> None:
        for ours, given in zip(self._buffers, buffers, strict=True):
            place = ours[:, :, : given.shape[2]]
            if place.shape != given.shape or place.dtype != given.dtype:
                raise ValueError(f"{tuple(given.shape)} {given.dtype} where {tuple(place.shape)} {place.dtype} belongs")
            place.copy_(given)

    @property
    def count(self) -> int:
        return len(self._buffers)

    def shift(self, start: int, stop: int) -> None:
        for buffer in self._buffers:
            buffer[:, :, : stop - start] = buffer[:, :, start:stop].clone()  # the two may overlap

    def moved(self, start: int, stop: int, rows: int) -> Self:
        return self._filled(rows, stop - start, lambda buffer: buffer[:, :, start:stop])

    def reordered(self, batch: Tensor, used: int) -> Self:
        return self._filled(self.rows, used, lambda buffer: buffer[:, :, :used].index_select(0, batch))

    def _filled(self, rows: int, used: int, source: Callable[[Tensor], Tensor]) -> Self:
        twin = copy(self)
        parts = [source(buffer) for buffer in self._buffers]
        twin._buffers = tuple(part.new_empty(*part.shape[:2], rows, part.shape[3]) for part in parts)
        for buffer, part in zip(twin._buffers, parts, strict=True):
            buffer[:, :, :used] = part
        return twin


class _Floats(_Buffers):
    """Numbers as they are, or rounded to 16 bits."""

    @classmethod
    def like(cls, x: Tensor, rows: int, dtype: torch.dtype) -> _Floats:
        return cls(x.new_empty(*x.shape[:2], rows, x.shape[3], dtype=dtype))

    def write(self, row: int, x: Tensor) -> None:
        self._buffers[0].narrow(2, row, x.shape[2]).copy_(x)

    def read(self, start: int, stop: int, scratch: Scratch) -> Tensor:
        kept = self._buffers[0].narrow(2, start, stop - start)
        if kept.dtype == scratch.dtype:
            return kept
        return scratch.view(tuple(kept.shape), kept.device).copy_(kept)


class _Int8(_Buffers):
    """A byte a number: codes (B, K, rows, D), and scales (B, K, rows, 1) in f32."""

    @classmethod
    def like(cls, x: Tensor, rows: int) -> _Int8:
        codes = x.new_empty(*x.shape[:2], rows, x.shape[3], dtype=torch.int8)
        return cls(codes, x.new_empty(*x.shape[:2], rows, 1, dtype=torch.float32))

    def write(self, row: int, x: Tensor) -> None:
        codes, scales = self._buffers
        end = row + x.shape[2]
        codes[:, :, row:end], scales[:, :, row:end] = _int8(x)

    def read(self, start: int, stop: int, scratch: Scratch) -> Tensor:
        codes, scales = (buffer[:, :, start:stop] for buffer in self._buffers)
        return scratch.view(tuple(codes.shape), codes.device).copy_(codes).mul_(scales)


def _int8(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns codes (..., D) in int8, and scales (..., 1) in f32, of vectors x (..., D)."""
    x = x.float()
    scales = (x.abs().amax(-1, keepdim=True) / 127).clamp_(min=_LEAST_SCALE)
    return (x / scales).round_().to(torch.int8), scales


class _Int4(_Buffers):
    """Half a byte a number: a vector's first half in the low bits, its second half in the high ones.

    Bytes (B, K, rows, groups * size / 2) hold the codes; scales and zeros (B, K, rows, groups) are f32. A vector that
    does not fill its groups ends with copies of its last number.
    """

    _head_dim: int

    @classmethod
    def like(cls, x: Tensor, rows: int) -> _Int4:
        groups, size = _groups(x.shape[3])
        codes = x.new_empty(*x.shape[:2], rows, groups * size // 2, dtype=torch.uint8)
        made = cls(codes, *(x.new_empty(*x.shape[:2], rows, groups, dtype=torch.float32) for _ in range(2)))
        made._head_dim = x.shape[3]
        return made

    def write(self, row: int, x: Tensor) -> None:
        packed, scales, zeros = (buffer.narrow(2, row, x.shape[2]) for buffer in self._buffers)
        groups, size = _groups(self._head_dim)
        filler = x[..., -1:].expand(*x.shape[:-1], groups * size - self._head_dim)
        codes, own_scales, own_zeros = _int4(torch.cat((x, filler), -1).view(*x.shape[:-1], groups, size))
        scales.copy_(own_scales)
        zeros.copy_(own_zeros)
        low, high = codes.flatten(-2).chunk(2, dim=-1)
        packed.copy_(low | (high << 4))

    def read(self, start: int, stop: int, scratch: Scratch) -> Tensor:
        packed, scales, zeros = (buffer.narrow(2, start, stop - start) for buffer in self._buffers)
        half = packed.shape[3]
        x = scratch.view((*packed.shape[:3], 2 * half), packed.device)
        x[..., :half] = packed & 15
        x[..., half:] = packed >> 4
        x.view(*scales.shape, -1).mul_(scales[..., None]).add_(zeros[..., None])
        return x[..., : self._head_dim]


def _int4(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns codes in uint8, and scales and zeros (..., groups) in f32, of numbers x (..., groups, size)."""
    x = x.float()
    low, high = torch.aminmax(x, dim=-1, keepdim=True)
    scales = ((high - low) / 15).clamp_(min=_LEAST_SCALE)
    return ((x - low) / scales).round_().to(torch.uint8), scales.squeeze(-1), low.squeeze(-1)


def _groups(head_dim: int) -> tuple[int, int]:
    """Returns how many groups a vector has in int4, and how many numbers each: together an even number."""
    groups = -(-head_dim // _GROUP)
    size = -(-head_dim // groups)
    return groups, size + groups * size % 2


def room(kind: str, like: Tensor, rows: int) -> Storage:
    """Returns empty room for `rows` rows of vectors shaped as in `like` (B, K, any, D), on its device.

    Raises `ValueError` for a type that is not in `CACHE_TYPES`.
    """
    if kind == "int8":
        return _Int8.like(like, rows)
    if kind == "int4":
        return _Int4.like(like, rows)
    if kind not in _FLOATS:
        raise ValueError(f"no cache type {kind!r}")
    return _Floats.like(like, rows, _FLOATS[kind])


def row_bytes(kind: str, n_heads: int, head_dim: int) -> int:
    """Returns the bytes that one position takes in all heads of one layer's keys or values."""
    if kind == "int8":
        return n_heads * (head_dim + 4)
    if kind == "int4":
        groups, size = _groups(head_dim)
        return n_heads * (groups * size // 2 + groups * 8)
    return n_heads * head_dim * _FLOATS[kind].itemsize
