"""Importance matrices: how much each column of a weight matrix matters, measured as the mean square of its inputs.

Reads and writes llama.cpp's GGUF format (for a tensor NAME, NAME.in_sum2 and NAME.counts) and reads the older .dat.
Knows no model and no way to measure. Source of both formats: the behaviour of llama.cpp's imatrix tool.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convert.gguf_file import KeyValue, TensorEntry, array, layout, padded, string, u32
from convert.safe_file import SafeFiles
from runtime.errors import UserError
from runtime.gguf_checkpoint import GgufTensors
from runtime.gguf_header import GgufHeader, read_header
from runtime.model_errors import clean_name
from runtime.places import shown_path
from runtime.text import _, ngettext

F32 = NDArray[np.float32]
_SUMS, _COUNTS = ".in_sum2", ".counts"
_LARGEST = 1e12  # a mean beyond it overflows while a scale is searched
_EMBEDDING = "token_embd.weight"  # looked up, not multiplied: its inputs were never measured
_MOST_NAME_BYTES, _MOST_PATH_BYTES = 255, 1 << 16


class NotAnImportanceMatrix(UserError):
    """A file that holds no importance matrix, or a damaged one."""

    code = "not_an_importance_matrix"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("“{path}” is no importance matrix that can be used.").format(path=shown_path(path)),
            reason,
            _("Make one with “quern imatrix”, or with llama.cpp's imatrix tool."),
        )


class ForeignImportanceMatrix(UserError):
    """An importance matrix that was measured on another model."""

    code = "foreign_importance_matrix"

    def __init__(self, reason: str) -> None:
        super().__init__(
            _("The importance matrix belongs to another model."),
            reason,
            _("Make one for this model with “quern imatrix”."),
        )


class Measured(NamedTuple):
    """Of one tensor: the squares of its inputs, summed per column, and over how many inputs; a line per expert."""

    sums: F32  # (matrices, columns)
    counts: NDArray[np.int64]  # (matrices), or (1) for all

    def means(self) -> F32:
        """Returns the mean squares (matrices * columns); 1 for an expert that no input was sent to."""
        seen = self.counts.astype(np.float32)[:, None]
        parts = self.sums.reshape(len(self.counts), -1)
        means = np.divide(parts, seen, out=np.ones_like(parts), where=seen > 0)
        return np.ascontiguousarray(means.reshape(-1), np.float32)


@dataclass(frozen=True, slots=True)
class Importance:
    """An importance matrix: what was measured, by the names of a GGUF file's tensors, on which texts, and how much."""

    tensors: Mapping[str, Measured]
    texts: tuple[str, ...] = ()
    n_chunks: int = 0
    chunk_size: int = 0
    name: str = field(default="", compare=False)  # of its file

    def weights_for(self, name: str, shape: Sequence[int]) -> F32 | None:
        """Returns how much the columns of a tensor matter: (columns), or (experts, columns); None where nobody knows.

        Raises `ForeignImportanceMatrix`.
        """
        measured = self.tensors.get(name)
        if measured is None:
            return None
        means, columns, experts = measured.means(), shape[-1], shape[-3] if len(shape) > 2 else 1
        if means.size == columns * experts:
            return means.reshape(experts, columns) if len(shape) > 2 else means
        if name == _EMBEDDING:
            return None
        reason = ngettext(
            "It has {found} value for “{tensor}”, which has room for {wanted}.",
            "It has {found} values for “{tensor}”, which has room for {wanted}.", means.size,
        )  # fmt: skip
        raise ForeignImportanceMatrix(reason.format(
            found=f"{means.size:,}", tensor=clean_name(name), wanted=f"{columns * experts:,}"))  # fmt: skip

    def require_any_of(self, names: Iterable[str]) -> None:
        """Raises `ForeignImportanceMatrix` where it knows none of a model's tensors."""
        if self.tensors.keys().isdisjoint(names):
            reason = _("No tensor of this model is in it; its first is “{first}”.")
            raise ForeignImportanceMatrix(reason.format(first=clean_name(next(iter(self.tensors)))))

    def keys(self) -> dict[str, KeyValue]:
        """Returns what a file that was quantized with it says about it, as llama.cpp's tool writes it."""
        keys = {"quantize.imatrix.file": string(self.name)}
        if self.texts:
            keys["quantize.imatrix.dataset"] = string(self.texts[0])
        return keys | {
            "quantize.imatrix.entries_count": u32(len(self.tensors)),
            "quantize.imatrix.chunks_count": u32(self.n_chunks),
        }


# --- writing ---------------------------------------------------------------------------------------------------------


def write_importance(importance: Importance, target: Path) -> None:
    """Writes the file, whole or not at all. Raises `NotWritten`."""
    arrays = dict(_arrays(importance.tensors))
    keys = {
        "general.type": string("imatrix"), "imatrix.datasets": array("string", importance.texts),
        "imatrix.chunk_count": u32(importance.n_chunks), "imatrix.chunk_size": u32(importance.chunk_size),
    }  # fmt: skip
    planned = layout(keys, (TensorEntry(name, values.shape, "F32") for name, values in arrays.items()))
    with SafeFiles([target]) as files:
        files.write(planned.header)
        for values in arrays.values():
            files.write(values.tobytes().ljust(padded(values.nbytes), b"\0"))


