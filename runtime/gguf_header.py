"""Reads and checks what a GGUF file says about itself, without its weights. Knows no engine.

Whatever passes here may be handed to native code: every size, offset and type was held against the file.
The reading of single fields is in `gguf_reader.py`, the tensors' table in `gguf_tensors.py`, the checks of meaning in
`gguf_checks.py`.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BufferedIOBase
from pathlib import Path

from runtime import foreign_files, gguf_checks, gguf_tensors
from runtime.gguf_reader import Cursor, GgufArray, GgufText, Lie, Value
from runtime.gguf_tensors import TensorInfo
from runtime.gguf_types import FILE_TYPES, FLOAT32, UINT32
from runtime.model_errors import (
    DamagedModel,
    ModelMissing,
    ModelUnreadable,
    NotAModel,
    PartMissing,
    UnsupportedModel,
    clean_name,
    why_unreadable,
)
from runtime.text import _

__all__ = [
    "DamagedModel", "GgufArray", "GgufHeader", "GgufText", "ModelMissing", "ModelUnreadable", "NotAModel",
    "PartMissing", "TensorInfo", "UnsupportedModel", "Value", "clean_name", "read_header", "split_parts",
]  # fmt: skip

_MAGIC = b"GGUF"
_FIXED_BYTES = 24  # magic, version, number of tensors, number of keys
_NEWEST_VERSION = 3
_DEFAULT_ALIGNMENT, _MAX_ALIGNMENT = 32, 1 << 16
_TYPED_KEYS = {"general.alignment": UINT32, "adapter.lora.alpha": FLOAT32}  # llama.cpp aborts on other types
_MAX_KEYS, _MAX_TENSORS = 1 << 16, 1 << 16
_MIN_KEY_BYTES, _MIN_TENSOR_BYTES = 8 + 1 + 4 + 1, 8 + 1 + 4 + 8 + 4 + 8
_SPLIT_NAME = re.compile(r"(?P<prefix>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file, or a set of split files, says about itself.

    `path` is the file to hand to llama.cpp (the first of a set), `parts` are all files, `file_size` is their sum in
    bytes. `metadata` holds numbers, texts, short lists as tuples, and long lists as `GgufArray`. `data_offsets` says
    for each part where its tensors' data begins, `data_offset` for the first.
    """

    path: Path
    version: int
    metadata: Mapping[str, Value]
    tensors: tuple[TensorInfo, ...]
    alignment: int
    data_offset: int
    file_size: int
    parts: tuple[Path, ...] = field(default=())
    data_offsets: tuple[int, ...] = field(default=())

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    @property
    def kind(self) -> str:
        """ "model", or what else the file says it is ("adapter", "mmproj", "imatrix" …)."""
        return self.text("general.type") or "model"

    @property
    def name(self) -> str:
        """The model's own name, fit to be shown; the file's where it has none."""
        return clean_name(self.text("general.name")) or clean_name(self.path.stem)

    @property
    def context_length(self) -> int:
        """Tokens the model was trained to see; 0 where the file does not say."""
        return self.number("context_length")

    @property
    def n_positions(self) -> int:
        """Rows of the table of positions that a model learned; 0 without one. Native code ends the process beyond."""
        table = next((tensor for tensor in self.tensors if tensor.name == "position_embd.weight"), None)
        return table.shape[1] if table is not None and len(table.shape) > 1 else 0

    @property
    def n_params(self) -> int:
        return sum(tensor.n_elements for tensor in self.tensors)

    @property
    def n_vocab(self) -> int:
        """Tokens in the vocabulary; 0 without one."""
        tokens = self.metadata.get("tokenizer.ggml.tokens")
        return len(tokens) if isinstance(tokens, tuple | GgufArray) else 0

    @property
    def tensor_bytes(self) -> int:
        return sum(tensor.n_bytes for tensor in self.tensors)

    @property
    def tokenizer_model(self) -> str:
        return self.text("tokenizer.ggml.model")

    @property
    def quantization(self) -> str:
        """The file's type in words, as "Q4_K_M"; by the type that takes most bytes where the file does not say."""
        named = self.metadata.get("general.file_type")
        if isinstance(named, int) and named in FILE_TYPES:
            return FILE_TYPES[named]
        sizes: Counter[str] = Counter()
        for tensor in self.tensors:
            sizes[tensor.type] += tensor.n_bytes
        return sizes.most_common(1)[0][0] if sizes else ""

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.tensor_bytes / self.n_params if self.n_params else 0.0

    @property
    def chat_template(self) -> str | None:
        """The default chat template, if the file has one."""
        return self.chat_templates.get("default")

    @property
    def chat_templates(self) -> dict[str, str]:
        """All chat templates by name; the unnamed one is "default" and comes first."""
        found: dict[str, str] = {}
        for key, value in self.metadata.items():
            if key != "tokenizer.chat_template" and not key.startswith("tokenizer.chat_template."):
                continue
            if isinstance(value, str | GgufText):
                found[key.removeprefix("tokenizer.chat_template")[1:] or "default"] = _whole(value)
        return dict(sorted(found.items(), key=lambda template: template[0] != "default"))

    def number(self, key: str, default: int = 0) -> int:
        """Returns a whole number of the architecture's own keys ("block_count"), the largest one of a list."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        if isinstance(value, tuple):
            return max((int(n) for n in value if isinstance(n, int)), default=default)
        return int(value) if isinstance(value, int) else default

    def per_layer(self, key: str, n_layers: int, default: int = 0) -> tuple[int, ...]:
        """Returns a whole number for each layer, also where the file holds one for all."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        numbers = value if isinstance(value, tuple) else (value,) * n_layers
        return tuple(int(n) if isinstance(n, int) else default for n in numbers)[:n_layers]

    def text(self, key: str) -> str:
        """Returns a text by its full key; "" where it is missing or no text."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else ""


def read_header(path: Path | str, *, arrays: bool = True) -> GgufHeader:
    """Returns the checked header of a GGUF file; any part of a split set opens the whole set.

    With `arrays=False` the vocabulary's entries are passed over; that is for lists of many files.
    Raises `ModelMissing`, `ModelUnreadable`, `NotAModel`, `DamagedModel`, `UnsupportedModel` or `PartMissing`.
    """
    if not arrays:
        with contextlib.suppress(DamagedModel, UnsupportedModel):  # unless guessing made another file of it
            return _read_checked(Path(path), arrays=False, guess=True)
    return _read_checked(Path(path), arrays=arrays)


def _read_checked(path: Path, *, arrays: bool, guess: bool = False) -> GgufHeader:
    one = _read_file(path, guess)
    header = _read_set(one, guess) if _whole_number(one, "split.count") > 1 else one
    try:
        gguf_checks.check(header.metadata)
        gguf_checks.check_types(header.tensors)
        if arrays:
            gguf_checks.check_vocabulary(header.metadata)
    except Lie as lie:
        raise DamagedModel(header.path, str(lie)) from lie
    return header


def split_parts(path: Path) -> tuple[Path, ...]:
    """Returns all paths of the set that a file's name says it belongs to; only itself for an ordinary name."""
    match = _SPLIT_NAME.fullmatch(path.name)
    if not match:
        return (path,)
    count = int(match["count"])
    names = (f"{match['prefix']}-{part:05}-of-{match['count']}{path.suffix}" for part in range(1, count + 1))
    return tuple(path.with_name(name) for name in names)


