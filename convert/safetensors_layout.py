"""Lays tensors out in safetensors files, cut into shards by size, with their index. Knows bytes and places, no model.

The format, as its README has it: eight bytes with the header's length, a JSON object that gives each name its type, its
shape and where its bytes begin and end, then the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from convert.gguf_file import TensorEntry

MAX_SHARD = 5_000_000_000  # bytes of tensors in one file
INDEX = "model.safetensors.index.json"
_ALIGNMENT = 8


@dataclass(frozen=True, slots=True)
class Shard:
    """One file before its weights."""

    name: str
    header: bytes
    entries: tuple[TensorEntry, ...]

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self.header) + self.weight_bytes

    @property
    def weight_bytes(self) -> int:
        """Bytes of its tensors."""
        return sum(entry.n_bytes for entry in self.entries)


def shards_of(entries: Sequence[TensorEntry], *, limit: int = MAX_SHARD) -> list[Shard]:
    """Returns the files that hold the tensors, in order; a tensor larger than `limit` has a file of its own."""
    groups: list[list[TensorEntry]] = [[]]
    filled = 0
    for entry in entries:
        if groups[-1] and filled + entry.n_bytes > limit:
            groups.append([])
            filled = 0
        groups[-1].append(entry)
        filled += entry.n_bytes
    return [
        Shard(_name(number, len(groups)), _header(group), tuple(group)) for number, group in enumerate(groups, start=1)
    ]


def index_of(shards: Sequence[Shard]) -> dict[str, Any]:
    """Returns the contents of the index."""
    places = {entry.name: shard.name for shard in shards for entry in shard.entries}
    total = sum(shard.weight_bytes for shard in shards)
    return {"metadata": {"total_size": total}, "weight_map": places}


def _name(number: int, count: int) -> str:
    return "model.safetensors" if count == 1 else f"model-{number:05}-of-{count:05}.safetensors"


def _header(entries: Sequence[TensorEntry]) -> bytes:
    described: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for entry in entries:
        end = at + entry.n_bytes
        described[entry.name] = {"dtype": entry.type, "shape": list(entry.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text
