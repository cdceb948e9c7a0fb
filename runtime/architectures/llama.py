"""Llama 2 and 3, Mistral, SmolLM2, TinyLlama and all that are built alike: pre-norm, RoPE, grouped queries, SwiGLU."""

from __future__ import annotations

from runtime.architectures.base import Architecture, Fields, Settings
from runtime.architectures.shared import (
    RMS_EPS,
    TIED,
    RopeFunctions,
    attention,
    ends,
    gated_ffn,
    hf_layer_types,
    hf_windows,
    norms,
    sizes,
)
from runtime.config import ModelConfig

_FUNCTIONS = RopeFunctions(
    divisors=True,
    graph_biases=("qkv_bias", "out_bias", "ffn_bias"),
    biases={"qkv_bias": "attention_bias", "out_bias": "attention_bias", "ffn_bias": "mlp_bias"},
)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    return _FUNCTIONS.extra_hf(raw, known) | hf_windows(raw, known)


def _write_hf(config: ModelConfig) -> Fields:
    """A window is Mistral's; Llama's own program knows none."""
    if not config.sliding_window:
        return _FUNCTIONS.write_hf(config)
    mistral: Fields = {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
    return _FUNCTIONS.write_hf(config) | hf_layer_types(config) | mistral


ARCHITECTURE = Architecture(
    name="llama",
    hf_types=("llama", "mistral"),
    hf_classes=("LlamaForCausalLM", "MistralForCausalLM"),
    gguf="llama",
    accepts=lambda settings: not settings.get("expert_count"),
    tensors=(*ends(), *norms(), *attention(permuted=True), *gated_ffn()),
    keys=(*sizes(), RMS_EPS, TIED),
    extra_hf=_extra_hf,
    extra_gguf=_FUNCTIONS.extra_gguf,
    write_hf=_write_hf,
    write_gguf=_FUNCTIONS.write_gguf,
    gguf_tensors=_FUNCTIONS.gguf_tensors,
    fits_gguf=_FUNCTIONS.fits_gguf,
)
