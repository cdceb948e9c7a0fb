"""Rotary positions in config.json, in both its layouts, and in GGUF, as llama.cpp's graphs understand it.

Knows no family; families say which layout their pairs have, and whether their graph reads a table of divisors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.architectures.base import Fields, Settings, Source
from runtime.config import ModelConfig, Rope, RopeLayout
from runtime.errors import UserError
from runtime.rope import attention_factor, frequencies, llama3_divisors, yarn_sharpness
from runtime.text import _

FREQS, LONG, SHORT = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
_HF_SCALINGS = {"default": "none", "linear": "linear", "dynamic": "dynamic", "yarn": "yarn", "llama3": "llama3",
                "longrope": "longrope", "su": "longrope"}  # fmt: skip
# What Llama 3.1 and all that followed were trained with; a GGUF file keeps only the divisors that come of it.
_LLAMA3: Fields = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_context": 8192}
_OWN_BETAS = (32.0, 1.0)  # llama.cpp's graphs know no others


# What the numbers of each scaling must be larger than, by the names in config.json
_ALWAYS = {"rope_theta": 1.0, "attention_factor": -1e-9}
_STRETCHED = _ALWAYS | {"factor": 0.0, "original_max_position_embeddings": 1}
_LEAST: dict[str, dict[str, float]] = {
    "none": _ALWAYS, "factors": _ALWAYS, "linear": _ALWAYS | {"factor": 0.0}, "dynamic": _STRETCHED,
    "longrope": _STRETCHED, "yarn": _STRETCHED | {"beta_fast": 0.0, "beta_slow": 0.0},
    "llama3": _STRETCHED | {"low_freq_factor": 0.0, "high_freq_factor": 0.0},
}  # fmt: skip
_FIELDS = {"rope_theta": "base", "original_max_position_embeddings": "original_context"}


class UnknownRope(UserError):
    """A model stretches its positions in a way that is not built: it must not be read as if it did not."""

    code = "unknown_rope_scaling"

    def __init__(self, scaling: str) -> None:
        super().__init__(
            _("The model's positions are scaled in a way that this version does not know."),
            _("Its configuration names the RoPE scaling “{scaling}”.").format(scaling=scaling),
            _("Use the llama.cpp engine with a GGUF file of the model, or a newer version."),
        )


def rope_problem(rope: Rope, head_dim: int) -> str | None:
    """Says in a sentence what is wrong with a rotation that a file describes; None where nothing is."""
    pairs = (rope.dim or head_dim) // 2
    if not 0 < pairs <= head_dim // 2:
        return _("“{name}” is {value}.").format(name="partial_rotary_factor", value=rope.dim / max(head_dim, 1))
    for name, least in _LEAST[rope.scaling].items():
        value = getattr(rope, _FIELDS.get(name, name))
        if not least < value < math.inf:
            return _("“{name}” is {value}.").format(name=name, value=value)
    if rope.scaling == "llama3" and rope.low_freq_factor == rope.high_freq_factor:
        return _("“{name}” is {value}.").format(name="high_freq_factor", value=rope.high_freq_factor)
    lists = {"longrope": {"short_factor": rope.factors, "long_factor": rope.long_factors},
             "factors": {FREQS: rope.factors}}  # fmt: skip
    for name, values in lists.get(rope.scaling, {}).items():
        if len(values) != pairs or not all(0 < value < math.inf for value in values):
            return _("“{name}” needs {n} numbers above 0.").format(name=name, n=pairs)
    return None


# --- config.json ------------------------------------------------------------------------------------------------


def hf_rope(
    raw: Settings, head_dim: int, *, base: float = 10_000.0, layout: RopeLayout = "half", kind: str = "full_attention"
) -> Rope:
    """Reads the rotation from a config in either layout; `base` is the family's where the file has none.

    In files written since 2025 all lies in `rope_parameters`, for each kind of layer apart where they differ.
    """
    params = _parameters(raw, kind)
    scaling = str(params.get("rope_type") or params.get("type") or "default")
    if scaling not in _HF_SCALINGS:
        raise UnknownRope(scaling)
    part = params.get("partial_rotary_factor") or raw.get("partial_rotary_factor") or 1.0
    fields: Fields = {
        "base": params.get("rope_theta") or raw.get("rope_theta") or base,
        "dim": 0 if part == 1.0 else int(head_dim * part),
        "layout": layout,
        "scaling": _HF_SCALINGS[scaling],
    }
    return Rope(**fields, **_scaling_fields(_HF_SCALINGS[scaling], params, raw))


def _parameters(raw: Settings, kind: str) -> Mapping[str, Any]:
    key = "rope_parameters" if raw.get("rope_parameters") else "rope_scaling"
    params: Mapping[str, Any] = raw.get(key) or {}
    if not isinstance(params, Mapping):
        raise ValueError(_("“{name}” is {value}.").format(name=key, value=repr(params)[:80]))
    if "full_attention" in params or "sliding_attention" in params:
        params = params.get(kind) or {}
    return params


def _scaling_fields(scaling: str, params: Settings, raw: Settings) -> Fields:
    if scaling == "none":
        return {}
    trained, stretched = _contexts(scaling, params, raw)
    if scaling == "linear":
        return {"factor": params["factor"]}
    fields: Fields = {
        "factor": params.get("factor") or stretched / trained,
        "original_context": trained,
        "attention_factor": params.get("attention_factor") or _attention_from_mscale(params) or 0.0,
        "truncate": params.get("truncate", True),
        "factors": tuple(params.get("short_factor") or ()),
        "long_factors": tuple(params.get("long_factor") or ()),
    }
    named = ("beta_fast", "beta_slow", "low_freq_factor", "high_freq_factor")
    return fields | {name: params[name] for name in named if params.get(name)}


def _contexts(scaling: str, params: Settings, raw: Settings) -> tuple[int, int]:
    """Returns the context the model was first trained with, and the one it is stretched to."""
    longest = raw.get("max_position_embeddings") or 2048
    if scaling == "dynamic":
        return longest, longest
    named = "original_max_position_embeddings"
    return raw.get(named) or params.get(named) or longest, longest


def _attention_from_mscale(params: Settings) -> float:
    mscale, all_dim = params.get("mscale"), params.get("mscale_all_dim")
    if not mscale or not all_dim or params.get("factor", 1.0) <= 1:
        return 0.0
    above, below = (0.1 * float(scale) * math.log(params["factor"]) + 1.0 for scale in (mscale, all_dim))
    return above / below


def rope_to_hf(rope: Rope, head_dim: int) -> Fields:
    """Returns the keys of config.json, in the layout that older and newer programs read."""
    fields: Fields = {"rope_theta": rope.base}
    if rope.dim:
        fields["partial_rotary_factor"] = rope.dim / head_dim
    return fields | {"rope_scaling": _hf_scaling(rope)}


def _hf_scaling(rope: Rope) -> Fields | None:
    if rope.scaling == "none":
        return None
    scaling: Fields = {"rope_type": rope.scaling, "factor": rope.factor}
    if rope.scaling == "factors":  # one list for all lengths
        scaling |= {"rope_type": "longrope", "short_factor": list(rope.factors), "long_factor": list(rope.factors)}
    if rope.scaling == "longrope":
        scaling |= {"short_factor": list(rope.factors), "long_factor": list(rope.long_factors)}
    if rope.scaling == "yarn":
        scaling |= {"beta_fast": rope.beta_fast, "beta_slow": rope.beta_slow}
        scaling |= {} if rope.truncate else {"truncate": False}
    if rope.scaling == "llama3":
        scaling |= {"low_freq_factor": rope.low_freq_factor, "high_freq_factor": rope.high_freq_factor}
    if rope.scaling in ("yarn", "llama3", "longrope", "factors"):
        scaling["original_max_position_embeddings"] = rope.original_context
    if rope.scaling in ("yarn", "longrope", "factors") and (rope.attention_factor or rope.scaling == "factors"):
        scaling["attention_factor"] = attention_factor(rope)
    return scaling


# --- GGUF -------------------------------------------------------------------------------------------------------


def gguf_rope(settings: Settings, head_dim: int, source: Source, *, layout: RopeLayout = "half") -> Rope:
    """Reads the rotation from a GGUF file's settings, and from its table of divisors where it has one."""
    dim = settings.get("rope.dimension_count", head_dim)
    fields: Fields = {
        "base": settings.get("rope.freq_base", 10_000.0),
        "dim": 0 if dim == head_dim else dim,
        "layout": layout,
    }
    return Rope(**fields, **_gguf_scaling(settings, dim, fields["base"], source))


