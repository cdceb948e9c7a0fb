"""What Gemma 2 and Gemma 3 share: norms on both sides, scaled embeddings, and windows on some layers."""

from __future__ import annotations

import math

from runtime.architectures.base import Fields, Settings, TensorRow
from runtime.architectures.forms import ADD_ONE
from runtime.architectures.shared import BLK, HF_LAYER, LAYER, hf_activation_name, hf_layer_types
from runtime.config import ModelConfig
from runtime.text import _

_NORM_NAMES = {  # ours: in folders, in GGUF
    "attention_residual.norm": ("input_layernorm", "attn_norm"),
    "attention_residual.post_norm": ("post_attention_layernorm", "post_attention_norm"),
    "ffn_residual.norm": ("pre_feedforward_layernorm", "ffn_norm"),
    "ffn_residual.post_norm": ("post_feedforward_layernorm", "post_ffw_norm"),
}
FIXED: Fields = {"norm_placement": "both"}


def both_norms() -> tuple[TensorRow, ...]:
    """Returns the four norms of a layer; folders hold their distance from 1."""
    return tuple(
        TensorRow(f"{LAYER}{ours}.weight", f"{HF_LAYER}{hf}.weight", f"{BLK}{gguf}.weight", hf_form=ADD_ONE)
        for ours, (hf, gguf) in _NORM_NAMES.items()
    )


def ends() -> tuple[TensorRow, ...]:
    """Returns embedding and last norm."""
    return (
        TensorRow("embedding.weight", "model.embed_tokens.weight", "token_embd.weight"),
        TensorRow("decoder.norm.weight", "model.norm.weight", "output_norm.weight", hf_form=ADD_ONE),
    )


def fields(known: Fields) -> Fields:
    """Returns what all models of both families have, and how large their embeddings are made."""
    return FIXED | {"embedding_scale": math.sqrt(known["d_model"])}


def hf_scale(raw: Settings) -> Fields:
    """Returns what the scores are multiplied by: config.json has the number whose root they are divided by."""
    return {"attention_scale": raw["query_pre_attn_scalar"] ** -0.5}


def write_scale(config: ModelConfig) -> Fields:
    """Returns config.json's key for the scale of the scores."""
    return {"query_pre_attn_scalar": round(config.score_scale**-2)}


def gguf_scale(known: Fields, largest: int) -> Fields:
    """Returns the scale that llama.cpp's graph has built in: the family's largest model, by its layers, has another."""
    size = known["d_model"] // known["n_heads"] if known["n_layers"] == largest else known["head_dim"]
    return {"attention_scale": size**-0.5}


def misfit(config: ModelConfig, largest: int) -> str | None:
    """Says why llama.cpp's graph cannot score as the model does."""
    known = {"d_model": config.d_model, "n_heads": config.n_heads, "n_layers": config.n_layers,
             "head_dim": config.head_dim}  # fmt: skip
    if not math.isclose(config.score_scale, gguf_scale(known, largest)["attention_scale"]):
        return _("llama.cpp's Gemma graph scales scores by the head size; this model scales them otherwise.")
    return None


def slides(layer: int, every: int) -> bool:
    """Whether a layer has a window, where one layer in `every`, the last of each group, has none."""
    return bool((layer + 1) % every)


def full_layers(n_layers: int, every: int) -> tuple[int, ...]:
    """Returns the layers without a window."""
    return tuple(layer for layer in range(n_layers) if not slides(layer, every))


def gguf_windows(settings: Settings, known: Fields, every: int, window: int) -> Fields:
    """Returns window and layers without one; `every` and `window` are what llama.cpp assumes where a file is silent."""
    window = settings.get("attention.sliding_window", window)
    pattern = settings.get("attention.sliding_window_pattern", every)
    if isinstance(pattern, int) and not isinstance(pattern, bool):
        full = full_layers(known["n_layers"], pattern)
    else:
        full = tuple(layer for layer, has in enumerate(pattern) if not has)
    return {"sliding_window": window, "full_attention_layers": full} if window else {}


def write_gguf_windows(config: ModelConfig, every: int) -> Fields:
    """Returns the keys of the windows; the list of layers only where it is not the usual one."""
    if not config.sliding_window:
        return {}
    said: Fields = {"attention.sliding_window": config.sliding_window}
    if config.full_attention_layers == full_layers(config.n_layers, every):
        return said
    return said | {"attention.sliding_window_pattern": [bool(config.window_of(i)) for i in range(config.n_layers)]}


def write_hf(config: ModelConfig) -> Fields:
    """Returns config.json's keys of both families."""
    softcap = config.logit_softcap or None
    activation = {"hidden_activation": hf_activation_name(config)}
    return hf_layer_types(config) | write_scale(config) | activation | {"final_logit_softcapping": softcap}
