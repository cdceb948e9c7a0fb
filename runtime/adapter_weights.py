"""Reads a LoRA adapter's matrices from a PEFT folder or a GGUF file, under the names of the weights they change.

LoRA (Hu et al. 2021, arXiv 2106.09685) adds scale · B·A to a weight, B (outputs, rank) and A (rank, inputs), where the
scale is alpha / rank, or alpha / sqrt(rank) with rsLoRA (arXiv 2312.03732). Knows no architecture and no engine.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runtime.config_files import read_object
from runtime.errors import UserError
from runtime.gguf_checkpoint import GgufTensors
from runtime.gguf_header import read_header
from runtime.installation import require_torch
from runtime.model_errors import clean_name
from runtime.places import shown_path
from runtime.safetensors_file import SafetensorsFile
from runtime.tensors import F32, TensorSource
from runtime.text import _

_CONFIG = "adapter_config.json"
_SEGMENTS = re.compile(r"\.(?:modules_to_save|base_layer|default)(?=\.)")  # what PEFT puts between a module's names
_PAIR = re.compile(r"(?P<module>.+)\.lora_(?:embedding_)?(?P<which>[AB])(?:\.default)?(?P<weight>\.weight)?")
_EMBEDDING_PAIR = ".lora_embedding_"
_CHANGING_STARTS = ("pissa", "olora", "corda", "loftq")  # which also change the weights of the model itself
_GGUF_A, _GGUF_B, _GGUF_EMBEDDING = ".lora_a", ".lora_b", "token_embd.weight"


class UnsupportedAdapter(UserError):
    """An adapter that is damaged, or of a kind that this program does not apply. `reason` is a sentence."""

    code = "unsupported_adapter"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("The adapter “{name}” cannot be used.").format(name=shown_path(Path(path.name))),
            reason,
            _("Take it out of the settings, or use it merged into its model."),
            details=shown_path(path),
        )


@dataclass(frozen=True, slots=True)
class Pair:
    """What is added to one weight: scale · left (outputs, rank) · right (rank, inputs).

    For an embedding the outputs are tokens and the inputs the width of their vectors.
    """

    left: F32
    right: F32
    scale: float

    @property
    def rank(self) -> int:
        return int(self.left.shape[1])


@dataclass(frozen=True, slots=True)
class AdapterWeights:
    """An adapter's matrices and whole replaced tensors, by the weights' names in a model of that `kind`.

    `architecture` is what a GGUF adapter says it is for.
    """

    path: Path
    kind: Literal["folder", "gguf"]
    pairs: Mapping[str, Pair]
    replaced: Mapping[str, F32] = field(default_factory=dict)
    architecture: str = ""


def read_adapter_weights(path: Path) -> AdapterWeights:
    """Returns the weights of an adapter: a PEFT folder, or a GGUF file.

    Raises `UnsupportedAdapter`, and what `read_header`, `read_object` and `SafetensorsFile` raise.
    """
    return _from_folder(path) if path.is_dir() else _from_gguf(path)


# --- GGUF -------------------------------------------------------------------------------------------------------


def _from_gguf(path: Path) -> AdapterWeights:
    header = read_header(path)
    if header.kind != "adapter" or header.text("adapter.type") != "lora":
        raise UnsupportedAdapter(path, _("It is no LoRA adapter."))
    if "adapter.alora.invocation_tokens" in header.metadata:
        raise UnsupportedAdapter(path, _("It acts only after certain words (an activated LoRA)."))
    alpha = header.metadata.get("adapter.lora.alpha", 0.0)
    if not isinstance(alpha, float) or not math.isfinite(alpha):
        raise UnsupportedAdapter(path, _("Its “{key}” is no number.").format(key="adapter.lora.alpha"))
    tensors = GgufTensors(header)
    halves = {name: name.removesuffix(_GGUF_A).removesuffix(_GGUF_B) for name in tensors.infos}
    replaced = {name: tensors.read(name) for name, base in halves.items() if name == base}
    bases = dict.fromkeys(base for name, base in halves.items() if name != base)
    pairs = {base: _gguf_pair(path, tensors, base, alpha) for base in bases}
    return AdapterWeights(path, "gguf", pairs, replaced, header.architecture)


def _gguf_pair(path: Path, tensors: TensorSource, base: str, alpha: float) -> Pair:
    first, second = _matrix(path, tensors, base + _GGUF_A), _matrix(path, tensors, base + _GGUF_B)
    if base == _GGUF_EMBEDDING:  # llama.cpp keeps this pair the other way round: (tokens, rank) and (width, rank)
        left, right = first, second.T
    else:
        left, right = second, first
    scale = alpha / left.shape[1] if alpha else 1.0
    return _checked(path, base, Pair(left, right, scale))


# --- PEFT -------------------------------------------------------------------------------------------------------


def _from_folder(folder: Path) -> AdapterWeights:
    if not (folder / _CONFIG).exists():
        raise UnsupportedAdapter(folder, _("It has no {file}.").format(file=_CONFIG))
    config = read_object(folder / _CONFIG)
    _check_config(folder, config)
    tensors = _tensors(folder)
    found: dict[str, dict[str, str]] = {}
    replaced = {}
    for name in tensors.infos:
        plain = _SEGMENTS.sub("", name.removeprefix("base_model.model."))
        match = _PAIR.fullmatch(plain)
        if match:
            found.setdefault(match["module"], {})[match["which"]] = name
        elif ".lora_" in plain:
            raise UnsupportedAdapter(folder, _("It holds the tensor “{name}”, which is not known.").format(
                name=clean_name(name)))  # fmt: skip
        else:
            replaced[plain] = tensors.read(name)
    pairs = {f"{name}.weight": _peft_pair(folder, tensors, name, halves, config) for name, halves in found.items()}
    return AdapterWeights(folder, "folder", pairs, replaced)


def _tensors(folder: Path) -> TensorSource:
    if (folder / "adapter_model.safetensors").exists():
        return SafetensorsFile(folder / "adapter_model.safetensors")
    if (folder / "adapter_model.bin").exists():
        require_torch(_("Reading a PyTorch file (.bin)"))
        torch_file: TensorSource = importlib.import_module("runtime.torch_file").TorchFile(folder / "adapter_model.bin")
        return torch_file
    raise UnsupportedAdapter(folder, _("It has no {file}.").format(file="adapter_model.safetensors"))


def _check_config(folder: Path, config: Mapping[str, Any]) -> None:
    start = config.get("init_lora_weights")
    kind = str(config.get("peft_type", "LORA")).upper()
    if kind != "LORA":
        raise UnsupportedAdapter(folder, _("It is an adapter of the kind “{kind}”; only LoRA can be used.").format(
            kind=clean_name(kind)))  # fmt: skip
    if config.get("use_dora"):
        raise UnsupportedAdapter(folder, _("It is a DoRA adapter, which is not supported."))
    if config.get("alora_invocation_tokens"):
        raise UnsupportedAdapter(folder, _("It acts only after certain words (an activated LoRA)."))
    if isinstance(start, str) and start.lower().startswith(_CHANGING_STARTS):
        words = _("It began as “{name}”, which also changes the weights of the model itself.")
        raise UnsupportedAdapter(folder, words.format(name=clean_name(start)))


def _peft_pair(
    folder: Path, tensors: TensorSource, module: str, halves: Mapping[str, str], config: Mapping[str, Any]
) -> Pair:
    if set(halves) != {"A", "B"}:
        raise _incomplete(folder, module)
    first, second = _matrix(folder, tensors, halves["A"]), _matrix(folder, tensors, halves["B"])
    rank = max(len(first), 1)
    alpha = _alpha(folder, module, config, rank)
    scale = alpha / math.sqrt(rank) if config.get("use_rslora") else alpha / rank
    is_embedding = _EMBEDDING_PAIR in halves["A"]
    left, right = (first.T, second.T) if is_embedding else (second, first)
    return _checked(folder, module, Pair(left, right, scale))


def _alpha(folder: Path, module: str, config: Mapping[str, Any], rank: int) -> float:
    """Returns a module's alpha: that of the first pattern that fits its name, or the general one."""
    patterns = config.get("alpha_pattern") or {}
    for pattern, value in patterns.items() if isinstance(patterns, dict) else ():
        if _fits(folder, pattern, module):
            return _number(folder, value)
    return _number(folder, config.get("lora_alpha", rank))


