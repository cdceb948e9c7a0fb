"""Turns a tensor's numbers into the bytes of its type, block by block, with ggml's own functions. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convert.recipes import Choice
from convert.tensors import F32, Product
from convert.values import require_numbers, require_stored_numbers
from runtime import ggml

_SLOW_NUMBERS = 1 << 16  # of an IQ type, for each thread at once: IQ1_S takes 8 seconds for a million
_PASSED_BYTES = 1 << 25  # of a tensor that is taken over as it is, at once


def packed(choice: Choice, product: Product, *, importance: F32 | None, threads: int) -> Iterator[memoryview]:
    """Yields a tensor's bytes in order. `importance` weighs its columns: (length of a row,), or a line per expert.

    Raises `NotNumbers` and `WrongNumbers`.
    """
    kept = product.stored(choice.type)
    if kept is not None:
        step = _PASSED_BYTES // ggml.named(choice.type).block_bytes * ggml.named(choice.type).block_bytes
        for start in range(0, kept.size, step):
            piece = kept[start : start + step]
            require_stored_numbers(piece, choice.tensor.name, choice.type)
            yield piece.data
        return
    rows_done, rows_per_expert = 0, choice.tensor.shape[-2] if len(choice.tensor.shape) > 1 else 1
    for block in product.blocks():
        weights = _weights_for(importance, rows_done // rows_per_expert)
        for part in _pieces(block, choice.type, threads):
            yield _pack(part, choice, weights, threads).data.cast("B")
        rows_done += len(block)


def _pieces(block: F32, kind: str, threads: int) -> Iterator[F32]:
    """Cuts a block so that packing a piece takes no longer than a person waits after having said stop."""
    step = max(1, _SLOW_NUMBERS * threads // block.shape[1]) if kind.startswith("IQ") else len(block)
    yield from (block[start : start + step] for start in range(0, len(block), step))


def _weights_for(importance: F32 | None, expert: int) -> F32 | None:
    if importance is None or importance.ndim == 1:
        return importance
    return np.ascontiguousarray(importance[expert])


def _pack(block: F32, choice: Choice, weights: F32 | None, threads: int) -> NDArray[Any]:
    name, kind = choice.tensor.name, choice.type
    require_numbers(block, name, kind)
    if kind == "F32":
        return block
    return ggml.quantize(block, kind, importance=weights, threads=threads).reshape(-1)
