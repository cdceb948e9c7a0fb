"""Applies the settings that stretch a model's sense of position to its description. Knows no tensors."""

from __future__ import annotations

from typing import Any

import msgspec

from runtime.config import ModelConfig, Rope
from runtime.params import LoadParams
from runtime.text import _

_NAMES = ("rope_scaling", "rope_factor", "rope_base", "yarn_original_context", "yarn_ext_factor", "yarn_beta_fast",
          "yarn_beta_slow")  # fmt: skip
_DEFAULTS = LoadParams()


def stretched(config: ModelConfig, params: LoadParams, notes: list[str]) -> ModelConfig:
    """Returns the description with its rotation as the settings say; windowed layers that have their own keep it."""
    if all(getattr(params, name) == getattr(_DEFAULTS, name) for name in _NAMES):
        return config
    if config.position != "rope":
        notes.append(_("This model has no rotary positions, so the settings for RoPE have no effect."))
        return config
    if 0 < params.yarn_ext_factor < 1:
        notes.append(_("This engine takes YaRN's mix whole: {mix:g} counts as 1.").format(mix=params.yarn_ext_factor))
    return msgspec.structs.replace(config, rope=_rope(config, params))


def _rope(config: ModelConfig, params: LoadParams) -> Rope:
    rope = config.rope
    changes: dict[str, Any] = {}
    if params.rope_base:
        changes["base"] = params.rope_base
    if params.rope_factor:
        changes["factor"] = params.rope_factor
    scaling = _scaling(rope, params)
    if scaling == "yarn":
        changes |= _yarn(config, params)
    if scaling != rope.scaling:
        changes["attention_factor"] = 0.0  # as the new scaling recommends
    return msgspec.structs.replace(rope, scaling=scaling, **changes)


def _scaling(rope: Rope, params: LoadParams) -> Any:
    if params.rope_scaling == "yarn" and params.yarn_ext_factor == 0:
        return "linear"  # nothing is spared from being stretched
    if params.rope_scaling != "file":
        return params.rope_scaling
    return "linear" if rope.scaling == "none" and params.rope_factor > 1 else rope.scaling


def _yarn(config: ModelConfig, params: LoadParams) -> dict[str, Any]:
    original = params.yarn_original_context or config.rope.original_context or config.context_length
    changes: dict[str, Any] = {"original_context": original}
    if params.yarn_beta_fast > 0:
        changes["beta_fast"] = params.yarn_beta_fast
    if params.yarn_beta_slow > 0:
        changes["beta_slow"] = params.yarn_beta_slow
    return changes
