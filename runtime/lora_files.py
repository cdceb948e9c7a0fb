"""Checks a LoRA adapter's file against the model it is for, before native code sees it. Knows no engine.

llama.cpp reads pairs of matrices, `NAME.lora_a` (rank × inputs) and `NAME.lora_b` (outputs × rank), and adds
scale × alpha / rank × B·A to the weights NAME. It checks half of what it relies on and ends the process for the rest;
here everything is held against the model's header.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.adapters import read_adapter
from runtime.errors import UserError
from runtime.gguf_header import GgufHeader, ModelMissing, TensorInfo, clean_name, read_header
from runtime.places import shown_path
from runtime.text import _

_A, _B = ".lora_a", ".lora_b"
_IGNORED = "_norm.weight"  # llama.cpp passes over whole norm vectors in an adapter
_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
_PAD = 1  # the size of a dimension that a shape does not name


class AdapterMissing(UserError):
    """Nothing is at an adapter's path."""

    code = "adapter_missing"

    def __init__(self, path: Path) -> None:
        super().__init__(
            _("The adapter “{name}” is missing.").format(name=_name(path)),
            _("Nothing is at {path}.").format(path=shown_path(path)),
            _("Take it out of the settings, or put the file back."),
        )


class NotAnAdapter(UserError):
    """The file is something else than a LoRA adapter in the GGUF format, or damaged. `reason` is a sentence."""

    code = "not_an_adapter"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("“{name}” is not a LoRA adapter that can be used.").format(name=_name(path)),
            reason,
            _("Choose an adapter in the GGUF format; others have to be converted first."),
            details=shown_path(path),
        )


class AdapterMismatch(UserError):
    """The adapter was made for another model. `reason` is a sentence."""

    code = "adapter_mismatch"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("The adapter “{name}” does not fit this model.").format(name=_name(path)),
            reason,
            _("Use it with the model that it was trained on, or take it out of the settings."),
            details=shown_path(path),
        )


@dataclass(frozen=True, slots=True)
class LoraAdapter:
    """A checked adapter. `stamp` is the file's size in bytes and the time of its last change in nanoseconds."""

    path: Path
    scale: float
    n_bytes: int
    stamp: tuple[int, int]
    notes: tuple[str, ...] = ()


def read_adapters(written: Iterable[str], model: GgufHeader) -> tuple[LoraAdapter, ...]:
    """Returns the adapters of a setting, checked against a model's header.

    Raises `BadAdapter`, `AdapterMissing`, `NotAnAdapter`, `AdapterMismatch`.
    """
    return tuple(_checked(*read_adapter(each), model) for each in written)


def adapter_bytes(written: Iterable[str]) -> int:
    """Returns what the weights of a setting's adapters take, in bytes; unreadable ones and those off count nothing."""
    total = 0
    for path, scale in map(read_adapter, written):
        try:
            total += read_header(path, arrays=False).tensor_bytes if scale else 0
        except UserError:
            continue  # loading will say what is wrong with it
    return total


def _checked(path: Path, scale: float, model: GgufHeader) -> LoraAdapter:
    try:
        header = read_header(path)
        status = path.stat()
    except (ModelMissing, FileNotFoundError) as error:
        raise AdapterMissing(path) from error
    except UserError as error:
        raise NotAnAdapter(path, error.info.message) from error
    except OSError as error:
        raise NotAnAdapter(path, error.strerror or str(error)) from error
    _check_kind(header)
    if header.architecture != model.architecture:
        words = _("It changes models of the architecture “{theirs}”; this one is “{ours}”.")
        theirs, ours = clean_name(header.architecture), clean_name(model.architecture)
        raise AdapterMismatch(path, words.format(theirs=theirs, ours=ours))
    notes = _check_tensors(header, model)
    return LoraAdapter(path, scale, header.tensor_bytes, (status.st_size, status.st_mtime_ns), notes)


