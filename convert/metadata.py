"""Writes what a GGUF file says about its model: names, and the family's settings with the types llama.cpp reads.

Knows the family's table and no tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from convert.gguf_file import KeyValue, array, boolean, f32, string, u32
from runtime.architectures.base import Architecture
from runtime.architectures.reading import to_gguf
from runtime.config import ModelConfig
from runtime.errors import UserError
from runtime.text import _


class NoGraph(UserError):
    """A model that llama.cpp has no way to compute. `reason` is a sentence."""

    code = "no_graph"

    def __init__(self, reason: str) -> None:
        super().__init__(
            _("llama.cpp cannot run this model, so it is not written as GGUF."),
            reason,
            _("Use the model from its folder with Quern's own engine."),
        )


def require_graph(architecture: Architecture, config: ModelConfig) -> None:
    """Raises `NoGraph`."""
    if not architecture.gguf:
        raise NoGraph(_("It has no graph for the architecture “{name}”.").format(name=architecture.name))
    reason = architecture.fits_gguf(config)
    if reason:
        raise NoGraph(reason)


def model_keys(architecture: Architecture, config: ModelConfig, *, name: str) -> dict[str, KeyValue]:
    """Returns the general keys and the model's settings."""
    settings = to_gguf(architecture, config)
    keys = {
        "general.architecture": string(settings.pop("general.architecture")),
        "general.type": string("model"),
        "general.name": string(name),
    }
    return keys | {key: typed(value) for key, value in settings.items()}


def typed(value: Any) -> KeyValue:
    """Returns a plain value with the type that llama.cpp expects of it."""
    if isinstance(value, bool):
        return boolean(value)
    if isinstance(value, int):
        return u32(value) if value >= 0 else KeyValue("i32", value)
    if isinstance(value, float):
        return f32(value)
    if isinstance(value, str):
        return string(value)
    assert isinstance(value, Sequence), value
    assert value, "an empty list has no type"
    return array(typed(value[0]).kind, value)


def name_of(folder: Path, config: Mapping[str, Any]) -> str:
    """Returns what a model is called: as its settings say unless that is a place on a disk, else the folder."""
    said = str(config.get("_name_or_path") or "").rstrip("/")
    plain = said.rsplit("/", 1)[-1]
    looks_local = said.startswith((".", "/", "~")) or "\\" in said
    return plain if plain and not looks_local else folder.resolve().name
