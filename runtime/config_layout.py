"""Brings a config.json of any age into one layout, by adding what a reader may look for. Imports nothing it names.

Newer versions of transformers write `dtype` and `rope_parameters` where older ones wrote `torch_dtype`, `rope_theta`
and `rope_scaling`; multimodal models keep the text model's keys in `text_config`. `auto_map` and the like are texts
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
_LOCAL, _GLOBAL = "sliding_attention", "full_attention"


def settled(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a config with both layouts' keys at its top level. What the file says is kept as it is.

    Added where they are missing: the keys of the text model, `torch_dtype`, `rope_theta`, `rope_local_base_freq`, and
    `rope_scaling`, whose kind is always under `rope_type`, and which is None where nothing is scaled.
    """
    whole = dict(config)
    for name in _TEXT_CONFIGS:
        inner = config.get(name)
        if isinstance(inner, dict):
            whole |= {key: value for key, value in inner.items() if key not in config or key == "model_type"}
            whole["text_model_type"] = inner.get("model_type", "")
    if "torch_dtype" not in whole and "dtype" in whole:
        whole["torch_dtype"] = whole["dtype"]
    return whole | _rope(whole)


def _rope(config: Mapping[str, Any]) -> dict[str, Any]:
    parameters = config.get("rope_parameters")
    if not isinstance(parameters, dict):
        scaling = config.get("rope_scaling")
        return {"rope_scaling": _scaling(scaling)} if isinstance(scaling, dict) else {}
    by_layer = isinstance(parameters.get(_GLOBAL), dict)
    whole = parameters[_GLOBAL] if by_layer else parameters
    local = parameters.get(_LOCAL) if by_layer else None
    added = {"rope_scaling": _scaling(whole)}
    if "rope_theta" in whole and "rope_theta" not in config:
        added["rope_theta"] = whole["rope_theta"]
    if "partial_rotary_factor" in whole and "partial_rotary_factor" not in config:
        added["partial_rotary_factor"] = whole["partial_rotary_factor"]
    if isinstance(local, dict) and "rope_theta" in local:
        added.setdefault("rope_local_base_freq", config.get("rope_local_base_freq", local["rope_theta"]))
    return added


def _scaling(parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    kind = {"su": "longrope"}.get(kind, kind) if isinstance(kind, str) else "default"
    return None if kind == "default" else {**parameters, "rope_type": kind}
