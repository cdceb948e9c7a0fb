"""Joins the tensors of quantized Hugging Face checkpoints under their former names: GPTQ, AWQ, FP8 and others.

A layer's weight is stored there as several tensors: numbers of few bits, scales, zero points. Here a table of methods
says which belong together; how each is unpacked is in `packed_layouts.py`. Knows no architecture and no file format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from runtime.model_errors import DamagedModel, UnsupportedModel, clean_name
from runtime.packed_layouts import Awq, Compressed, Gptq, Layout, Misfit, Scaled, require_known_gptq, unread_format
from runtime.tensors import F32, Bytes, TensorInfo, TensorSource, check_rows
from runtime.text import _

Config = Mapping[str, Any]
PLACES = ("quantization_config", "compression_config")  # where a config.json says how weights are packed
_SCALED_TYPES = {"f8_e4m3", "f8_e5m2", "i8"}
_COMPRESSED_FORMATS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "dense",
                       "mixed-precision")  # fmt: skip
_SCALES = ("weight_scale_inv", "weight_scale")
_ACTIVATION_SCALES = (
    "input_scale", "activation_scale", "input_scale_ub", "output_scale", "k_scale", "v_scale", "kv_scale", "q_scale",
    "input_zero_point", "act_scale",
)  # fmt: skip


def quantization_of(config: Config) -> dict[str, Any]:
    """Returns what a config.json says of its weights' packing; {} where nothing is packed."""
    for place in (config, config.get("text_config")):
        for key in PLACES:
            found = place.get(key) if isinstance(place, dict) else None
            if isinstance(found, dict):
                return found
    return {}


def joined(folder: Path, stored: TensorSource, quantization: Config) -> TensorSource:
    """Returns the tensors with packed ones joined; `stored` itself where there are none.

    Raises `UnsupportedModel` for a method that is not read, and `DamagedModel` for tensors that do not fit together.
    """
    method = str(quantization.get("quant_method", "gptq" if "bits" in quantization else "")).lower()
    if method and method not in _METHODS:
        raise UnsupportedModel(
            folder,
            _("Its weights are packed by the method “{method}”, which is not read.").format(method=clean_name(method)),
            _("Choose the model in its original form, or as a GGUF file."),
        )
    try:
        layouts = dict(_METHODS.get(method, _scaled)(stored, quantization))
    except Misfit as misfit:
        raise _refusal(folder, misfit) from misfit
    _check_all_scaled(folder, stored, layouts, quantization)
    return JoinedTensors(folder, stored, layouts) if layouts else stored


def unscaled_notes(tensors: TensorSource) -> list[str]:
    """Returns what is to be said of f8 numbers without scales, in a folder that has none at all."""
    if not any(info.dtype.startswith("f8_") for info in tensors.infos.values()):
        return []
    return [_("Its FP8 weights come without scales, and are taken as they are.")]


def _refusal(folder: Path, misfit: Misfit) -> DamagedModel | UnsupportedModel:
    if misfit.unsupported:
        return UnsupportedModel(folder, str(misfit), _("Choose the model in its original form, or as a GGUF file."))
    return DamagedModel(folder, str(misfit))


class JoinedTensors(TensorSource):
    """Gives out joined tensors beside those that are stored whole."""

    def __init__(self, folder: Path, stored: TensorSource, layouts: Mapping[str, Layout]) -> None:
        self._folder = folder
        self._stored = stored
        self._layouts = dict(layouts)
        parts = {part: name for name, layout in layouts.items() for part in layout.parts}
        names = dict.fromkeys(parts.get(name, name) for name in stored.infos if not _is_activation_scale(name))
        self.infos: dict[str, TensorInfo] = {
            name: layouts[name].info if name in layouts else stored.infos[name] for name in names
        }

    def raw(self, name: str) -> Bytes:
        if name in self._layouts:
            raise ValueError(f"{name} is joined from several tensors")
        return self._stored.raw(name)

    def decode(self, raw: Bytes, dtype: str) -> F32:
        return self._stored.decode(raw, dtype)

    def read(self, name: str) -> F32:
        return self.rows(name, 0, self.infos[name].shape[0]) if name in self._layouts else self._stored.read(name)

    def rows(self, name: str, start: int, stop: int) -> F32:
        if name not in self._layouts:
            return self._stored.rows(name, start, stop)
        check_rows(self.infos[name], start, stop)
        try:
            with np.errstate(invalid="ignore", over="ignore"):  # broken scales are for the model's own checks to find
                return self._layouts[name].rows(start, stop)
        except Misfit as misfit:
            raise _refusal(self._folder, misfit) from misfit

    def release(self, name: str) -> None:
        for part in self._layouts[name].parts if name in self._layouts else (name,):
            self._stored.release(part)

    def close(self) -> None:
        self._stored.close()


