"""Gemma 2: norms on both sides, GeGLU, capped scores and logits, and a window on every other layer."""

from __future__ import annotations

from runtime.architectures import gemma
from runtime.architectures.base import Architecture, Fields, KeyRow, Settings, Source, TensorRow, untied
from runtime.architectures.shared import (
    RMS_EPS,
    TIED,
    RopeFunctions,
    attention,
    gated_ffn,
    hf_windows,
    refuse,
    sizes,
)
from runtime.config import ModelConfig
from runtime.text import _

_EVERY = 2  # one layer in so many sees everything, in files that do not say
_WINDOW = 4096
_LARGEST = 46  # layers of the 27B model
_FUNCTIONS = RopeFunctions(
    windows=True, activation="gelu_tanh", biases={"qkv_bias": "attention_bias", "out_bias": "attention_bias"}
)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    refuse(raw, use_bidirectional_attention=True)
    return (
        _FUNCTIONS.extra_hf(raw, known)
        | gemma.fields(known)
        | gemma.hf_scale(raw)
        | hf_windows(raw, known, lambda layer: gemma.slides(layer, _EVERY))
    )


def _extra_gguf(settings: Settings, known: Fields, source: Source) -> Fields:
    return (
        _FUNCTIONS.extra_gguf(settings, known, source)
        | gemma.fields(known)
        | gemma.gguf_scale(known, _LARGEST)
        | gemma.gguf_windows(settings, known, _EVERY, window=_WINDOW)
    )


def _write_hf(config: ModelConfig) -> Fields:
    softcap = {"attn_logit_softcapping": config.attention_softcap or None}
    return _FUNCTIONS.write_hf(config) | gemma.write_hf(config) | softcap


def _write_gguf(config: ModelConfig) -> Fields:
    return _FUNCTIONS.write_gguf(config) | gemma.write_gguf_windows(config, _EVERY)


def _fits(config: ModelConfig) -> str | None:
    if not config.tied:
        return _("llama.cpp's Gemma 2 graph has the embedding for its head; this model's differs.")
    if not (config.attention_softcap and config.logit_softcap and config.sliding_window):
        return _("llama.cpp's Gemma 2 graph always caps scores and logits and has windows; this model does not.")
    return gemma.misfit(config, _LARGEST) or _FUNCTIONS.fits_gguf(config)


ARCHITECTURE = Architecture(
    name="gemma2",
    hf_types=("gemma2",),
    hf_classes=("Gemma2ForCausalLM",),
    gguf="gemma2",
    hf_defaults={"vocab_size": 256000, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                 "max_position_embeddings": 8192, "tie_word_embeddings": True, "query_pre_attn_scalar": 256,
                 "hidden_activation": "gelu_pytorch_tanh",
                 "sliding_window": _WINDOW, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    tensors=(
        *gemma.ends(),
        TensorRow("head.weight", "lm_head.weight", "", when=untied),
        *gemma.both_norms(), *attention(), *gated_ffn(),
    ),
    keys=(
        *sizes(), RMS_EPS, TIED,
        KeyRow("logit_softcap", "final_logit_softcapping", "final_logit_softcapping", 30.0),
        KeyRow("attention_softcap", "attn_logit_softcapping", "attn_logit_softcapping", 50.0),
    ),
    extra_hf=_extra_hf,
    extra_gguf=_extra_gguf,
    write_hf=_write_hf,
    write_gguf=_write_gguf,
    gguf_tensors=_FUNCTIONS.gguf_tensors,
    fits_gguf=_fits,
)  # fmt: skip
