"""Qwen 2 and 2.5: Llama's shape with biases on queries, keys and values."""

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
    sizes,
)
from runtime.config import ModelConfig

_FUNCTIONS = RopeFunctions()


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    return _FUNCTIONS.extra_hf(raw, known) | hf_late_windows(raw, known)


def _write_hf(config: ModelConfig) -> Fields:
    return _FUNCTIONS.write_hf(config) | hf_layer_types(config) | {"use_sliding_window": bool(config.sliding_window)}


ARCHITECTURE = Architecture(
    name="qwen2",
    hf_types=("qwen2",),
    hf_classes=("Qwen2ForCausalLM",),
    gguf="qwen2",
    fixed={"qkv_bias": True},
    hf_defaults={"use_sliding_window": False},
    tensors=(*ends(), *norms(), *attention(), *gated_ffn()),
    keys=(*sizes(), RMS_EPS, TIED),
    extra_hf=_extra_hf,
    extra_gguf=_FUNCTIONS.extra_gguf,
    write_hf=_write_hf,
    write_gguf=_FUNCTIONS.write_gguf,
    gguf_tensors=_FUNCTIONS.gguf_tensors,
    fits_gguf=_FUNCTIONS.fits_gguf,
)
