"""Turns a tensor's numbers into the bytes of its type, block by block, with ggml's own functions. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convert.recipes import Choice
from convert.tensors import F32, Product
from runtime import ggml
from runtime.errors import UserError
from runtime.model_errors import clean_name
from runtime.text import _

_F16_MAX = 65504.0
_PASSED_BYTES = 1 << 25  # of a tensor that is taken over as it is, at once


class WrongNumbers(UserError):
    """Weights that the chosen type cannot hold."""

    code = "wrong_numbers"

    def __init__(self, tensor: str, kind: str, reason: str) -> None:
        super().__init__(
            _("Tensor “{name}” cannot be written as {type}.").format(name=clean_name(tensor), type=kind),
            reason,
            _("Choose BF16 or F32, which hold all numbers; if weights are not numbers at all, get the model anew."),
        )


def packed(choice: Choice, product: Product, *, importance: F32 | None, threads: int) -> Iterator[memoryview]:
    """Yields a tensor's bytes in order. `importance` weighs its columns: (length of a row,), or a line per expert.

    Raises `WrongNumbers`.
    """
    kept = product.stored(choice.type)
    if kept is not None:
        for start in range(0, kept.size, _PASSED_BYTES):
            yield kept[start : start + _PASSED_BYTES].data
        return
    rows_done, rows_per_expert = 0, choice.tensor.shape[-2] if len(choice.tensor.shape) > 1 else 1
    for block in product.blocks():
        weights = _weights_for(importance, rows_done // rows_per_expert)
        yield _pack(block, choice, weights, threads).data.cast("B")
        rows_done += len(block)


def _weights_for(importance: F32 | None, expert: int) -> F32 | None:
    if importance is None or importance.ndim == 1:
        return importance
    return np.ascontiguousarray(importance[expert])


def _pack(block: F32, choice: Choice, weights: F32 | None, threads: int) -> NDArray[Any]:
    name, kind = choice.tensor.name, choice.type
    _require_numbers(block, name, kind)
    if kind == "F32":
        return block
    try:
        return ggml.quantize(block, kind, importance=weights, threads=threads).reshape(-1)
    except ValueError as error:
        raise WrongNumbers(name, kind, str(error)) from error


def _require_numbers(block: F32, name: str, kind: str) -> None:
    low, high = float(block.min()), float(block.max())  # NaN where any is NaN
    if not np.isfinite(low + high):
        raise WrongNumbers(name, kind, _("It holds values that are no finite numbers."))
    if kind == "F16" and max(-low, high) > _F16_MAX:
        largest = _("Its numbers go up to {largest:.4g}; 16-bit ones end at {limit:,.0f}.")
        raise WrongNumbers(name, kind, largest.format(largest=max(-low, high), limit=_F16_MAX))
