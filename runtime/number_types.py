"""How checkpoints store plain numbers, and how these become f32. Knows no file and no packed format.

bf16 is the upper half of an f32. The two f8 formats are those of Micikevicius et al., "FP8 formats for deep learning",
2022: e4m3 has no infinities, e5m2 is the upper half of an f16. e8m0 is a power of two, the scale of the OCP MX formats.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Bytes = NDArray[np.uint8]

ITEM_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8_e4m3": 1, "f8_e5m2": 1, "f8_e8m0": 1,
    "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1,
}  # fmt: skip
_NUMPY = {
    "f64": "<f8", "f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "i16": "<i2", "i8": "<i1",
    "u64": "<u8", "u32": "<u4", "u16": "<u2", "u8": "<u1", "bool": "<u1",
}  # fmt: skip


def to_f32(raw: Bytes, dtype: str) -> F32:
    """Returns stored numbers (a contiguous array of bytes) as a new flat f32 array; whole numbers by value."""
    if dtype == "bf16":
        return _from_bf16(raw)
    if dtype.startswith("f8_"):
        return np.take(_f8_values(dtype), raw)
    with np.errstate(over="ignore"):  # an f64 beyond f32 becomes infinite, as in every cast
        return raw.view(_NUMPY[dtype]).astype(np.float32)


def _from_bf16(raw: Bytes) -> F32:
    whole = np.zeros(raw.size // 2, np.float32)
    whole.view(np.uint16)[1::2] = raw.view("<u2")
    return whole


@cache
def _f8_values(dtype: str) -> F32:
    """Returns what each of the 256 bytes stands for."""
    codes = np.arange(256, dtype=np.uint16)
    if dtype == "f8_e5m2":
        values = (codes << 8).view(np.float16).astype(np.float32)
    elif dtype == "f8_e8m0":
        values = np.full(256, np.nan, np.float32)  # the last one is no number
        values[:255] = np.ldexp(np.float32(1), np.arange(255) - 127)
    else:
        values = _e4m3_values(codes.astype(np.int32))
    values.flags.writeable = False
    return values


def _e4m3_values(codes: NDArray[np.int32]) -> F32:
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    size = np.where(exponent > 0, np.ldexp(1 + mantissa / 8, exponent - 7), np.ldexp(mantissa / 8, -6))
    size[(codes & 127) == 127] = np.nan
    return np.where(codes & 128, -size, size).astype(np.float32)
