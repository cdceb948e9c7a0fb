"""Packs and unpacks numbers with ggml's own C functions, for every tensor type of a GGUF file. Knows no file.

The functions are those that llama.cpp computes with, so the bytes are the same. A wrong size in native code is a memory
fault, and a wrong value an abort of the process: whatever goes in is checked here. The work is done in row blocks on
threads, outside Python's lock.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.gguf_types import TENSOR_TYPES, TYPE_BY_NAME, TensorType
from runtime.llama.library import load_ggml_base

_BLOCK = 1 << 20  # numbers that a thread takes at once
_F16_MAX = 65504.0  # packed types hold their scales as f16
_LARGEST = {  # of the others: the limit of a scale itself
    "Q8_0": 127 * _F16_MAX, "Q4_0": 8 * _F16_MAX, "Q5_0": 16 * _F16_MAX,
    "Q4_1": _F16_MAX / 2, "Q5_1": _F16_MAX / 2,  # whose search moves the minimum beyond the smallest number
    "BF16": 3.3895313892515355e38,
}  # fmt: skip
_LARGEST_IMPORTANCE = 1e12  # beyond about 1e18, sums overflow while a scale is searched, and ggml aborts
_NUMBERS = {kind.name: number for number, kind in TENSOR_TYPES.items()}
_PLAIN: dict[str, str] = {"F32": "<f4", "F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
_ROW_FUNCTIONS = {"F16": "ggml_fp16_to_fp32_row", "BF16": "ggml_bf16_to_fp32_row"}
_INTERMEDIATE = {"Q8_1", "Q8_K"}  # of products in memory; no file holds them

F32 = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def named(name: str) -> TensorType:
    """Returns a type's block and block size by its name, in either case. Raises ValueError for an unknown one."""
    kind = TYPE_BY_NAME.get(name.upper())
    if kind is None:
        raise ValueError(f"no tensor type is called {name!r}")
    return kind


def row_bytes(name: str, n_per_row: int) -> int:
    """Returns the bytes of a row. Raises ValueError where the row is no whole number of blocks."""
    kind = named(name)
    if n_per_row < 1 or n_per_row % kind.block:
        raise ValueError(f"rows of {n_per_row} numbers cannot be packed as {kind.name} in blocks of {kind.block}")
    return n_per_row // kind.block * kind.block_bytes


def largest(name: str) -> float:
    """Returns the largest number that the type holds. Raises ValueError for an unknown type."""
    kind = named(name)
    return math.inf if kind.name in _PLAIN else _LARGEST.get(kind.name, _F16_MAX)


def can_dequantize(name: str) -> bool:
    """Whether `dequantize` reads the type."""
    return name.upper() in _PLAIN or _unpacker(named(name).name) is not None


def can_quantize(name: str) -> bool:
    """Whether `quantize` makes the type: all floating types but those for intermediate results."""
    kind = named(name)
    if kind.name in _PLAIN:
        return kind.name == "F32"
    return kind.name not in _INTERMEDIATE and _is_known(kind)


def needs_importance(name: str) -> bool:
    """Whether the type cannot be made without an importance matrix. Raises ValueError for an unknown type."""
    return can_quantize(name) and bool(load_ggml_base().ggml_quantize_requires_imatrix(_NUMBERS[named(name).name]))


# --- unpacking --------------------------------------------------------------------------------------------------


