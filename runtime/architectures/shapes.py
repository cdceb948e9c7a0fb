"""The shape of each of our weights, worked out from the config, to hold a checkpoint against before it is used.

Knows no tensor's values and no torch; the Transformer itself has the same shapes, which a test compares.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.architectures.base import Source
from runtime.architectures.binding import Binding, Claim
from runtime.config import ModelConfig
from runtime.errors import UserError
from runtime.model_errors import clean_name
from runtime.text import _

Shape = tuple[int, ...]
_NO_WEIGHTS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool")


class WrongShape(UserError):
    """A tensor has another size than the model's settings say."""

    code = "wrong_tensor_shape"

    def __init__(self, name: str, found: Shape, wanted: Shape) -> None:
        super().__init__(
            _("The model's tensors do not match its configuration."),
            _("“{name}” is {found}; the configuration asks for {wanted}.").format(
                name=clean_name(name), found=_size(found), wanted=_size(wanted)
            ),
            _("Download the model again, or choose another one."),
        )


class WholeNumbers(UserError):
    """A tensor of weights that holds whole numbers, which nothing says how to read."""

    code = "whole_numbers"

    def __init__(self, name: str, dtype: str) -> None:
        super().__init__(
            _("The model's weights are packed in a way that its settings do not explain."),
            _("“{name}” holds whole numbers ({dtype}).").format(name=clean_name(name), dtype=dtype),
            _("Use the model in its original form, in F32, F16 or BF16."),
        )


def _size(shape: Shape) -> str:
    return " × ".join(map(str, shape)) or "1"


def shape_of(name: str, config: ModelConfig) -> Shape | None:
    """Returns the shape of one of our weights by its name; None for a name that is not ours."""
    part, _dot, kind = name.rpartition(".")
    parts = part.split(".")
    if name == "head_bias":
        return (config.vocab_size,)
    if "attention" in parts or "cross" in parts:
        return _attention(parts[-1], kind, config)
    if "ffn" in parts:
        return _feed_forward(parts[parts.index("ffn") + 1 :], kind, config)
    if parts[-1] in ("norm", "post_norm", "embedding_norm"):
        return (config.d_model,)
    return _outer(part, kind, config)


def _outer(part: str, kind: str, config: ModelConfig) -> Shape | None:
    match part.rpartition(".")[2]:
        case "embedding" | "head":
            return (config.vocab_size, config.d_model)
        case "token_types":
            return (config.n_token_types, config.d_model)
        case "positions":
            return (config.context_length + config.position_offset, config.d_model)
        case "bias":
            return (config.relative_buckets, config.n_heads)
        case "dense":
            return (config.d_model, config.d_model) if kind == "weight" else (config.d_model,)
    return None


def _attention(part: str, kind: str, config: ModelConfig) -> Shape | None:
    heads = {"q": config.n_heads, "k": config.n_kv_heads, "v": config.n_kv_heads}
    if part in heads:
        rows = heads[part] * config.head_dim
        return (rows, config.d_model) if kind == "weight" else (rows,)
    if part == "out":
        return (config.d_model, config.n_heads * config.head_dim) if kind == "weight" else (config.d_model,)
    if part in ("q_norm", "k_norm"):
        return (config.head_dim * (1 if config.qk_norm == "head" else heads[part[0]]),)
    return None


def _feed_forward(parts: list[str], kind: str, config: ModelConfig) -> Shape | None:
    if parts == ["router"]:
        return (config.n_experts, config.d_model)
    inner, outer = (config.expert_d_ff if parts[0] == "experts" else config.d_ff), config.d_model
    sizes = {"gate": (inner, outer), "up": (inner, outer), "down": (outer, inner)}
    shape = sizes.get(parts[-1])
    if shape is None:
        return None
    whole: Shape = shape if kind == "weight" else shape[:1]
    return (config.n_experts, *whole) if parts[0] == "experts" else whole


def require_shapes(source: Source, binding: Binding) -> None:
    """Raises `WrongShape` and `WholeNumbers` for the first tensor that cannot be what the config says; reads none."""
    for claim in binding.claims:
        for name in claim.sources:
            if source.info(name).dtype in _NO_WEIGHTS:
                raise WholeNumbers(name, source.info(name).dtype)
        _require(source, claim, binding.config)


def _require(source: Source, claim: Claim, config: ModelConfig) -> None:
    first = claim.sources[0]
    stored = tuple(source.info(first).shape)
    wanted = [shape_of(name, config) for name in claim.ours]
    try:
        made = claim.form.to_ours([_outline(source, name) for name in claim.sources], config)
    except (ValueError, IndexError) as error:
        raise WrongShape(first, stored, wanted[0] or ()) from error
    for part, shape in zip(made, wanted, strict=True):
        if shape is not None and tuple(part.shape) != shape:
            raise WrongShape(first, tuple(part.shape) if len(made) > 1 else stored, shape)


def _outline(source: Source, name: str) -> NDArray[Any]:
    """Returns an array of the tensor's shape that takes no memory of its own."""
    return np.broadcast_to(np.zeros((), np.int8), tuple(source.info(name).shape))
