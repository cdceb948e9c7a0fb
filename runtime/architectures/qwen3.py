"""Qwen 3: Llama's shape with a norm on each query and key head, and a head size of its own."""

from __future__ import annotations

from runtime.architectures.base import Architecture, Fields, Settings
from runtime.architectures.shared import (
    RMS_EPS,
    TIED,
    RopeFunctions,
    attention,
    ends,
    gated_ffn,
    hf_late_windows,
    hf_layer_types,
    norms,
    qk_norms,
    sizes,
)
from runtime.config import ModelConfig

_FUNCTIONS = RopeFunctions(biases={"qkv_bias": "attention_bias", "out_bias": "attention_bias"})


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    return _FUNCTIONS.extra_hf(raw, known) | hf_late_windows(raw, known)


def _write_hf(config: ModelConfig) -> Fields:
    return _FUNCTIONS.write_hf(config) | hf_layer_types(config) | {"use_sliding_window": bool(config.sliding_window)}


ARCHITECTURE = Architecture(
    name="qwen3",
    hf_types=("qwen3",),
    hf_classes=("Qwen3ForCausalLM",),
    gguf="qwen3",
    fixed={"qk_norm": "head"},
    hf_defaults={"use_sliding_window": False, "head_dim": 128},
    tensors=(*ends(), *norms(), *attention(), *qk_norms(), *gated_ffn()),
    keys=(*sizes(), RMS_EPS, TIED),
    extra_hf=_extra_hf,
    extra_gguf=_FUNCTIONS.extra_gguf,
    write_hf=_write_hf,
    write_gguf=_FUNCTIONS.write_gguf,
    gguf_tensors=_FUNCTIONS.gguf_tensors,
    fits_gguf=_FUNCTIONS.fits_gguf,
)
