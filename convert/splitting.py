"""Divides a file into parts of a limited size, as llama.cpp opens them: NAME-00001-of-00003.gguf and so on.

The first part holds the metadata; each says which it is of how many. Knows names and sizes, and writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from convert.gguf_file import KeyValue, Layout, TensorEntry, layout, padded
from runtime.errors import UserError
from runtime.text import _

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", re.IGNORECASE)
_MOST_PARTS = 99_999


class BadSize(UserError):
    """Something typed that is no size."""

    code = "bad_size"

    def __init__(self, text: str) -> None:
        super().__init__(_("“{text}” is no size.").format(text=text), "", _("Write for example 80MB, or 2G."))


def size_of(text: str) -> int:
    """Returns the bytes that "2G", "80MB" or "1000" mean. Raises `BadSize`."""
    found = _SIZE.fullmatch(text.strip())
    size = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if size < 1:
        raise BadSize(text)
    return size


def layouts(metadata: Mapping[str, KeyValue], tensors: Sequence[TensorEntry], limit: int) -> tuple[Layout, ...]:
    """Returns one layout for each part; a single one where all fits or `limit` is 0.

    A part is larger than `limit` only where a single tensor is.
    """
    whole = layout(metadata, tensors)
    if not limit or whole.size <= limit:
        return (whole,)
    room = [limit - len(layout(metadata, ()).header), limit]
    parts = _divided(tensors, room)
    assert len(parts) <= _MOST_PARTS
    if len(parts) == 1:
        return (whole,)
    return tuple(
        layout({**(metadata if at == 0 else {}), **_keys(at, len(parts), len(tensors))}, part)
        for at, part in enumerate(parts)
    )


def targets(target: Path, count: int) -> tuple[Path, ...]:
    """Returns the names of so many parts; one part has the name itself."""
    if count == 1:
        return (target,)
    return tuple(target.with_name(f"{target.stem}-{at:05}-of-{count:05}.gguf") for at in range(1, count + 1))


def _divided(tensors: Sequence[TensorEntry], room: Sequence[int]) -> list[list[TensorEntry]]:
    parts: list[list[TensorEntry]] = [[]]
    left = room[0]
    for tensor in tensors:
        needed = padded(tensor.n_bytes) + _described(tensor)
        if parts[-1] and needed > left:
            parts.append([])
            left = room[1]
        if not parts[-1]:
            left -= 256  # the keys of a part, and its padding
        parts[-1].append(tensor)
        left -= needed
    return parts


def _described(tensor: TensorEntry) -> int:
    return 24 + len(tensor.name.encode()) + 8 * len(tensor.shape)  # bytes in the table of tensors


def _keys(at: int, count: int, n_tensors: int) -> dict[str, KeyValue]:
    return {
        "split.no": KeyValue("u16", at), "split.count": KeyValue("u16", count),
        "split.tensors.count": KeyValue("i32", n_tensors),
    }  # fmt: skip
