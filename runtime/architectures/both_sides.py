"""Rows and checks that encoders and encoder-decoders share. Knows no family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runtime.architectures.base import Condition, Fields, Settings, Side, TensorRow, always
from runtime.architectures.shared import hf_activation
from runtime.config import ModelConfig
from runtime.text import _

ENCODER = "encoder.layers.{i}."


def with_masked_head(config: ModelConfig, layer: int) -> bool:
    """The encoder guesses hidden tokens."""
    return config.masked_head


def untied_masked_head(config: ModelConfig, layer: int) -> bool:
    """It does so with a matrix of its own."""
    return config.masked_head and not config.tied


def with_head_bias(config: ModelConfig, layer: int) -> bool:
    """Every token has a number that is added to its logit."""
    return config.head_bias


def affine(
    names: Mapping[str, tuple[str, str]], *, side: Side = "decoder", when: Condition = always,
    kinds: Iterable[str] = ("weight", "bias"),
) -> tuple[TensorRow, ...]:  # fmt: skip
    """Returns rows of matrices or norms with their biases, from our names: those in folders and those in GGUF files.

    `side` is that of the layers which `{i}` counts.
    """
    return tuple(
        TensorRow(f"{ours}.{kind}", f"{hf}.{kind}", f"{gguf}.{kind}" if gguf else "", when=when, side=side)
        for ours, (hf, gguf) in names.items() for kind in kinds
    )  # fmt: skip


def same_on_both_sides(raw: Settings, one: str, other: str) -> None:
    """Raises ValueError, with a sentence, where the layers of encoder and decoder differ: ours are alike."""
    if one in raw and other in raw and raw[one] != raw[other]:
        problem = _("“{one}” is {first} and “{other}” is {second}; they must be equal here.")
        raise ValueError(problem.format(one=one, first=raw[one], other=other, second=raw[other]))


def says_masked(raw: Settings) -> bool:
    """Whether config.json names a class that guesses hidden tokens."""
    names = raw.get("architectures")
    return isinstance(names, list) and any(str(name).endswith(("ForMaskedLM", "ForPreTraining")) for name in names)


def masked_fields(raw: Settings) -> Fields:
    """Returns the fields of an encoder's head: one that has none is tied, so that it has no matrix either."""
    masked = says_masked(raw)
    tied = bool(raw.get("tie_word_embeddings", True)) or not masked
    return {"masked_head": masked, "head_bias": masked, "tied": tied, "activation": hf_activation(raw, "hidden_act")}