def _gguf_scaling(settings: Settings, dim: int, base: float, source: Source) -> Fields:
    factor = settings.get("rope.scaling.factor") or settings.get("rope.scale_linear") or 1.0
    attention = settings.get("rope.scaling.attn_factor", 1.0)
    trained = settings.get("rope.scaling.original_context_length") or settings.get("context_length", 2048)
    scaling = settings.get("rope.scaling.type", "linear")
    if SHORT in source.names and LONG in source.names:
        lists = {"factors": _listed(source, SHORT), "long_factors": _listed(source, LONG)}
        return {"scaling": "longrope", "original_context": trained, "attention_factor": attention} | lists
    if FREQS in source.names:
        return _from_divisors(_listed(source, FREQS), dim, base, attention)
    if scaling == "yarn":
        # llama.cpp multiplies by YaRN's own recommendation as well; 0 stands for just that
        sharpness = 0.0 if attention == 1.0 else attention * yarn_sharpness(factor)
        return {"scaling": "yarn", "factor": factor, "original_context": trained, "attention_factor": sharpness}
    if scaling == "linear" and factor != 1.0:
        return {"scaling": "linear", "factor": factor}
    return {}


def _listed(source: Source, name: str) -> tuple[float, ...]:
    return tuple(float(value) for value in source.read(name).ravel())


