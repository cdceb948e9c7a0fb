"""Writes what a GGUF file says about its model: names, and the family's settings with the types llama.cpp reads.

Knows the family's table and no tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from convert.gguf_file import KeyValue, array, boolean, f32, string, u32
from runtime.architectures.base import Architecture
from runtime.architectures.reading import to_gguf
from runtime.config import ModelConfig
from runtime.errors import UserError
from runtime.model_errors import clean_name
from runtime.sentence_files import read_sentence_files
from runtime.text import _, ngettext

_POOLINGS = {"mean": 1, "cls": 2, "last": 3}  # enum llama_pooling_type


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


def pooling_keys(architecture: Architecture, folder: Path) -> dict[str, KeyValue]:
    """Returns how the vectors of a text's tokens become one, where the folder says it."""
    number = _POOLINGS.get(read_sentence_files(folder).pooling)
    return {f"{architecture.gguf}.pooling_type": u32(number)} if number else {}


def graph_notes(architecture: Architecture, config: ModelConfig, folder: Path) -> Iterator[str]:
    """Yields what is to be said of a model that llama.cpp's graph holds, but not in every respect."""
    context = to_gguf(architecture, config).get(f"{architecture.gguf}.context_length", config.context_length)
    if context < config.context_length:
        words = ngettext(
            "The context length becomes {n} token instead of {whole}: llama.cpp's graph of this family reads longer "
            "texts otherwise.",
            "The context length becomes {n} tokens instead of {whole}: llama.cpp's graph of this family reads longer "
            "texts otherwise.", context,
        )  # fmt: skip
        yield words.format(n=f"{context:,}", whole=f"{config.context_length:,}")
    if config.position == "rope" and config.rope.scaling == "dynamic":
        words = ngettext(
            "The model reads texts of more than {n} token by stretching positions as a text grows; llama.cpp cannot.",
            "The model reads texts of more than {n} tokens by stretching positions as a text grows; llama.cpp cannot.",
            config.rope.original_context,
        )  # fmt: skip
        yield words.format(n=f"{config.rope.original_context:,}")
    if config.position == "rope" and config.rope.scaling == "longrope":
        words = ngettext(
            "llama.cpp stretches positions for long texts as soon as it is loaded with more than {n} token of "
            "context, however short the text.",
            "llama.cpp stretches positions for long texts as soon as it is loaded with more than {n} tokens of "
            "context, however short the text.", config.rope.original_context,
        )  # fmt: skip
        yield words.format(n=f"{config.rope.original_context:,}")
    if config.masked_head:
        yield _("The head that guesses hidden words is left out: llama.cpp's graph has none.")
    step = read_sentence_files(folder).unknown
    if step:
        yield _("The step “{step}” behind the model is left out: the format does not hold it.").format(
            step=clean_name(step))  # fmt: skip


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