def _check_kind(header: GgufHeader) -> None:
    path = header.path
    if header.kind != "adapter":
        raise NotAnAdapter(path, _("It holds a whole model or something else (“{kind}”), not an adapter.").format(
            kind=clean_name(header.kind)))  # fmt: skip
    if header.text("adapter.type") != "lora":
        words = _("It is an adapter of the kind “{kind}”; only “lora” can be used.")
        raise NotAnAdapter(path, words.format(kind=clean_name(header.text("adapter.type"))))
    if "adapter.alora.invocation_tokens" in header.metadata:
        raise NotAnAdapter(path, _("It acts only after certain words (an activated LoRA), which is not supported."))
    if len(header.parts) > 1:
        raise NotAnAdapter(path, _("It is split into several files."))
    alpha = header.metadata.get("adapter.lora.alpha", 0.0)
    if not isinstance(alpha, float) or not math.isfinite(alpha):
        raise NotAnAdapter(path, _("Its “{key}” is no number that can be used.").format(key="adapter.lora.alpha"))


def _check_tensors(header: GgufHeader, model: GgufHeader) -> tuple[str, ...]:
    """Raises where a pair is incomplete or does not fit; returns notes about what llama.cpp leaves out."""
    tensors = {tensor.name: tensor for tensor in header.tensors}
    left_out = [name for name in tensors if name.endswith(_IGNORED)]
    pairs = [_base(header.path, name) for name in tensors if name not in left_out]
    if not pairs:
        raise NotAnAdapter(header.path, _("It holds no weights."))
    weights = {tensor.name: tensor for tensor in model.tensors}
    for name in dict.fromkeys(pairs):
        _check_pair(header.path, name, tensors, weights)
    note = _("The adapter “{name}” replaces {n} norm vectors as well, which the engine leaves as they are.")
    return (note.format(name=_name(header.path), n=len(left_out)),) if left_out else ()


def _base(path: Path, name: str) -> str:
    base = name.removesuffix(_A).removesuffix(_B)
    if base == name or _A in base or _B in base:
        words = _("It holds the tensor “{name}”, which belongs to no LoRA adapter.")
        raise NotAnAdapter(path, words.format(name=clean_name(name)))
    return base


def _check_pair(
    path: Path, name: str, tensors: Mapping[str, TensorInfo], weights: Mapping[str, TensorInfo]
) -> None:
    first, second, weight = tensors.get(name + _A), tensors.get(name + _B), weights.get(name)
    if first is None or second is None:
        words = _("Of the pair for “{name}” it holds only one matrix.")
        raise NotAnAdapter(path, words.format(name=clean_name(name)))
    if weight is None or len(weight.shape) < 2:
        words = _("It changes the matrix “{name}”, which this model does not have.")
        raise AdapterMismatch(path, words.format(name=clean_name(name)))
    if name == _EMBEDDING and _HEAD not in weights:  # llama.cpp would use the flipped pair for the head, and abort
        raise AdapterMismatch(path, _("It changes the token embedding, which this model shares with its head."))
    a, b, w = _sizes(first), _sizes(second), _sizes(weight)
    fits = (w[1] == a[1] and w[0] == b[1]) if name == _EMBEDDING else (w[0] == a[0] and w[1] == b[1])
    rank = a[0] if name == _EMBEDDING else a[1]
    if not fits or rank != b[0] or a[2:] != w[2:] or b[2:] != w[2:]:
        words = _("Its matrices {a} and {b} for “{name}” do not fit the model's {w}.")
        raise AdapterMismatch(path, words.format(
            a=_shape(first), b=_shape(second), w=_shape(weight), name=clean_name(name)))  # fmt: skip


def _sizes(tensor: TensorInfo) -> tuple[int, ...]:
    return (*tensor.shape, *(_PAD,) * (4 - len(tensor.shape)))


def _shape(tensor: TensorInfo) -> str:
    return " × ".join(str(size) for size in tensor.shape)


def _name(path: Path) -> str:
    return shown_path(Path(path.name))
