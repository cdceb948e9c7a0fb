"""Looks for weights that are no numbers, or too large for the type that they are to have. Knows no file.

Every piece is looked at when it is written; a whole source can be looked at before, which reads all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from convert.recipes import Choice
from convert.tensors import F32, Product
from runtime import ggml
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.model_errors import clean_name
from runtime.tensors import Bytes
from runtime.text import _, ngettext

# Numbers of these types are no finite ones where every bit of the exponent is set, as in the smallest such pattern here
_NOT_FINITE: dict[str, tuple[type[np.signedinteger[Any]], int]] = {
    "F16": (np.int16, 0x7C00), "BF16": (np.int16, 0x7F80), "F32": (np.int32, 0x7F80_0000),
    "F64": (np.int64, 0x7FF0_0000_0000_0000),
}  # fmt: skip
_WHOLE = ("I8", "I16", "I32", "I64")
_PIECE = 1 << 19  # bytes that stay in the processor's cache while they are looked at twice
_MOST_SHOWN = 20  # tensors, each in a line


class NotNumbers(UserError):
    """Weights of the source that are no numbers."""

    code = "not_numbers"

    def __init__(self, tensor: str) -> None:
        super().__init__(
            _("The model is damaged: “{name}” holds values that are no numbers.").format(name=clean_name(tensor)),
            _("Some of its weights are NaN or infinite, which nothing can be calculated with."),
            _("Get the model anew. If you trained it yourself, take a checkpoint from before it diverged."),
        )


class WrongNumbers(UserError):
    """Weights that the chosen type cannot hold."""

    code = "wrong_numbers"

    def __init__(self, tensor: str, kind: str, largest: float) -> None:
        reason = _("Its numbers go up to {largest:.6g}; those of this type end at {limit:,.6g}.")
        super().__init__(
            _("Tensor “{name}” cannot be written as {type}.").format(name=clean_name(tensor), type=kind),
            reason.format(largest=largest, limit=ggml.largest(kind)),
            _("Choose BF16 or F32, which hold numbers of this size; --check-values names every tensor like this one."),
        )


class WrongValues(UserError):
    """What is wrong with the weights of a whole source."""

    code = "wrong_values"

    def __init__(self, faults: Sequence[Fault]) -> None:
        shown = [fault.words() for fault in faults[:_MOST_SHOWN]]
        more = len(faults) - len(shown)
        if more:
            words = ngettext("{count} more tensor is like this.", "{count} more tensors are like this.", more)
            shown.append(words.format(count=more))
        damaged = any(fault.not_numbers for fault in faults)
        super().__init__(
            ngettext("{count} tensor cannot be written.", "{count} tensors cannot be written.", len(faults)).format(
                count=len(faults)
            ),
            "\n".join(shown),
            _("Get the model anew.") if damaged else _("Choose BF16 or F32, which hold numbers of this size."),
            details="\n".join(fault.words() for fault in faults),
        )


class Fault(NamedTuple):
    """What is wrong with a tensor's values: how many of them are no numbers, or too large for its type."""

    tensor: str
    type: str
    not_numbers: int
    too_large: int

    def words(self) -> str:
        """Returns a sentence."""
        name = clean_name(self.tensor)
        if self.not_numbers:
            return ngettext(
                "“{name}” holds {count} value that is NaN or infinite.",
                "“{name}” holds {count} values that are NaN or infinite.", self.not_numbers,
            ).format(name=name, count=f"{self.not_numbers:,}")  # fmt: skip
        return ngettext(
            "“{name}” holds {count} value that is too large for {type}.",
            "“{name}” holds {count} values that are too large for {type}.", self.too_large,
        ).format(name=name, count=f"{self.too_large:,}", type=self.type)  # fmt: skip


class CheckProgress(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`done` of `total` values are looked at."""

    done: int
    total: int


class ValuesChecked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """All values are numbers that their types hold."""

    values: int


def check_values(
    choices: Sequence[Choice], products: Sequence[Product], stop: StopFlag
) -> Iterator[CheckProgress | ValuesChecked]:
    """Reads all weights. Yields `ValuesChecked` last, or where it was stopped; raises `WrongValues` otherwise."""
    total, done = sum(choice.tensor.n_elements for choice in choices), 0
    faults: list[Fault] = []
    for choice, product in zip(choices, products, strict=True):
        not_numbers, too_large, limit = 0, 0, ggml.largest(choice.type)
        for block in _numbers(choice, product):
            if stop.is_set():
                return
            odd = ~np.isfinite(block)
            not_numbers += int(np.count_nonzero(odd))
            too_large += int(np.count_nonzero(((block > limit) | (block < -limit)) & ~odd))
            done += block.size
            yield CheckProgress(done=done, total=total)
        product.release()
        if not_numbers or too_large:
            faults.append(Fault(choice.tensor.name, choice.type, not_numbers, too_large))
    if faults:
        raise WrongValues(faults)
    yield ValuesChecked(values=total)


def _numbers(choice: Choice, product: Product) -> Iterator[F32]:
    if choice.type not in _WHOLE:
        yield from product.blocks()


def require_numbers(block: F32, name: str, kind: str) -> None:
    """Raises `NotNumbers`, and `WrongNumbers` for what is too large for the type."""
    low, high = float(block.min()), float(block.max())  # NaN where any is NaN
    if not np.isfinite(low + high) and not np.isfinite(block).all():
        raise NotNumbers(name)
    if max(-low, high) > ggml.largest(kind):
        raise WrongNumbers(name, kind, max(-low, high))


def require_stored_numbers(raw: Bytes, name: str, kind: str) -> None:
    """Raises `NotNumbers` for bytes that are taken over as they are; `raw` holds whole blocks of the type."""
    if kind in _WHOLE:
        return
    pieces = (raw[start : start + _PIECE] for start in range(0, raw.size, _PIECE))
    if kind in _NOT_FINITE:
        sound = all(_are_finite(piece.view(_NOT_FINITE[kind][0]), _NOT_FINITE[kind][1]) for piece in pieces)
    else:
        step = max(1, _PIECE // ggml.named(kind).block_bytes) * ggml.named(kind).block_bytes
        parts = (raw[start : start + step] for start in range(0, raw.size, step))
        sound = all(bool(np.isfinite(ggml.dequantize(part, kind)).all()) for part in parts)
    if not sound:
        raise NotNumbers(name)


def _are_finite(bits: NDArray[np.signedinteger[Any]], least: int) -> bool:
    """Positive numbers are ordered as their bits are; negative ones lie, read without a sign, above all of them."""
    unsigned = bits.view(f"u{bits.itemsize}")
    return bool(bits.max() < least) and bool(unsigned.max() < least + (1 << (8 * bits.itemsize - 1)))
