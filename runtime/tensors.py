"""Where a checkpoint's tensors come from: names, shapes, bytes, and rows as f32. Knows no file format."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor. `shape` is row-major, as PyTorch has it, also for GGUF files.

    `dtype` is what the bytes are: "f32", "f16", "bf16", "f8_e4m3", "i64", "q4_k" … A tensor that is joined from several
    stored ones has "gptq", "awq", "scaled" or "compressed", and no bytes of its own.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def n_elements(self) -> int:
        return math.prod(self.shape)


class TensorSource(ABC):
    """A set of named tensors, read when they are asked for. `infos` is in the order of the files."""

    infos: Mapping[str, TensorInfo]

    @abstractmethod
    def raw(self, name: str) -> Bytes:
        """Returns a tensor's bytes, flat and read-only, from the mapped file where it can be.

        Raises KeyError for an unknown name, and ValueError for a tensor that is joined from several.
        """

    @abstractmethod
    def decode(self, raw: Bytes, dtype: str) -> F32:
        """Returns a contiguous part of a tensor's bytes as flat f32 numbers."""

    @abstractmethod
    def release(self, name: str) -> None:
        """Lets the memory of a tensor's bytes go."""

    @abstractmethod
    def close(self) -> None:
        """Lets the files go. Arrays that `raw` gave out stay valid."""

    def read(self, name: str) -> F32:
        """Returns a whole tensor."""
        info = self.infos[name]
        return self.decode(self.raw(name), info.dtype).reshape(info.shape)

    def rows(self, name: str, start: int, stop: int) -> F32:
        """Returns the rows (along the first axis) from `start` up to `stop`. Raises ValueError for other rows."""
        info, raw = self.infos[name], self.raw(name)
        check_rows(info, start, stop)
        if len(info.shape) == 1:  # a block of a packed type may span any of them
            return self.decode(raw, info.dtype)[start:stop]
        size = raw.size // max(info.shape[0], 1)
        return self.decode(raw[start * size : stop * size], info.dtype).reshape(stop - start, *info.shape[1:])


def check_rows(info: TensorInfo, start: int, stop: int) -> None:
    """Raises ValueError unless a tensor has these rows."""
    if not info.shape or not 0 <= start <= stop <= info.shape[0]:
        raise ValueError(f"{info.name} of shape {info.shape} has no rows from {start} to {stop}")
