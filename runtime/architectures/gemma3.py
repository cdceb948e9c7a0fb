"""Gemma 3 (text): norms on both sides and on queries and keys, GeGLU, and a window on five layers of six."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.architectures import gemma
from runtime.architectures.base import Architecture, Fields, KeyRow, Settings, Source, TensorRow, untied
from runtime.architectures.forms import ADD_ONE
from runtime.architectures.rope_keys import hf_rope
from runtime.architectures.shared import (
    RMS_EPS,
    TIED,
    RopeFunctions,
    attention,
    gated_ffn,
    hf_windows,
    qk_norms,
    refuse,
    sizes,
)
from runtime.config import ModelConfig, Rope
from runtime.text import _

_EVERY = 6  # one layer in so many sees everything, in files that do not say
_LARGEST = 62  # layers of the 27B model
_LOCAL_BASE = 10_000.0
_FUNCTIONS = RopeFunctions(
    base=1_000_000.0,
    windows=True,
    activation="gelu_tanh",
    biases={"qkv_bias": "attention_bias", "out_bias": "attention_bias"},
)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    refuse(raw, use_bidirectional_attention=True)
    every = raw.get("sliding_window_pattern") or raw.get("_sliding_window_pattern") or _EVERY
    return (
        _FUNCTIONS.extra_hf(raw, known)
        | gemma.fields(known)
        | gemma.hf_scale(raw)
        | hf_windows(raw, known, lambda layer: gemma.slides(layer, every))
        | {"local_rope": _hf_local(raw, known["head_dim"])}
    )


def _hf_local(raw: Settings, head_dim: int) -> Rope:
    """In files of the old layout, scaling and base are those of the layers that see everything."""
    base = raw.get("rope_local_base_freq") or _LOCAL_BASE
    local = (raw.get("rope_parameters") or {}).get("sliding_attention")
    return hf_rope({"rope_parameters": local}, head_dim, base=base) if isinstance(local, Mapping) else Rope(base=base)


def _extra_gguf(settings: Settings, known: Fields, source: Source) -> Fields:
    return (
        _FUNCTIONS.extra_gguf(settings, known, source)
        | gemma.fields(known)
        | gemma.gguf_scale(known, _LARGEST)
        | gemma.gguf_windows(settings, known, _EVERY, window=0)
        | {"local_rope": Rope(base=settings.get("rope.freq_base_swa", _LOCAL_BASE))}
    )


def _write_hf(config: ModelConfig) -> Fields:
    local = config.local_rope.base if config.local_rope else _LOCAL_BASE
    return _FUNCTIONS.write_hf(config) | gemma.write_hf(config) | {"rope_local_base_freq": local}


def _write_gguf(config: ModelConfig) -> Fields:
    local = {"rope.freq_base_swa": config.local_rope.base} if config.local_rope else {}
    return _FUNCTIONS.write_gguf(config) | gemma.write_gguf_windows(config, _EVERY) | local


def _fits(config: ModelConfig) -> str | None:
    local = config.local_rope
    if local is not None and local != Rope(base=local.base):
        return _("llama.cpp's Gemma 3 graph stretches no positions on layers with a window, as this model does.")
    return gemma.misfit(config, _LARGEST) or _FUNCTIONS.fits_gguf(config)


ARCHITECTURE = Architecture(
    name="gemma3",
    hf_types=("gemma3_text", "gemma3"),
    hf_classes=("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
    gguf="gemma3",
    fixed={"qk_norm": "head"},
    hf_defaults={"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                 "max_position_embeddings": 131072, "tie_word_embeddings": True, "query_pre_attn_scalar": 256,
                 "hidden_activation": "gelu_pytorch_tanh",
                 "sliding_window": 4096},
    tensors=(
        *gemma.ends(),
        TensorRow("head.weight", "lm_head.weight", "output.weight", when=untied),
        *gemma.both_norms(), *attention(), *qk_norms(ADD_ONE), *gated_ffn(),
    ),
    keys=(
        *sizes(), RMS_EPS, TIED,
        KeyRow("logit_softcap", "final_logit_softcapping", "final_logit_softcapping", 0.0),
    ),
    extra_hf=_extra_hf,
    extra_gguf=_extra_gguf,
    write_hf=_write_hf,
    write_gguf=_write_gguf,
    gguf_tensors=_FUNCTIONS.gguf_tensors,
    fits_gguf=_fits,
)  # fmt: skip
