"""Packs GGUF bytes by hand, so that any field may lie. Checks nothing."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_FORMATS = {
    U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d",
}  # fmt: skip

Key = tuple[str | bytes, int, Any]
Tensor = tuple[str | bytes, Sequence[int], int, int]

# The least that passes for a model: one tensor of 32 numbers.
GOOD_KEYS: tuple[Key, ...] = (
    ("general.architecture", STRING, "llama"),
    ("llama.block_count", U32, 1),
    ("llama.context_length", U32, 128),
    ("llama.embedding_length", U32, 32),
    ("llama.attention.head_count", U32, 4),
    ("llama.attention.head_count_kv", U32, 2),
)
GOOD_TENSOR: Tensor = ("output_norm.weight", (32,), 0, 0)
GOOD_DATA = bytes(128)


def pack(
    kv: Sequence[Key] = GOOD_KEYS, tensors: Sequence[Tensor] = (GOOD_TENSOR,), data: bytes = GOOD_DATA, *,
    magic: bytes = b"GGUF", version: int = 3, n_kv: int | None = None, n_tensors: int | None = None,
    alignment: int = 32,
) -> bytes:  # fmt: skip
    """Returns the bytes of a file.

    `kv` holds (key, type, value); the value of an ARRAY is (item type, items) or (item type, items, claimed count),
    and `bytes` stand for themselves. `tensors` holds (name, dims, type, offset). `n_kv` and `n_tensors` replace the
    true counts; `alignment` only pads what lies before `data`.
    """
    header = magic + struct.pack("<I", version)
    header += struct.pack("<QQ", len(tensors) if n_tensors is None else n_tensors, len(kv) if n_kv is None else n_kv)
    header += b"".join(text(key) + struct.pack("<i", kind) + value(kind, content) for key, kind, content in kv)
    header += b"".join(tensor(*described) for described in tensors)
    return header + bytes(-len(header) % alignment) + data


def text(content: str | bytes, *, length: int | None = None) -> bytes:
    """Returns a string field; `length` replaces the true one."""
    raw = content.encode() if isinstance(content, str) else content
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def value(kind: int, content: Any) -> bytes:
    """Returns a value's bytes without its type."""
    if isinstance(content, bytes):
        return content
    if kind == STRING:
        return text(content)
    if kind == ARRAY:
        item_type, items, *claimed = content
        count = claimed[0] if claimed else len(items)
        return struct.pack("<iQ", item_type, count) + b"".join(value(item_type, item) for item in items)
    return struct.pack("<" + _FORMATS[kind], content)


def tensor(name: str | bytes, dims: Sequence[int], kind: int, offset: int, *, n_dims: int | None = None) -> bytes:
    """Returns a tensor's description; `n_dims` replaces the true number."""
    shape = struct.pack("<I", len(dims) if n_dims is None else n_dims) + b"".join(struct.pack("<Q", n) for n in dims)
    return text(name) + shape + struct.pack("<iQ", kind, offset)


def with_keys(*changed: Key) -> tuple[Key, ...]:
    """Returns the good keys with some replaced or added."""
    names = {key for key, _, _ in changed}
    return (*(key for key in GOOD_KEYS if key[0] not in names), *changed)
