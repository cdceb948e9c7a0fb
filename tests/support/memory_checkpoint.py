"""A checkpoint in memory, with the members that loading asks of a real one. Knows no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np


class TensorInfo(NamedTuple):
    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass
class MemoryCheckpoint:
    """Tensors by name; `config` for a folder, `metadata` for a GGUF file, and what was released.."""

    kind: Literal["folder", "gguf"]
    tensors: dict[str, np.ndarray]
    config: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    path: Path = Path("model")
    released: list[str] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.tensors)

    def info(self, name: str) -> TensorInfo:
        array = self.tensors[name]
        return TensorInfo(name, array.shape, {"float32": "f32", "float16": "f16"}[array.dtype.name])

    def raw(self, name: str) -> np.ndarray:
        return np.ascontiguousarray(self.tensors[name]).view(np.uint8).reshape(-1)

    def read(self, name: str) -> np.ndarray:
        return self.tensors[name].astype(np.float32)

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        return self.tensors[name][start:stop].astype(np.float32)

    def release(self, name: str) -> None:
        self.released.append(name)
