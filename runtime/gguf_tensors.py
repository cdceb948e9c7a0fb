"""Reads and checks the table of tensors in a GGUF file. Knows no metadata and reads no weights."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from runtime.gguf_reader import MAX_DIMS, Cursor, Lie
from runtime.gguf_types import REMOVED_TYPES, TENSOR_TYPES
from runtime.model_errors import UnsupportedModel, clean_name
from runtime.text import _

_SHAPES = {n: struct.Struct(f"<4x{n}Qi") for n in range(1, MAX_DIMS + 1)}  # dimensions and type
_TYPES_TO_COME = 4096  # beyond it a type's number is damage, not a newer format


class TensorInfo(msgspec.Struct, frozen=True, gc=False):
    """One tensor. `shape` is in GGUF's order (fastest first), `offset` counts from the data's beginning in its file.

    `part` is the file of a split set, 0 for the first.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    offset: int
    n_bytes: int
    part: int = 0

    @property
    def n_elements(self) -> int:
        return math.prod(self.shape)

    def in_part(self, part: int) -> TensorInfo:
        """Returns the tensor as one of a later file."""
        return msgspec.structs.replace(self, part=part)


def read(path: Path, cursor: Cursor, count: int) -> list[TensorInfo]:
    """Returns the tensors described from the cursor on. Raises `Lie` and `UnsupportedModel`."""
    known: dict[bytes, tuple[tuple[int, ...], str, int]] = {}  # many tensors have the same shape and type
    tensors = []
    for name, described, offset in cursor.tensors(count):
        if described not in known:
            known[described] = _shape(path, name, described)
        shape, kind, n_bytes = known[described]
        tensors.append(TensorInfo(name, shape, kind, offset, n_bytes))
    return tensors


def _shape(path: Path, name: str, described: bytes) -> tuple[tuple[int, ...], str, int]:
    """Returns shape, type and size in bytes."""
    *shape, number = _SHAPES[described[0]].unpack(described)
    n_elements = math.prod(shape)
    if min(shape) < 1 or n_elements >= 1 << 63:
        raise Lie(_("Tensor “{name}” has the impossible shape {shape}.").format(
            name=clean_name(name), shape=" × ".join(f"{size:,}" for size in shape)))  # fmt: skip
    kind = TENSOR_TYPES.get(number) or _no_such_type(path, clean_name(name), number)
    if shape[0] % kind.block:
        raise Lie(_("Tensor “{name}” has rows of {n} numbers; {type} packs them in blocks of {block}.").format(
            name=clean_name(name), n=f"{shape[0]:,}", type=kind.name, block=kind.block))  # fmt: skip
    return tuple(shape), kind.name, n_elements // kind.block * kind.block_bytes


def _no_such_type(path: Path, name: str, number: int) -> NoReturn:
    if number in REMOVED_TYPES:
        raise UnsupportedModel(
            path,
            _("It holds numbers of type {type}, which llama.cpp has dropped.").format(type=REMOVED_TYPES[number]),
            _("Download the model in another quantization, such as Q4_K_M."),
        )
    if not 0 <= number < _TYPES_TO_COME:
        raise Lie(_("Tensor “{name}” has the type {type}, which cannot be.").format(name=name, type=number))
    raise UnsupportedModel(
        path, _("Tensor “{name}” has the type {type}, which this version does not know.").format(name=name, type=number)
    )


def check(tensors: Sequence[TensorInfo], *, alignment: int, data_offset: int, size: int) -> None:
    """Checks that the tensors follow each other without holes, as llama.cpp demands, and end inside the file."""
    names = [tensor.name for tensor in tensors]
    if len(set(names)) != len(names):
        [(name, _n)] = Counter(names).most_common(1)
        raise Lie(_("The tensor “{name}” appears twice.").format(name=clean_name(name)))
    expected = end = 0
    for tensor in tensors:
        if tensor.offset != expected:
            raise Lie(_wrong_offset(tensor, expected, alignment))
        end = tensor.offset + tensor.n_bytes
        expected = -(-end // alignment) * alignment
    if tensors and data_offset + end > size:
        raise Lie(
            _("It is cut off: expected {expected} bytes, the file has {size}.").format(
                expected=f"{data_offset + end:,}", size=f"{size:,}"
            )
        )


def _wrong_offset(tensor: TensorInfo, expected: int, alignment: int) -> str:
    if tensor.offset % alignment:
        reason = _("Tensor “{name}” lies at byte {at}, which is no multiple of {alignment}.")
    elif tensor.offset < expected:
        reason = _("Tensor “{name}” lies at byte {at} and overlaps the one before it, which ends at {expected}.")
    else:
        reason = _("Tensor “{name}” lies at byte {at}; it should follow the one before it at {expected}.")
    return reason.format(
        name=clean_name(tensor.name), at=f"{tensor.offset:,}", alignment=alignment, expected=f"{expected:,}"
    )
