"""Phi-3, 3.5 and Phi-4 mini: Llama's arithmetic, with query, key and value in one matrix, and longrope."""

from __future__ import annotations

import msgspec

from runtime.architectures.base import Architecture, Fields, Settings, TensorRow
from runtime.architectures.forms import FUSED_GATE_UP, FUSED_QKV
from runtime.architectures.shared import (
    BLK,
    GATE_UP,
    HF_LAYER,
    LAYER,
    QKV,
    RMS_EPS,
    TIED,
    RopeFunctions,
    ends,
    hf_windows,
    norms,
    sizes,
)
from runtime.config import ModelConfig
from runtime.text import _

_FUNCTIONS = RopeFunctions(divisors=True)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    fields = _FUNCTIONS.extra_hf(raw, known)
    rope = fields["rope"]
    if rope.long_factors:  # early files call it "su" or "yarn"
        fields["rope"] = msgspec.structs.replace(rope, scaling="longrope")
    return fields | hf_windows(raw, known)


def _write_hf(config: ModelConfig) -> Fields:
    trained = config.rope.original_context or config.context_length
    window = {"sliding_window": config.sliding_window or None, "original_max_position_embeddings": trained}
    return _FUNCTIONS.write_hf(config) | window


def _write_gguf(config: ModelConfig) -> Fields:
    """A window of 0 tells llama.cpp that there is none."""
    return _FUNCTIONS.write_gguf(config) | {"attention.sliding_window": 0}


def _fits(config: ModelConfig) -> str | None:
    if config.head_dim * config.n_heads != config.d_model:
        return _("llama.cpp's Phi-3 graph derives the head size from the model's width; this model's differs.")
    if config.rope.scaling in ("llama3", "factors", "yarn"):
        return _("llama.cpp's Phi-3 graph knows the RoPE scaling “longrope” only.")
    return _FUNCTIONS.fits_gguf(config)


ARCHITECTURE = Architecture(
    name="phi3",
    hf_types=("phi3",),
    hf_classes=("Phi3ForCausalLM",),
    gguf="phi3",
    hf_defaults={"max_position_embeddings": 4096, "rms_norm_eps": 1e-5},
    tensors=(
        *ends(),
        *norms(),
        TensorRow(QKV, f"{HF_LAYER}self_attn.qkv_proj.weight", f"{BLK}attn_qkv.weight",
                  hf_form=FUSED_QKV, gguf_form=FUSED_QKV),
        TensorRow(f"{LAYER}attention.out.weight", f"{HF_LAYER}self_attn.o_proj.weight", f"{BLK}attn_output.weight"),
        TensorRow(GATE_UP, f"{HF_LAYER}mlp.gate_up_proj.weight", f"{BLK}ffn_up.weight",
                  hf_form=FUSED_GATE_UP, gguf_form=FUSED_GATE_UP),
        TensorRow(f"{LAYER}ffn.down.weight", f"{HF_LAYER}mlp.down_proj.weight", f"{BLK}ffn_down.weight"),
    ),
    keys=(*sizes(), RMS_EPS, TIED),
    extra_hf=_extra_hf,
    extra_gguf=_FUNCTIONS.extra_gguf,
    write_hf=_write_hf,
    write_gguf=_write_gguf,
    gguf_tensors=_FUNCTIONS.gguf_tensors,
    fits_gguf=_fits,
)  # fmt: skip