def _arrays(tensors: Mapping[str, Measured]) -> Iterator[tuple[str, F32]]:
    for name in sorted(tensors, key=str.encode):
        sums, counts = tensors[name]
        yield name + _SUMS, sums.reshape(len(counts), -1)
        yield name + _COUNTS, counts.astype(np.float32).reshape(-1, 1)


# --- reading ---------------------------------------------------------------------------------------------------------


def read_importance(path: Path) -> Importance:
    """Reads either format. Raises `NotAnImportanceMatrix`, and `ModelMissing` and its kin for GGUF files."""
    if path.exists() and not path.is_file():
        raise NotAnImportanceMatrix(path, _("It is no ordinary file."))
    try:
        with path.open("rb") as file:
            is_gguf = file.read(4) == b"GGUF"
            file.seek(0)
            found = _from_gguf(path) if is_gguf else _from_dat(path, file)
    except OSError as error:
        said = _("The system says: {error}.").format(error=error.strerror or str(error))
        raise NotAnImportanceMatrix(path, said) from error
    for name, measured in found.tensors.items():
        _check(path, name, measured)
    return found


def _check(path: Path, name: str, measured: Measured) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        means = measured.means()
    low, high = float(means.min()), float(means.max())  # NaN where any is NaN
    if not (low >= 0 and high <= _LARGEST):
        reason = _("Its values for “{tensor}” go from {low:.4g} to {high:.4g}.")
        raise NotAnImportanceMatrix(path, reason.format(tensor=clean_name(name), low=low, high=high))


def _from_gguf(path: Path) -> Importance:
    header = read_header(path)
    if header.kind != "imatrix":
        raise NotAnImportanceMatrix(path, _("It is a GGUF file of another kind: {kind}.").format(kind=header.kind))
    source = GgufTensors(header)
    try:
        return Importance(
            dict(_measured(header, source)), _texts(header), _number(header, "imatrix.chunk_count"),
            _number(header, "imatrix.chunk_size"), path.name,
        )  # fmt: skip
    finally:
        source.close()


def _measured(header: GgufHeader, source: GgufTensors) -> Iterator[tuple[str, Measured]]:
    names = [tensor.name.removesuffix(_SUMS) for tensor in header.tensors if tensor.name.endswith(_SUMS)]
    if not names:
        raise NotAnImportanceMatrix(header.path, _("It holds no measurements."))
    for name in names:
        if name + _COUNTS not in source.infos:
            reason = _("“{tensor}” has sums, and no counts.").format(tensor=clean_name(name))
            raise NotAnImportanceMatrix(header.path, reason)
        yield name, _one(header.path, name, source.read(name + _SUMS), source.read(name + _COUNTS))


def _one(path: Path, name: str, sums: F32, counts: F32) -> Measured:
    whole = np.isfinite(counts).all() and (counts >= 0).all() and (counts < 2**53).all()
    if not whole or sums.size % counts.size:
        reason = _("What it counts for “{tensor}” cannot be.").format(tensor=clean_name(name))
        raise NotAnImportanceMatrix(path, reason)
    counted = np.floor(counts.reshape(-1).astype(np.float64) + 0.5).astype(np.int64)
    return Measured(sums.reshape(counts.size, -1), counted)


def _texts(header: GgufHeader) -> tuple[str, ...]:
    found = header.metadata.get("imatrix.datasets", ())
    return tuple(map(str, found)) if isinstance(found, Iterable) and not isinstance(found, str) else ()


def _number(header: GgufHeader, key: str) -> int:
    found = header.metadata.get(key)
    return found if isinstance(found, int) else 0


class _Reader:
    """Fields of a .dat file, one after the other; raises EOFError where one does not fit.

    Reads no further than the fields make sense: the file may be a model of many gigabytes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.left = file, os.fstat(file.fileno()).st_size

    def take(self, n_bytes: int) -> bytes:
        if not 0 <= n_bytes <= self.left:
            raise EOFError
        self.left -= n_bytes
        return self._file.read(n_bytes)

    def number(self) -> int:
        (found,) = struct.unpack("<i", self.take(4))
        return int(found)

    def text(self, most: int) -> str:
        length = self.number()
        if length > most:
            raise EOFError
        return self.take(length).decode("utf-8", "replace")


def _from_dat(path: Path, file: BinaryIO) -> Importance:
    reader = _Reader(file)
    try:
        count = reader.number()
        if count < 1:
            raise EOFError
        tensors = dict(_dat_entry(reader) for _entry in range(count))
        n_chunks = reader.number() if reader.left else 0
        texts = (reader.text(_MOST_PATH_BYTES),) if reader.left else ()
    except EOFError as error:
        raise NotAnImportanceMatrix(path, _("It is neither of the two known kinds, or it is cut off.")) from error
    return Importance(tensors, texts, n_chunks, 0, path.name)


def _dat_entry(reader: _Reader) -> tuple[str, Measured]:
    """Returns one tensor's measurements: means there, multiplied by how often the tool was called."""
    name, calls, n_values = reader.text(_MOST_NAME_BYTES), reader.number(), reader.number()
    if not name or n_values < 1:
        raise EOFError
    values = np.frombuffer(reader.take(4 * n_values), "<f4").astype(np.float32)
    return name, Measured(values.reshape(1, -1), np.array([max(calls, 1)]))