def dequantize(data: Bytes, name: str, *, out: F32 | None = None, threads: int = 1) -> F32:
    """Returns packed numbers as a flat f32 array, in `out` where it is given.

    `data` is a contiguous array of whole blocks. Integers are converted by value. Raises ValueError for sizes that do
    not fit, and for a type that the installed library cannot read.
    """
    kind = named(name)
    packed = _flat_bytes(data)
    count, rest = divmod(packed.size, kind.block_bytes)
    if rest:
        raise ValueError(f"{packed.size} bytes are no whole number of {kind.name} blocks of {kind.block_bytes} bytes")
    result = _output(out, count * kind.block)
    if kind.name in _PLAIN:
        result[:] = packed.view(_PLAIN[kind.name])
        return result
    unpack = _unpacker(kind.name)
    if unpack is None:
        raise ValueError(f"the installed llama.cpp cannot unpack {kind.name}")
    source, target = packed.ctypes.data, result.ctypes.data

    def run(start: int, stop: int) -> None:
        unpack(source + start * kind.block_bytes, target + start * kind.block * 4, (stop - start) * kind.block)

    _in_blocks(run, count, _BLOCK // kind.block, threads)
    return result


def _output(out: F32 | None, size: int) -> F32:
    if out is None:
        return np.empty(size, np.float32)
    if out.dtype != np.float32 or out.size != size or not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError(f"the output must be a contiguous writable f32 array of {size} numbers")
    return out.reshape(-1)


@cache
def _unpacker(name: str) -> Callable[[int, int, int], None] | None:
    """Returns the C function that unpacks a type: (source address, target address, numbers)."""
    if name in _PLAIN or not _is_known(TYPE_BY_NAME[name]):
        return None
    function = getattr(load_ggml_base(), _symbol(name))
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    function.restype = None
    return function  # type: ignore[no-any-return]


# --- packing ----------------------------------------------------------------------------------------------------


def quantize(values: F32, name: str, *, importance: F32 | None = None, threads: int = 1) -> Bytes:
    """Returns a matrix (rows, n_per_row) in packed form, (rows, bytes of a row).

    `importance` (n_per_row,) weighs the columns; 1-, 2- and 3-bit IQ types cannot do without. Raises ValueError for
    sizes that do not fit, a type that cannot be made, and numbers that are not finite or too large for the type's f16
    scales, at most 65,504 for most types (F32, F16 and BF16 take all numbers, as casts).
    """
    kind = named(name)
    if values.dtype != np.float32 or values.ndim != 2 or not values.flags.c_contiguous:
        raise ValueError("the values must be a contiguous f32 matrix")
    rows, n_per_row = values.shape
    packed = np.empty((rows, row_bytes(name, n_per_row)), np.uint8)
    weights = _weights(kind, n_per_row, importance)
    chunk = load_ggml_base().ggml_quantize_chunk
    number, source, target = _NUMBERS[kind.name], values.ctypes.data, packed.ctypes.data
    limit = largest(name)

    def run(start: int, stop: int) -> None:
        if kind.block > 1:
            _check_range(values[start:stop], kind, limit)
        chunk(number, source, target, start * n_per_row, stop - start, n_per_row, weights)

    _in_blocks(run, rows, max(1, min(_BLOCK // n_per_row, -(-rows // max(threads, 1)))), threads)
    return packed


def _weights(kind: TensorType, n_per_row: int, importance: F32 | None) -> ctypes.c_void_p | None:
    """Returns the address of a checked importance matrix, which the caller keeps alive."""
    if not can_quantize(kind.name):
        raise ValueError(f"{kind.name} cannot be made")
    if importance is None:
        if needs_importance(kind.name):
            raise ValueError(f"{kind.name} cannot be made without an importance matrix")
        return None
    if importance.dtype != np.float32 or importance.shape != (n_per_row,) or not importance.flags.c_contiguous:
        raise ValueError(f"the importance matrix must hold {n_per_row} f32 numbers")
    low, high = float(importance.min()), float(importance.max())
    if not (low >= 0 and high <= _LARGEST_IMPORTANCE):
        raise ValueError(f"the importance matrix holds numbers from {low} to {high}")
    return ctypes.c_void_p(importance.ctypes.data)


def _check_range(values: F32, kind: TensorType, limit: float) -> None:
    low, high = float(values.min()), float(values.max())  # a NaN is passed on by both
    if not (-limit <= low and high <= limit):
        raise ValueError(f"numbers from {low} to {high} cannot be packed as {kind.name}, whose limit is {limit}")


# --- helpers ----------------------------------------------------------------------------------------------------


def _is_known(kind: TensorType) -> bool:
    """Whether the installed library has the type, with the sizes that this program knows."""
    base, number = load_ggml_base(), _NUMBERS[kind.name]
    if not hasattr(base, _symbol(kind.name)):  # asked first: the library takes any number, and reads beyond its table
        return False
    sizes: tuple[int, int] = (base.ggml_blck_size(number), base.ggml_type_size(number))
    return sizes == (kind.block, kind.block_bytes)


def _symbol(name: str) -> str:
    return _ROW_FUNCTIONS.get(name, f"dequantize_row_{name.lower().replace('_k', '_K')}")


def _flat_bytes(data: Bytes) -> Bytes:
    if data.dtype != np.uint8 or not data.flags.c_contiguous:
        raise ValueError("packed numbers must be a contiguous array of bytes")
    return data.reshape(-1)


def _in_blocks(run: Callable[[int, int], Any], count: int, size: int, threads: int) -> None:
    blocks = list(_ranges(count, size))
    if threads <= 1 or len(blocks) <= 1:
        for start, stop in blocks:
            run(start, stop)
        return
    with ThreadPoolExecutor(min(threads, len(blocks)), "ggml") as pool:
        for done in [pool.submit(run, start, stop) for start, stop in blocks]:
            done.result()


def _ranges(count: int, size: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, size):
        yield start, min(start + size, count)