def _is_activation_scale(name: str) -> bool:
    """Scales for numbers of a few bits between the layers, which nobody computes with here."""
    return name.rpartition(".")[2] in _ACTIVATION_SCALES


# --- methods: which tensors belong together ---------------------------------------------------------------------


def _prefixes(stored: TensorSource, ending: str) -> Iterator[str]:
    for name in stored.infos:
        if name.endswith("." + ending):
            yield name.removesuffix(ending)


def _gptq(stored: TensorSource, config: Config) -> Iterator[tuple[str, Layout]]:
    require_known_gptq(config)
    for prefix in _prefixes(stored, "qweight"):
        yield prefix + "weight", Gptq(stored, prefix, config)


def _awq(stored: TensorSource, config: Config) -> Iterator[tuple[str, Layout]]:
    for prefix in _prefixes(stored, "qweight"):
        yield prefix + "weight", Awq(stored, prefix, config)


def _scaled(stored: TensorSource, config: Config) -> Iterator[tuple[str, Layout]]:
    for name, info in stored.infos.items():
        if info.dtype in _SCALED_TYPES:
            prefix = name.removesuffix("weight")
            scale = next((prefix + scale for scale in _SCALES if prefix + scale in stored.infos), None)
            if scale is not None and name != prefix:
                yield name, Scaled(stored, name, scale, config)


def _modelopt(stored: TensorSource, config: Config) -> Iterator[tuple[str, Layout]]:
    if config.get("quant_algo", "FP8") != "FP8":
        raise unread_format(config["quant_algo"])
    yield from _scaled(stored, config)


def _compressed(stored: TensorSource, config: Config) -> Iterator[tuple[str, Layout]]:
    strange = next((name for name in _formats(config) if name not in _COMPRESSED_FORMATS), None)
    if strange is not None:
        raise unread_format(strange)
    for prefix in _prefixes(stored, "weight_packed"):
        yield prefix + "weight", Compressed(stored, prefix, config)
    yield from _scaled(stored, config)


def _formats(config: Config) -> Iterator[object]:
    """Yields all formats that a compressed-tensors config names: of all weights, of groups, of thinned-out ones."""
    groups = config.get("config_groups")
    places = (config, config.get("sparsity_config"), *(groups.values() if isinstance(groups, dict) else ()))
    yield from (place["format"] for place in places if isinstance(place, dict) and place.get("format"))


def _check_all_scaled(folder: Path, stored: TensorSource, layouts: Mapping[str, Layout], config: Config) -> None:
    """Raises `DamagedModel` for a weight without its scale in a folder that scales: a bare cast would be garbage."""
    if not layouts and not config:
        return
    for name, info in stored.infos.items():
        if info.dtype in _SCALED_TYPES and name.endswith("weight") and name not in layouts:
            raise DamagedModel(folder, _("The tensor “{name}” of type {type} has no scale.").format(
                name=clean_name(name), type=info.dtype))  # fmt: skip


_METHODS: dict[str, Callable[[TensorSource, Config], Iterator[tuple[str, Layout]]]] = {
    "gptq": _gptq, "awq": _awq, "fp8": _scaled, "fbgemm_fp8": _scaled, "modelopt": _modelopt,
    "compressed-tensors": _compressed,
}  # fmt: skip
