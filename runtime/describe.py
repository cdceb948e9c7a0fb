"""Says what a model on disk is, from its header or its config alone. Knows no list of models."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from runtime.errors import UserError
from runtime.gguf_header import GgufHeader, clean_name, read_header, split_parts
from runtime.header_cache import Facts, HeaderCache
from runtime.places import shown_path
from runtime.runnable import why_not
from runtime.text import _

Kind = Literal["gguf", "folder", "adapter"]

_PART = re.compile(r"-\d{5}-of-\d{5}$")
_MAX_CONFIG_BYTES = 1 << 20
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_TYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the library. `reason` says, in a sentence, why it is not `runnable`; sizes are bytes."""

    name: str
    path: Path
    kind: Kind
    architecture: str = ""
    size_bytes: int = 0
    quantization: str = ""
    context_length: int = 0
    runnable: bool = False
    reason: str = ""
    source: str = ""

    @property
    def key(self) -> str:
        """The name under which settings of this model are kept."""
        return self.source if self.source == "starter" else shown_path(self.path)


def folder(path: Path, files: Sequence[str], *, source: str, cache: HeaderCache | None = None) -> Iterator[ModelInfo]:
    """Yields the models that lie directly in a folder with these files: GGUF files, and the folder itself."""
    sets: set[Path] = set()
    for name in files:
        if not name.lower().endswith(".gguf") or name.startswith("."):
            continue
        first = split_parts(path / name)[0]
        if first not in sets:
            sets.add(first)
            yield gguf_file(path / name, source=source, cache=cache)
    if "config.json" in files and any(_is_weights(name) for name in files):
        yield _hugging_face(path, files, source)
    elif "adapter_config.json" in files:
        yield _adapter(path, files, source)


def gguf_file(path: Path, *, source: str, cache: HeaderCache | None = None, name: str = "") -> ModelInfo:
    """Describes a GGUF file, or the split set that it belongs to. Raises nothing: what is wrong becomes the reason."""
    parts = [part for part in split_parts(path) if part.exists()]
    facts = cache.get(parts) if cache else None
    if facts is None:
        facts = _facts(path)
        if cache:
            cache.put(parts, facts)
    return ModelInfo(
        name=name or _name_of(path),
        path=parts[0] if parts else path,
        kind="adapter" if facts.kind == "adapter" else "gguf",
        architecture=facts.architecture,
        size_bytes=facts.size_bytes or _size(parts),
        quantization=facts.quantization,
        context_length=facts.context_length,
        runnable=not facts.reason,
        reason=facts.reason,
        source=source,
    )


def _facts(path: Path) -> Facts:
    try:
        return _facts_of(read_header(path, arrays=False))
    except UserError as error:
        return Facts(reason=error.info.message or error.info.title)


def _facts_of(header: GgufHeader) -> Facts:
    return Facts(
        kind=header.kind,
        architecture=clean_name(header.architecture),
        size_bytes=header.file_size,
        quantization=header.quantization,
        context_length=header.context_length,
        reason=why_not(header),
    )


def _name_of(path: Path) -> str:
    stem = shown_path(Path(path.name).with_suffix(""))
    return clean_name(_PART.sub("", stem)) or shown_path(Path(path.name))


def _size(paths: Sequence[Path]) -> int:
    total = 0
    for path in paths:
        try:
            total += os.stat(path).st_size
        except OSError:
            continue
    return total


def _is_weights(name: str) -> bool:
    return name.endswith(_WEIGHTS) and not name.startswith((".", "training_args", "optimizer", "scheduler"))


def _hugging_face(path: Path, files: Sequence[str], source: str) -> ModelInfo:
    config = _read_json(path / "config.json")
    named = config.get("architectures")
    architecture = named[0] if isinstance(named, list) and named else config.get("model_type")
    length = config.get("max_position_embeddings")
    dtype = config.get("torch_dtype") or config.get("dtype")
    return ModelInfo(
        name=clean_name(shown_path(Path(path.name))),
        path=path,
        kind="folder",
        architecture=clean_name(architecture) if isinstance(architecture, str) else "",
        size_bytes=_size([path / name for name in files if _is_weights(name)]),
        quantization=_TYPES.get(dtype, "") if isinstance(dtype, str) else "",
        context_length=length if isinstance(length, int) and 0 < length < 1 << 31 else 0,
        reason=_("It is a Hugging Face folder; this version runs GGUF files."),
        source=source,
    )


def _adapter(path: Path, files: Sequence[str], source: str) -> ModelInfo:
    return ModelInfo(
        name=clean_name(shown_path(Path(path.name))),
        path=path,
        kind="adapter",
        size_bytes=_size([path / name for name in files if _is_weights(name)]),
        reason=_("It is an adapter: it changes another model and cannot run by itself."),
        source=source,
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            read = msgspec.json.decode(file.read(_MAX_CONFIG_BYTES))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
