"""Packs GGUF headers and lays tensors one after the other. Knows bytes and places, no model and no disk.

A `Layout` is a whole file before its weights: the header's bytes and where every tensor's data lies. Equal input gives
equal bytes. Source of the format: the GGUF specification, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from runtime.gguf_types import ARRAY, BOOL, SCALARS, STRING, TENSOR_TYPES, TYPE_BY_NAME, VALUE_TYPE_NAMES

ALIGNMENT = 32  # bytes; what llama.cpp takes where a file says nothing
_VERSION = 3
_NUMBER_OF = {kind.name: number for number, kind in TENSOR_TYPES.items()}
_KIND_OF = {name: number for number, name in VALUE_TYPE_NAMES.items()}
_NUMPY = {"u8": "<u1", "i8": "<i1", "u16": "<u2", "i16": "<i2", "u32": "<u4", "i32": "<i4", "f32": "<f4",
          "u64": "<u8", "i64": "<i8", "f64": "<f8", "bool": "<u1"}  # fmt: skip

Scalar = int | float | bool | str | bytes


class KeyValue(NamedTuple):
    """A metadata value with the type it has in the file; `kind` is a name such as "u32", "string" or "[f32]".

    The kind "raw" holds the type's number and the value as bytes, as another file has them.
    """

    kind: str
    content: Scalar | Sequence[Scalar]


def u32(number: int) -> KeyValue:
    """An unsigned whole number of 32 bits."""
    return KeyValue("u32", number)


def f32(number: float) -> KeyValue:
    """A number of 32 bits."""
    return KeyValue("f32", number)


def boolean(value: bool) -> KeyValue:
    """Yes or no."""
    return KeyValue("bool", value)


def string(text: str | bytes) -> KeyValue:
    """A text; bytes stand as they are."""
    return KeyValue("string", text)


def array(kind: str, items: Sequence[Scalar]) -> KeyValue:
    """A list of values of one kind, such as "string" or "i32"."""
    return KeyValue(f"[{kind}]", items)


class TensorEntry(NamedTuple):
    """A tensor of the file to be; the last number of `shape` is the length of a row."""

    name: str
    shape: tuple[int, ...]
    type: str

    @property
    def n_bytes(self) -> int:
        """Bytes of the tensor's data. Asserts that its rows can be cut into the type's blocks."""
        kind = TYPE_BY_NAME[self.type]
        rows, row = int(np.prod(self.shape[:-1], dtype=np.int64)), self.shape[-1]
        assert row % kind.block == 0, self
        return rows * (row // kind.block) * kind.block_bytes


class Placed(NamedTuple):
    """A tensor and where its data begins, in bytes from the file's beginning."""

    entry: TensorEntry
    offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A file before its weights."""

    header: bytes  # padded: the first tensor follows at once
    tensors: tuple[Placed, ...]
    size: int  # bytes of the whole file


def layout(metadata: Mapping[str, KeyValue], tensors: Iterable[TensorEntry]) -> Layout:
    """Returns the header's bytes and the place of every tensor, in the order given."""
    entries = tuple(tensors)
    described, at = [], 0
    for entry in entries:
        described.append(_description(entry, at))
        at += padded(entry.n_bytes)
    start = b"GGUF" + struct.pack("<IQQ", _VERSION, len(entries), len(metadata))
    header = start + b"".join(map(_pair, metadata.items())) + b"".join(described)
    header += bytes(-len(header) % ALIGNMENT)
    placed, offset = [], len(header)
    for entry in entries:
        placed.append(Placed(entry, offset))
        offset += padded(entry.n_bytes)
    return Layout(header, tuple(placed), offset)


def padded(n_bytes: int) -> int:
    """Returns a size rounded up to the alignment."""
    return n_bytes + -n_bytes % ALIGNMENT


def _pair(item: tuple[str, KeyValue]) -> bytes:
    key, (kind, content) = item
    name = _text(key)
    if kind == "raw":
        assert isinstance(content, bytes)
        return name + content
    if kind.startswith("["):
        return name + struct.pack("<I", ARRAY) + _array(kind[1:-1], content)  # type: ignore[arg-type]
    return name + struct.pack("<I", _KIND_OF[kind]) + _scalar(kind, content)  # type: ignore[arg-type]


def _scalar(kind: str, content: Scalar) -> bytes:
    number = _KIND_OF[kind]
    if number == STRING:
        assert isinstance(content, str | bytes), content
        return _text(content)
    if number == BOOL:
        return bytes([bool(content)])
    return SCALARS[number].pack(content)


def _array(kind: str, items: Sequence[Scalar]) -> bytes:
    head = struct.pack("<IQ", _KIND_OF[kind], len(items))
    if kind == "string":
        return head + b"".join(_text(item) for item in items)  # type: ignore[arg-type]
    return head + np.asarray(items, dtype=_NUMPY[kind]).tobytes()


def _text(text: str | bytes) -> bytes:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def _description(entry: TensorEntry, offset: int) -> bytes:
    dims = struct.pack(f"<I{len(entry.shape)}Q", len(entry.shape), *reversed(entry.shape))
    return _text(entry.name) + dims + struct.pack("<IQ", _NUMBER_OF[entry.type], offset)