# --- one file ---------------------------------------------------------------------------------------------------


def _read_file(path: Path, guess: bool) -> GgufHeader:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        raise ModelMissing(path) from error
    except OSError as error:
        raise ModelUnreadable(path, why_unreadable(error)) from error
    if not stat.S_ISREG(status.st_mode):
        raise ModelUnreadable(path, _unreadable_kind(status.st_mode))
    try:
        with path.open("rb") as file:
            if guess and hasattr(os, "posix_fadvise"):  # or the system reads megabytes of weights ahead
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            return _parse(path, file, os.fstat(file.fileno()).st_size, guess)
    except Lie as lie:
        raise DamagedModel(path, str(lie)) from lie
    except OSError as error:
        raise ModelUnreadable(path, why_unreadable(error)) from error


def _unreadable_kind(mode: int) -> str:
    return _("It is a folder, not a file.") if stat.S_ISDIR(mode) else _("It is no ordinary file.")


def _parse(path: Path, file: BufferedIOBase, size: int, guess: bool) -> GgufHeader:
    head = file.read(min(size, foreign_files.HEAD_BYTES))
    if head[:4] != _MAGIC:
        raise foreign_files.not_a_model(path, head, size)
    if size < _FIXED_BYTES:
        raise Lie(_("It is cut off: expected at least {n} bytes, the file has {size}.").format(
            n=_FIXED_BYTES, size=size))  # fmt: skip
    cursor = Cursor(file, size, len(_MAGIC), guess=guess)
    version = _version(path, cursor.u32())
    n_tensors, n_keys = cursor.u64(), cursor.u64()
    _check_counts(n_tensors, n_keys, cursor.left)
    metadata = _read_metadata(path, cursor, n_keys)
    alignment = _alignment(metadata)
    described = gguf_tensors.read(path, cursor, n_tensors)
    data_offset = -(-cursor.position // alignment) * alignment
    gguf_tensors.check(described, alignment=alignment, data_offset=data_offset, size=size)
    return GgufHeader(
        path=path, version=version, metadata=metadata, tensors=tuple(described), alignment=alignment,
        data_offset=data_offset, file_size=size, parts=(path,), data_offsets=(data_offset,),
    )  # fmt: skip


def _version(path: Path, version: int) -> int:
    if version & 0xFFFF == 0 and version:
        raise UnsupportedModel(
            path, _("It was written for big-endian computers."), _("Download the ordinary, little-endian file.")
        )
    if version == 0:
        raise Lie(_("It says that its format has version 0."))
    if version == 1 or version > _NEWEST_VERSION:
        raise UnsupportedModel(
            path,
            _("It is in version {version} of the GGUF format; versions 2 and 3 can be read.").format(version=version),
        )
    return version


def _check_counts(n_tensors: int, n_keys: int, left: int) -> None:
    if n_keys > _MAX_KEYS or n_keys * _MIN_KEY_BYTES > left:
        raise Lie(_("It claims {n} metadata keys, more than it can hold.").format(n=f"{n_keys:,}"))
    if n_tensors > _MAX_TENSORS or n_tensors * _MIN_TENSOR_BYTES > left:
        raise Lie(_("It claims {n} tensors, more than it can hold.").format(n=f"{n_tensors:,}"))


def _read_metadata(path: Path, cursor: Cursor, count: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    for _n in range(count):
        key = cursor.name()
        if key in metadata:
            raise Lie(_("The key “{key}” appears twice.").format(key=clean_name(key)))
        value_type = cursor.u32()
        if value_type != _TYPED_KEYS.get(key, value_type):
            raise Lie(_("“{key}” is not a 32-bit number.").format(key=key))
        metadata[key] = cursor.value(path, key, value_type)
    return metadata


def _alignment(metadata: Mapping[str, Value]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    assert isinstance(alignment, int)
    if not 8 <= alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
        raise Lie(_("Its alignment is {n}; it must be a power of two from 8 to 65,536.").format(n=f"{alignment:,}"))
    return alignment


# --- split sets -------------------------------------------------------------------------------------------------


def _read_set(one: GgufHeader, guess: bool) -> GgufHeader:
    """Returns the header of the whole set that `one` is a part of."""
    count, part = _whole_number(one, "split.count"), _whole_number(one, "split.no")
    paths = split_parts(one.path)
    if len(paths) != count or paths[min(part, count - 1)].name != one.path.name:
        raise UnsupportedModel(
            one.path,
            _("It is part {part} of {count}, but its name does not say so.").format(part=part + 1, count=count),
            _("Name the files NAME-00001-of-{count:05}.gguf and so on.").format(count=count),
        )
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        raise PartMissing(paths[0], missing, count)
    parts = [one if path == one.path else _read_file(path, guess) for path in paths]
    for number, header in enumerate(parts):
        _check_part(header, number, count)
    tensors = tuple(tensor.in_part(n) for n, header in enumerate(parts) for tensor in header.tensors)
    _check_whole_set(parts[0], tensors)
    size, offsets = sum(header.file_size for header in parts), tuple(header.data_offset for header in parts)
    return replace(parts[0], tensors=tensors, parts=paths, file_size=size, data_offsets=offsets)


def _check_part(header: GgufHeader, number: int, count: int) -> None:
    if (_whole_number(header, "split.no"), _whole_number(header, "split.count")) != (number, count):
        raise DamagedModel(
            header.path,
            _("By its name it is part {part} of {count}, by its content it is not.").format(
                part=number + 1, count=count
            ),
        )


def _check_whole_set(first: GgufHeader, tensors: Sequence[TensorInfo]) -> None:
    total = _whole_number(first, "split.tensors.count")
    if len({tensor.name for tensor in tensors}) != len(tensors) or total != len(tensors):
        raise DamagedModel(
            first.path,
            _("Its parts hold {n} tensors; {total} different ones are expected.").format(n=len(tensors), total=total),
        )


def _whole_number(header: GgufHeader, key: str) -> int:
    value = header.metadata.get(key, 0)
    return value if isinstance(value, int) else 0


def _whole(value: str | GgufText) -> str:
    return value if isinstance(value, str) else value.text()
