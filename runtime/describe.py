"""Says what a model on disk is, from its header or its config alone. Knows no list of models."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from runtime import memory
from runtime.errors import UserError
from runtime.folder_reader import Listing, Naming
from runtime.gguf_architectures import TRANSLATION_ARCHITECTURES
from runtime.gguf_header import GgufHeader, clean_name, read_header, split_parts
from runtime.header_cache import Facts, HeaderCache
from runtime.model_errors import ModelMissing, ModelUnreadable
from runtime.places import shown_path, spelled_path
from runtime.runnable import why_not
from runtime.small_files import read_json
from runtime.text import _

Kind = Literal["gguf", "folder", "adapter"]

_PART = re.compile(r"-\d{5}-of-\d{5}$")
# Names that programs give to every model; the folder's name then tells more.
_ANY_MODEL = re.compile(
    r"(ggml[-_.])?(model|pytorch_model|unsloth)([-_.](?P<type>(i?q\d|b?f\d\d|tq\d|mxfp4)\w*))?", re.IGNORECASE
)
_ANY_FOLDER = frozenset({"downloads", "gguf", "models"})
# Downloads under way: GPT4All's and LM Studio's names for them, and what browsers put beside the file.
_PARTIAL_PREFIXES, _PARTIAL_SUFFIXES = ("incomplete-", "downloading_"), (".part", ".crdownload", ".aria2")
_COMPANIONS = frozenset({"mmproj", "clip-vision", "imatrix"})
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_TYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the library. `reason` says, in a sentence, why it is not `runnable`; sizes are bytes.

    `memory_bytes` is what it takes when it is loaded with the defaults, 0 where that is not known; `caution` says, in a
    sentence, what is to be known before a runnable model is loaded. One that turns a source text into another does not
    `converses`. `aliases` are other names that find it.
    """

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
    memory_bytes: int = 0
    converses: bool = True
    caution: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def can_chat(self) -> bool:
        """Whether it can be run and holds conversations."""
        return self.runnable and self.converses

    @property
    def key(self) -> str:
        """The name under which settings of this model are kept; no two paths share one."""
        return self.source if self.source == "starter" else spelled_path(self.path)


def folder(listing: Listing, *, source: str, cache: HeaderCache | None = None) -> Iterator[ModelInfo]:
    """Yields the models that lie directly in a folder: GGUF files, and the folder itself.

    Files that belong to a model and are none (what lets it see, measurements for quantizing) are left out, and so are
    downloads under way.
    """
    sets: set[Path] = set()
    for name in (*listing.named, *filter(_is_gguf, listing.files)):
        path = listing.folder / name
        first = split_parts(path)[0]
        if first in sets or _is_partial(path.name, listing.files):
            continue
        sets.add(first)
        facts = _remembered(path, cache)
        if facts.kind != "companion":
            naming = listing.named.get(name) or Naming((_name_of(path, listing.title),))
            yield _gguf(path, facts, naming, source)
    if "config.json" in listing.files and any(_is_weights(name) for name in listing.files):
        yield _hugging_face(listing, source)
    elif "adapter_config.json" in listing.files:
        yield _adapter(listing, source)


def gguf_file(path: Path, *, source: str, cache: HeaderCache | None = None, name: str = "") -> ModelInfo:
    """Describes a GGUF file, or the split set that it belongs to. Raises nothing: what is wrong becomes the reason."""
    return _gguf(path, _remembered(path, cache), Naming((name or _name_of(path),)), source)


def _gguf(path: Path, facts: Facts, naming: Naming, source: str) -> ModelInfo:
    parts = _present_parts(path)
    names = tuple(_PART.sub("", clean_name(shown_path(Path(name)))) for name in naming.names)
    reason = facts.reason or naming.reason
    turns = facts.architecture in TRANSLATION_ARCHITECTURES
    return ModelInfo(
        name=names[0] or _name_of(path),
        path=parts[0] if parts else path,
        kind="adapter" if facts.kind == "adapter" else "gguf",
        architecture=facts.architecture,
        size_bytes=facts.size_bytes or _size(parts),
        quantization=facts.quantization,
        context_length=facts.context_length,
        runnable=not reason,
        reason=reason,
        source=source,
        memory_bytes=0 if reason else facts.memory_bytes,
        converses=not turns,
        caution=_turns_texts() if turns and not reason else "",
        aliases=names[1:],
    )


