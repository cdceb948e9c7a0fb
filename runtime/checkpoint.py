"""Opens a model's weights, whatever they lie in, and gives them out by name as f32. Knows no architecture.

A folder as Hugging Face lays it out and a GGUF file look alike here. Weights stay in their files, mapped into memory,
until they are asked for; packed ones (GPTQ, AWQ, FP8 with scales …) are joined under their plain names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from runtime import devices, packed
from runtime.config_files import read_config
from runtime.folder_checkpoint import NoConfig, open_folder
from runtime.gguf_checkpoint import GgufTensors
from runtime.gguf_header import read_header
from runtime.gguf_reader import Value
from runtime.model_errors import ModelMissing
from runtime.tensors import F32, Bytes, TensorInfo, TensorSource

__all__ = ["Checkpoint", "TensorInfo", "open_checkpoint"]

Kind = Literal["folder", "gguf"]


class Checkpoint:
    """A model's weights and what its files say about it.

    `config` is what config.json says, {} for GGUF; nothing that it names is imported or fetched. `metadata` holds a
    GGUF file's keys, {} for folders. `notes` are sentences about what was passed over or mended.
    """

    def __init__(
        self, path: Path, kind: Kind, tensors: TensorSource, *, config: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Value] | None = None, generation_config: Mapping[str, Any] | None = None,
        notes: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.path = path
        self.kind: Kind = kind
        self.config: dict[str, Any] = dict(config or {})
        self.metadata: Mapping[str, Value] = metadata or {}
        self.generation_config: dict[str, Any] = dict(generation_config or {})
        self.notes = tuple(notes)
        self._tensors = tensors

    @property
    def names(self) -> tuple[str, ...]:
        """All tensors' names, in the order of the files."""
        return tuple(self._tensors.infos)

    def info(self, name: str) -> TensorInfo:
        """Returns a tensor's shape, row-major for GGUF too, and its type. Raises KeyError for an unknown name."""
        return self._tensors.infos[name]

    def raw(self, name: str) -> Bytes:
        """Returns a tensor's bytes, flat and read-only, from the mapped file where their address is aligned.

        Raises ValueError for a tensor joined from several, `DamagedModel` where the file became shorter.
        """
        return self._tensors.raw(name)

    def read(self, name: str) -> F32:
        """Returns a whole tensor as f32, in memory of its own."""
        return self._tensors.read(name)

    def rows(self, name: str, start: int, stop: int) -> F32:
        """Returns rows along the first axis as f32. Raises ValueError for rows that the tensor does not have."""
        return self._tensors.rows(name, start, stop)

    def release(self, name: str) -> None:
        """Lets the memory of a tensor's mapped bytes go; it can be read again."""
        self._tensors.release(name)

    def close(self) -> None:
        """Lets the files go. Arrays given out stay valid; nothing can be read any more."""
        self._tensors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()


def open_checkpoint(path: Path, *, threads: int | None = None) -> Checkpoint:
    """Opens a folder or a GGUF file (any part of a split set opens the set); reads no weights.

    `threads` is how many unpack one GGUF tensor together, all usable cores where nothing is said.
    Raises what `read_header` and `open_folder` raise, `NoConfig`, and `UnsupportedModel` for a packed format that this
    version does not read.
    """
    if path.is_dir():
        return _open_folder(path)
    if path.suffix == ".safetensors" and path.is_file():
        return _open_folder(path.parent)
    return _open_gguf(path, threads or devices.usable_cores())


def _open_gguf(path: Path, threads: int) -> Checkpoint:
    header = read_header(path)
    return Checkpoint(header.path, "gguf", GgufTensors(header, threads=threads), metadata=header.metadata)


def _open_folder(folder: Path) -> Checkpoint:
    if not folder.exists():
        raise ModelMissing(folder)
    stored = read_config(folder / "config.json")
    tensors, notes = open_folder(folder, stored)
    if not stored:
        raise NoConfig(folder)
    quantization = packed.quantization_of(stored) or read_config(folder / "quantize_config.json")
    joined = packed.joined(folder, tensors, quantization)
    return Checkpoint(
        folder, "folder", joined, config=stored, generation_config=read_config(folder / "generation_config.json"),
        notes=[*notes, *packed.unscaled_notes(joined)],
    )  # fmt: skip
