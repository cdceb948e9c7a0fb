"""Reads a safetensors file: a header in JSON, checked before anything is believed, and mapped tensors behind it.

The format, as its README has it: eight bytes with the header's length, a JSON object that gives each name its type, its
shape and where its bytes begin and end, then the bytes, without holes or overlaps.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.foreign_files import HEAD_BYTES, what_it_is
from runtime.mapped_file import MappedFile
from runtime.model_errors import DamagedModel, ModelMissing, ModelUnreadable, UnsupportedModel, clean_name
from runtime.number_types import ITEM_BYTES, to_f32
from runtime.tensors import F32, Bytes, TensorInfo, TensorSource
from runtime.text import _

_LENGTH_BYTES = 8
_MAX_HEADER = 1 << 25  # the format allows 100 MB; the largest shards have two
_MAX_DIMS = 16
_DTYPES = {
    "F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "F8_E4M3": "f8_e4m3", "F8_E5M2": "f8_e5m2",
    "F8_E8M0": "f8_e8m0", "I64": "i64", "I32": "i32", "I16": "i16", "I8": "i8", "U64": "u64", "U32": "u32",
    "U16": "u16", "U8": "u8", "BOOL": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a tensor's bytes lie, from the beginning of the file."""

    info: TensorInfo
    offset: int
    n_bytes: int


class _Lie(Exception):
    """Something in the header that cannot be true; the message is a sentence."""


class SafetensorsFile(TensorSource):
    """The tensors of one file, mapped. `metadata` holds the texts of its `__metadata__`."""

    def __init__(self, path: Path) -> None:
        """Raises `ModelMissing`, `ModelUnreadable`, `DamagedModel` or `UnsupportedModel`."""
        self.path = path
        self._stored, self.metadata = read_safetensors_header(path)
        self.infos = {name: stored.info for name, stored in self._stored.items()}
        self._file = MappedFile(path)

    def raw(self, name: str) -> Bytes:
        stored = self._stored[name]
        return self._file.piece(stored.offset, stored.n_bytes, align=ITEM_BYTES[stored.info.dtype])

    def decode(self, raw: Bytes, dtype: str) -> F32:
        return to_f32(raw, dtype)

    def release(self, name: str) -> None:
        stored = self._stored[name]
        self._file.release(stored.offset, stored.n_bytes)

    def close(self) -> None:
        self._file.close()


def read_safetensors_header(path: Path) -> tuple[dict[str, Stored], dict[str, str]]:
    """Returns the tensors of a file, in the order of their bytes, and its metadata. Reads no weights.

    Raises `ModelMissing`, `ModelUnreadable`, `DamagedModel` or `UnsupportedModel`.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # asked first: to open a pipe would wait for its other end
            raise ModelUnreadable(path, _("It is no ordinary file."))
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            head = file.read(_LENGTH_BYTES)
            length = int.from_bytes(head, "little")
            _check_length(head, length, status.st_size)
            text = file.read(length)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelMissing(path) from error
    except OSError as error:
        raise ModelUnreadable(path, _("The system says: {error}.").format(error=error.strerror or error)) from error
    except _Lie as lie:
        raise DamagedModel(path, _in_words(path, str(lie))) from lie
    try:
        return _checked(path, _parsed(text), data=_LENGTH_BYTES + length, size=status.st_size)
    except _Lie as lie:
        raise DamagedModel(path, _in_words(path, str(lie))) from lie


def _in_words(path: Path, reason: str) -> str:
    """Returns what the file is where it is known to be something else, and the reason otherwise."""
    with path.open("rb") as file:
        head, size = file.read(HEAD_BYTES), os.fstat(file.fileno()).st_size
    if not size:
        return _("The file is empty: 0 bytes.")
    known = what_it_is(head, size)
    is_other = known is not None and head[_LENGTH_BYTES : _LENGTH_BYTES + 1] != b"{"
    return known[0] if known is not None and is_other else reason


def _check_length(head: bytes, length: int, size: int) -> None:
    if len(head) < _LENGTH_BYTES or not 2 <= length <= size - _LENGTH_BYTES:
        raise _Lie(_("Its header claims {n} bytes; the file has {size}.").format(n=f"{length:,}", size=f"{size:,}"))
    if length > _MAX_HEADER:
        raise _Lie(_("Its header claims {n} bytes, more than any model has.").format(n=f"{length:,}"))


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise _Lie(_("Its header is no sound JSON.")) from error
    if not isinstance(header, dict):
        raise _Lie(_("Its header is no JSON object."))
    return header


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice, _n = Counter(name for name, _value in pairs).most_common(1)[0]
        raise _Lie(_("The name “{name}” appears twice in its header.").format(name=clean_name(twice)))
    return found


def _checked(
    path: Path, header: Mapping[str, Any], *, data: int, size: int
) -> tuple[dict[str, Stored], dict[str, str]]:
    said = header.get("__metadata__") or {}
    metadata = {key: value for key, value in said.items() if isinstance(value, str)} if isinstance(said, dict) else {}
    stored = [_stored(path, name, entry, data) for name, entry in header.items() if name != "__metadata__"]
    stored.sort(key=lambda tensor: (tensor.offset, tensor.n_bytes))
    end = data
    for tensor in stored:
        if tensor.offset != end:
            raise _Lie(_("Tensor “{name}” begins at byte {at}; it should follow the one before it at {end}.").format(
                name=clean_name(tensor.info.name), at=f"{tensor.offset:,}", end=f"{end:,}"))  # fmt: skip
        end += tensor.n_bytes
    if end > size:
        raise _Lie(_("It is cut off: expected {n} bytes, the file has {size}.").format(n=f"{end:,}", size=f"{size:,}"))
    if end < size:
        raise _Lie(_("It holds {n} bytes behind its last tensor.").format(n=f"{size - end:,}"))
    return {tensor.info.name: tensor for tensor in stored}, metadata


def _stored(path: Path, name: str, entry: object, data: int) -> Stored:
    shown = clean_name(name)
    dtype, shape, offsets = _fields(shown, entry)
    if dtype not in _DTYPES:
        raise UnsupportedModel(
            path, _("Tensor “{name}” holds numbers of type {type}, which this version does not know.").format(
                name=shown, type=clean_name(dtype)))  # fmt: skip
    info = TensorInfo(name, shape, _DTYPES[dtype])
    begin, end = offsets
    if end - begin != info.n_elements * ITEM_BYTES[info.dtype]:
        raise _Lie(_("Tensor “{name}” of shape {shape} and type {type} claims {n} bytes.").format(
            name=shown, shape=" × ".join(map(str, shape)), type=dtype, n=f"{end - begin:,}"))  # fmt: skip
    return Stored(info, data + begin, end - begin)


def _fields(name: str, entry: object) -> tuple[str, tuple[int, ...], tuple[int, int]]:
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(begin), int(end)]}:
            sizes = [size for size in shape if type(size) is int and 0 <= size < 1 << 63]
            fits = len(sizes) == len(shape) <= _MAX_DIMS and math.prod(sizes) < 1 << 63
            if fits and 0 <= begin <= end:
                return dtype, tuple(sizes), (begin, end)
    raise _Lie(_("What its header says of tensor “{name}” cannot be.").format(name=name))