def _from_divisors(divisors: tuple[float, ...], dim: int, base: float, attention: float) -> Fields:
    """Recognizes Llama 3's scaling by what it makes of the frequencies; other lists are kept as they are."""
    llama3 = Rope(scaling="llama3", base=base, factor=max(divisors), **_LLAMA3)
    if llama3.factor > 1 and np.allclose(llama3_divisors(llama3, dim), divisors, rtol=1e-4):
        return {"scaling": "llama3", "factor": llama3.factor, **_LLAMA3}
    return {"scaling": "factors", "factors": divisors, "attention_factor": attention}


def rope_to_gguf(rope: Rope, head_dim: int, *, divisors: bool) -> Fields:
    """Returns the GGUF keys; `divisors` says whether the family's graph reads a table of them."""
    fields: Fields = {"rope.freq_base": float(rope.base), "rope.dimension_count": rope.dim or head_dim}
    if as_divisors(rope, divisors=divisors):
        factor = attention_factor(rope)
        return fields | ({} if factor == 1.0 else {"rope.scaling.type": "none", "rope.scaling.attn_factor": factor})
    if rope.scaling == "linear":
        return fields | {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope.factor)}
    if rope.scaling == "longrope":
        return fields | {"rope.scaling.type": "longrope", "rope.scaling.attn_factor": attention_factor(rope),
                         "rope.scaling.original_context_length": rope.original_context}  # fmt: skip
    if rope.scaling == "yarn":
        return fields | _yarn_to_gguf(rope)
    return fields  # dynamic scaling leaves texts of the original length as they are


def _yarn_to_gguf(rope: Rope) -> Fields:
    fields: Fields = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": float(rope.factor),
        "rope.scaling.original_context_length": rope.original_context,
        "rope.scaling.yarn_beta_fast": float(rope.beta_fast),
        "rope.scaling.yarn_beta_slow": float(rope.beta_slow),
    }
    extra = attention_factor(rope) / yarn_sharpness(rope.factor)
    return fields if math.isclose(extra, 1.0) else fields | {"rope.scaling.attn_factor": extra}


def as_divisors(rope: Rope, *, divisors: bool) -> bool:
    """Whether a GGUF file holds the scaling as a table of divisors, one for each pair."""
    return rope.scaling in ("llama3", "factors") or (rope.scaling == "yarn" and divisors and not _plain_yarn(rope))


def _plain_yarn(rope: Rope) -> bool:
    return (rope.beta_fast, rope.beta_slow) == _OWN_BETAS and rope.truncate


def rope_tensors(config: ModelConfig, *, divisors: bool) -> dict[str, NDArray[Any]]:
    """Returns the tensors (dim / 2) that a GGUF file of this model holds for its positions."""
    rope = config.rope
    if config.position != "rope":
        return {}
    if rope.scaling == "longrope":
        return {SHORT: np.asarray(rope.factors, np.float32), LONG: np.asarray(rope.long_factors, np.float32)}
    if not as_divisors(rope, divisors=divisors):
        return {}
    plain = Rope(base=rope.base, dim=rope.dim)
    stretched = frequencies(rope, config.head_dim, 0)
    return {FREQS: (frequencies(plain, config.head_dim, 0) / stretched).astype(np.float32)}


def rope_misfit(config: ModelConfig, *, divisors: bool) -> str | None:
    """Says in a sentence why llama.cpp's graph of a family cannot turn as the model does; None when it can."""
    rope = config.rope
    if config.position != "rope" or divisors:
        return None
    if rope.scaling == "longrope" or as_divisors(rope, divisors=False):
        return _("llama.cpp applies the RoPE scaling “{scaling}” to Llama models only.").format(scaling=rope.scaling)
    if rope.scaling == "yarn" and not _plain_yarn(rope):
        return _("llama.cpp knows YaRN scaling with its usual bounds (32 and 1) only.")
    return None


def gguf_context(config: ModelConfig, *, windows: bool) -> int:
    """Returns the context length up to which llama.cpp's graph reads exactly as the model does.

    Dynamic scaling is none within the original length; without windows in the graph, a text as long as the model's
    smallest window reads the same.
    """
    limits = [config.context_length]
    if config.position == "rope" and config.rope.scaling == "dynamic":
        limits.append(config.rope.original_context)
    if config.sliding_window and not windows:
        limits.append(config.sliding_window)
    return min(limits)
