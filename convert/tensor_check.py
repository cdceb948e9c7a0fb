"""Holds a written file against its plan: the same header, the same tensors, and numbers near enough to the source's.

Reads the source again and the file through our reader, block by block. Knows no engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from convert.gguf_file import Placed
from convert.plan import Plan
from convert.recipes import Choice
from convert.tensors import F32, Product
from runtime import ggml
from runtime.checkpoint import Checkpoint
from runtime.errors import UserError
from runtime.gguf_types import TYPE_BY_NAME
from runtime.model_errors import clean_name
from runtime.text import _

_EXACT = ("F32", "F64", "I8", "I16", "I32", "I64")
# Root-mean-square error and largest error as shares of the numbers' own, for types of at least so many bits.
_LIMITS = ((16.0, 0.01, 0.005), (8.0, 0.05, 0.02), (6.0, 0.15, 0.12), (5.0, 0.25, 0.2), (4.0, 0.45, 0.35),
           (0.0, 1.5, 3.0))  # fmt: skip
_UNDERFLOW = 1e-5  # numbers so small may vanish: 16-bit scales end near 6e-8


class VerificationFailed(UserError):
    """The written file is not what it should be; it was taken away."""

    code = "verification_failed"

    def __init__(self, reason: str) -> None:
        super().__init__(
            _("The result does not agree with its source, and was taken away."),
            reason,
            _("Try again; if the source has not changed meanwhile, this is a fault of Quern or of the disk."),
        )


class TensorError(msgspec.Struct, frozen=True, kw_only=True):
    """How far a tensor lies from its source: root of the mean square, and the largest; both also as shares of the
    source's own: `share` of its root mean square, `peak` of its largest number.
    """

    name: str
    type: str
    rms: float
    max: float
    share: float
    peak: float


def check_headers(plan: Plan, parts: Sequence[Path]) -> None:
    """Raises `VerificationFailed` unless the files begin with what was planned and have the planned sizes."""
    for part, layout in zip(parts, plan.layouts, strict=True):
        with part.open("rb") as file:
            same = file.read(len(layout.header)) == layout.header
        if not same or part.stat().st_size != layout.size:
            raise VerificationFailed(_("The file's header or size is not what was written."))


def check_tensors(plan: Plan, written: Checkpoint) -> None:
    """Raises `VerificationFailed` unless the file, read anew, holds the planned tensors."""
    found = [(name, written.info(name).shape, written.info(name).dtype.upper()) for name in written.names]
    planned = [(placed.entry.name, placed.entry.shape, placed.entry.type) for placed in _placed(plan)]
    if found != planned:
        raise VerificationFailed(_("The file's list of tensors is not what was planned."))


def errors(plan: Plan, written: Checkpoint) -> Iterator[tuple[TensorError, int]]:
    """Yields each tensor's error and its bytes. Raises `VerificationFailed` for one that no rounding explains."""
    for choice, product, placed in zip(plan.choices, plan.products, _placed(plan), strict=True):
        error = _error(choice, product, written)
        if not _is_near(choice.type, error, weighed=plan.weights_of(choice) is not None):
            reason = _("Tensor “{name}” ({type}) differs from its source by {share:.2g} of its size.")
            raise VerificationFailed(
                reason.format(name=clean_name(error.name), type=choice.type, share=error.share)
            )
        product.release()
        written.release(error.name)
        yield error, placed.entry.n_bytes


def _placed(plan: Plan) -> list[Placed]:
    return [placed for layout in plan.layouts for placed in layout.tensors]


def _error(choice: Choice, product: Product, written: Checkpoint) -> TensorError:
    name, kind = choice.tensor.name, choice.type
    raw = written.raw(name)
    kept = product.stored(kind)
    if kept is not None:
        if not np.array_equal(kept, raw):
            raise VerificationFailed(_("Tensor “{name}” is not the source's.").format(name=clean_name(name)))
        return TensorError(name=name, type=kind, rms=0.0, max=0.0, share=0.0, peak=0.0)
    sums = np.zeros(2)
    largest, top, count, at = 0.0, 1e-30, 0, 0
    for block in product.blocks():
        size = ggml.row_bytes(kind, block.shape[-1]) * len(block)
        difference = ggml.dequantize(raw[at : at + size], kind).reshape(block.shape) - block
        sums += _square(difference), _square(block)
        top = max(top, float(block.max(initial=0.0)), -float(block.min(initial=0.0)))
        largest = max(largest, float(np.abs(difference, out=difference).max(initial=0.0)))
        count, at = count + block.size, at + size
    rms = math.sqrt(sums[0] / max(count, 1))
    own = max(math.sqrt(sums[1] / max(count, 1)), 1e-30)
    return TensorError(name=name, type=kind, rms=rms, max=largest, share=rms / own, peak=largest / top)


def _square(block: F32) -> float:
    flat = block.reshape(-1)
    return float(sum(float(np.dot(piece, piece)) for piece in np.array_split(flat, max(1, flat.size >> 16))))


def _is_near(kind: str, error: TensorError, *, weighed: bool) -> bool:
    """`weighed`: an importance matrix let numbers go that do not matter, so that the largest error says nothing."""
    if not math.isfinite(error.rms + error.max):
        return False
    if kind in _EXACT:
        return error.max == 0.0
    form = TYPE_BY_NAME[kind]
    bits = 8 * form.block_bytes / form.block
    share, peak = next((share, peak) for least, share, peak in _LIMITS if bits >= least)
    return (error.share <= share and (weighed or error.peak <= peak)) or error.max <= _UNDERFLOW
