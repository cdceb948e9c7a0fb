"""A mapped file's bytes as tensors. Knows no file and no model."""

from __future__ import annotations

import ctypes

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}  # that files and torch share


def in_place(raw: NDArray[np.uint8], dtype: torch.dtype) -> Tensor:
    """Returns bytes as a flat tensor where they lie. It must only be read: torch has no read-only tensors."""
    memory = (ctypes.c_uint8 * raw.nbytes).from_address(raw.ctypes.data)
    memory.source = raw  # type: ignore[attr-defined]  # the mapping lives as long as the tensor
    return torch.frombuffer(memory, dtype=dtype)