def _fits(folder: Path, pattern: str, module: str) -> bool:
    """Whether a pattern names a module, by its whole name or its end. Only dots are understood in it.

    PEFT takes any regular expression; one that somebody else wrote may never come to an end.
    """
    plain = pattern.removeprefix("^").removesuffix("$").replace("\\.", ".")
    if not re.fullmatch(r"[\w.-]+", plain):
        words = _("Its pattern “{name}” is a regular expression, which is not supported.")
        raise UnsupportedAdapter(folder, words.format(name=clean_name(pattern)))
    return module == plain or (module.endswith("." + plain) and not pattern.startswith("^"))


def _number(folder: Path, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UnsupportedAdapter(folder, _("Its “{key}” is no number.").format(key="lora_alpha"))
    return float(value)


# --- matrices ---------------------------------------------------------------------------------------------------


def _matrix(path: Path, tensors: TensorSource, name: str) -> F32:
    info = tensors.infos.get(name)
    if info is None:
        raise _incomplete(path, name.rpartition(".")[0])
    if len(info.shape) != 2:
        raise UnsupportedAdapter(path, _("Its tensor “{name}” is no matrix.").format(name=clean_name(name)))
    return tensors.read(name)


def _checked(path: Path, name: str, pair: Pair) -> Pair:
    if pair.rank != len(pair.right) or not pair.rank:
        raise UnsupportedAdapter(path, _("The two matrices for “{name}” do not fit together.").format(
            name=clean_name(name)))  # fmt: skip
    return pair


def _incomplete(path: Path, name: str) -> UnsupportedAdapter:
    return UnsupportedAdapter(path, _("Of the pair for “{name}” it holds only one matrix.").format(
        name=clean_name(name)))  # fmt: skip