def _turns_texts() -> str:
    return _("It turns a source text into another text. “quern complete” runs it; it holds no conversation.")


def _remembered(path: Path, cache: HeaderCache | None) -> Facts:
    parts = _present_parts(path)
    facts = cache.get(parts) if cache else None
    if facts is not None:
        return facts
    try:
        facts = _facts(path)
    except (ModelMissing, ModelUnreadable) as error:  # what may change without a change of the file
        return Facts(reason=error.info.message)
    if cache:
        cache.put(parts, facts)
    return facts


def _present_parts(path: Path) -> list[Path]:
    return [part for part in split_parts(path) if os.path.exists(part)]


def _facts(path: Path) -> Facts:
    """Raises `ModelMissing` and `ModelUnreadable`; all else that is wrong becomes the reason."""
    try:
        return _facts_of(read_header(path, arrays=False))
    except (ModelMissing, ModelUnreadable):
        raise
    except UserError as error:
        return Facts(reason=error.info.message or error.info.title)


def _facts_of(header: GgufHeader) -> Facts:
    reason = why_not(header)
    return Facts(
        kind=_kind_of(header),
        architecture=clean_name(header.architecture),
        size_bytes=header.file_size,
        quantization=header.quantization,
        context_length=header.context_length,
        reason=reason,
        memory_bytes=0 if reason else memory.estimate(header).total,
    )


def _kind_of(header: GgufHeader) -> str:
    """Returns "model", "adapter", or "companion" for what belongs to a model and is none."""
    if header.kind in _COMPANIONS or header.architecture == "clip":
        return "companion"
    return "adapter" if header.kind == "adapter" else "model"


def _is_gguf(name: str) -> bool:
    return name.lower().endswith(".gguf") and not name.startswith(".")


def _is_partial(name: str, beside: Sequence[str]) -> bool:
    return name.lower().startswith(_PARTIAL_PREFIXES) or any(name + end in beside for end in _PARTIAL_SUFFIXES)


def _name_of(path: Path, title: str = "") -> str:
    """Returns the file's name without what says nothing to people; of names that every model has, the folder's."""
    stem = _PART.sub("", shown_path(Path(path.name).with_suffix("")))
    common = _ANY_MODEL.fullmatch(stem)
    title = title or shown_path(Path(path.parent.name))
    if common and title.lower() not in _ANY_FOLDER:
        stem = "-".join(filter(None, (title, common["type"])))
    return clean_name(stem) or shown_path(Path(path.name))


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


def _hugging_face(listing: Listing, source: str) -> ModelInfo:
    from runtime.runnable_folder import fitness  # numpy comes with it, and not every library has a folder

    config = read_json(listing.folder / "config.json")
    named = config.get("architectures")
    architecture = named[0] if isinstance(named, list) and named else config.get("model_type")
    length = config.get("max_position_embeddings")
    reason, form = fitness(config)
    dtype = config.get("torch_dtype") or config.get("dtype")
    return ModelInfo(
        name=_title(listing),
        path=listing.folder,
        kind="folder",
        architecture=clean_name(architecture) if isinstance(architecture, str) else "",
        size_bytes=_weight_bytes(listing),
        quantization=_TYPES.get(dtype, "") if isinstance(dtype, str) else "",
        context_length=length if isinstance(length, int) and 0 < length < 1 << 31 else 0,
        runnable=not reason,
        reason=reason,
        source=source,
        converses=form != "encoder-decoder",
        caution=_turns_texts() if form == "encoder-decoder" else "",
    )


def _adapter(listing: Listing, source: str) -> ModelInfo:
    return ModelInfo(
        name=_title(listing),
        path=listing.folder,
        kind="adapter",
        size_bytes=_weight_bytes(listing),
        reason=_("It is an adapter: it changes another model and cannot run by itself."),
        source=source,
    )


def _title(listing: Listing) -> str:
    return clean_name(listing.title or shown_path(Path(listing.folder.name))) or shown_path(listing.folder)


def _weight_bytes(listing: Listing) -> int:
    return _size([listing.folder / name for name in listing.files if _is_weights(name)])
