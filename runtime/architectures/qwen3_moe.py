"""Qwen 3 with a mixture of experts in place of the feed-forward part, on all layers or most."""

from __future__ import annotations

from runtime.architectures.base import Architecture, Fields, KeyRow, Settings, Source
from runtime.architectures.shared import (
    RMS_EPS,
    TIED,
    RopeFunctions,
    attention,
    ends,
    expert_rows,
    gated_ffn,
    hf_layer_types,
    hf_windows,
    norms,
    qk_norms,
    sizes,
)
from runtime.config import ModelConfig
from runtime.text import _

_FUNCTIONS = RopeFunctions(biases={"qkv_bias": "attention_bias", "out_bias": "attention_bias"})
_KEYS = (
    KeyRow("n_experts", "num_experts", "expert_count", 128),
    KeyRow("n_experts_used", "num_experts_per_tok", "expert_used_count", 8),
    KeyRow("expert_d_ff", "moe_intermediate_size", "expert_feed_forward_length", 768),
    KeyRow("normalize_expert_weights", "norm_topk_prob", "", False),
)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    every, plain = raw.get("decoder_sparse_step", 1), raw.get("mlp_only_layers") or []
    dense = tuple(i for i in range(known["n_layers"]) if i in plain or (i + 1) % every)
    return _FUNCTIONS.extra_hf(raw, known) | hf_windows(raw, known) | {"dense_layers": dense} | _experts(raw)


def _experts(raw: Settings) -> Fields:
    return {} if raw.get("num_local_experts") is None else {"n_experts": raw["num_local_experts"]}


def _extra_gguf(settings: Settings, known: Fields, source: Source) -> Fields:
    return _FUNCTIONS.extra_gguf(settings, known, source) | {"normalize_expert_weights": True}


def _write_hf(config: ModelConfig) -> Fields:
    window = hf_layer_types(config) | {"use_sliding_window": bool(config.sliding_window)}
    return _FUNCTIONS.write_hf(config) | window | {"mlp_only_layers": list(config.dense_layers)}


def _fits(config: ModelConfig) -> str | None:
    if config.dense_layers:
        return _("llama.cpp's Qwen 3 graph has experts on every layer; this model has layers without.")
    if not config.normalize_expert_weights:
        return _("llama.cpp's Qwen 3 graph weighs experts so that they sum to 1; this model does not.")
    return _FUNCTIONS.fits_gguf(config)


ARCHITECTURE = Architecture(
    name="qwen3_moe",
    hf_types=("qwen3_moe",),
    hf_classes=("Qwen3MoeForCausalLM",),
    gguf="qwen3moe",
    fixed={"qk_norm": "head"},
    hf_defaults={"use_sliding_window": False},
    tensors=(
        *ends(), *norms(), *attention(), *qk_norms(), *gated_ffn(),
        *expert_rows("mlp", {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}),
    ),
    keys=(*sizes(), RMS_EPS, TIED, *_KEYS),
    extra_hf=_extra_hf,
    extra_gguf=_extra_gguf,
    write_hf=_write_hf,
    write_gguf=_FUNCTIONS.write_gguf,
    gguf_tensors=_FUNCTIONS.gguf_tensors,
    fits_gguf=_fits,
)  # fmt: skip
