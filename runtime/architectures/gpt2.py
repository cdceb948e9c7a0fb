"""GPT-2: LayerNorm before each part, learned positions, biases everywhere, a plain GELU feed-forward part."""

from __future__ import annotations

from runtime.architectures.base import Architecture, Fields, KeyRow, Settings, Source, TensorRow, untied
from runtime.architectures.forms import FUSED_QKV, TRANSPOSE, TRANSPOSED_QKV
from runtime.architectures.shared import BLK, LAYER, QKV, QKV_BIASES, TIED, hf_activation, refuse
from runtime.config import ModelConfig
from runtime.text import _

_H = "transformer.h.{i}."
_MATRICES = {  # ours: in folders, in GGUF
    "attention.out": ("attn.c_proj", "attn_output"),
    "ffn.up": ("mlp.c_fc", "ffn_up"),
    "ffn.down": ("mlp.c_proj", "ffn_down"),
}
_NORMS = {"attention_residual.norm": ("ln_1", "attn_norm"), "ffn_residual.norm": ("ln_2", "ffn_norm")}


def _rows() -> tuple[TensorRow, ...]:
    norms = (
        TensorRow(f"{LAYER}{ours}.{kind}", f"{_H}{hf}.{kind}", f"{BLK}{gguf}.{kind}")
        for ours, (hf, gguf) in _NORMS.items() for kind in ("weight", "bias")
    )  # fmt: skip
    matrices = (
        TensorRow(f"{LAYER}{ours}.{kind}", f"{_H}{hf}.{kind}", f"{BLK}{gguf}.{kind}", hf_form=TRANSPOSE)
        for ours, (hf, gguf) in _MATRICES.items() for kind in ("weight", "bias")
    )  # fmt: skip
    return (
        TensorRow("embedding.weight", "transformer.wte.weight", "token_embd.weight"),
        TensorRow("decoder.positions.weight", "transformer.wpe.weight", "position_embd.weight"),
        *norms,
        TensorRow(QKV, f"{_H}attn.c_attn.weight", f"{BLK}attn_qkv.weight", TRANSPOSED_QKV, FUSED_QKV),
        TensorRow(QKV_BIASES, f"{_H}attn.c_attn.bias", f"{BLK}attn_qkv.bias", FUSED_QKV, FUSED_QKV),
        *matrices,
        TensorRow("decoder.norm.weight", "transformer.ln_f.weight", "output_norm.weight"),
        TensorRow("decoder.norm.bias", "transformer.ln_f.bias", "output_norm.bias"),
        TensorRow("head.weight", "lm_head.weight", "output.weight", when=untied),
    )


_KEYS = (
    KeyRow("vocab_size", "vocab_size", "vocab_size"),
    KeyRow("d_model", "n_embd", "embedding_length"),
    KeyRow("n_layers", "n_layer", "block_count"),
    KeyRow("n_heads", "n_head", "attention.head_count"),
    KeyRow("n_kv_heads", "", "", lambda known: known["n_heads"]),
    KeyRow("head_dim", "", "", lambda known: known["d_model"] // known["n_heads"]),
    KeyRow("d_ff", "n_inner", "feed_forward_length", lambda known: 4 * known["d_model"]),
    KeyRow("context_length", "n_positions", "context_length", 1024),
    KeyRow("norm_eps", "layer_norm_epsilon", "attention.layer_norm_epsilon", 1e-5),
    TIED,
)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    refuse(raw, scale_attn_by_inverse_layer_idx=True, add_cross_attention=True)
    scale = {} if raw.get("scale_attn_weights", True) else {"attention_scale": 1.0}
    return {"activation": hf_activation(raw, "activation_function")} | scale


def _extra_gguf(settings: Settings, known: Fields, source: Source) -> Fields:
    # llama.cpp's own converter wrote the embedding a second time as the head
    return {"tied": "output.weight" not in source.names, "activation": "gelu_tanh"}


def _write_hf(config: ModelConfig) -> Fields:
    names = {"gelu_tanh": "gelu_new"}
    return {"activation_function": names.get(config.activation, config.activation),
            "scale_attn_weights": config.attention_scale != 1.0}  # fmt: skip


def _fits(config: ModelConfig) -> str | None:
    if config.activation != "gelu_tanh" or config.attention_scale:
        return _("llama.cpp's GPT-2 graph has GELU in its tanh form and scaled scores; this model differs.")
    return None


ARCHITECTURE = Architecture(
    name="gpt2",
    hf_types=("gpt2",),
    hf_classes=("GPT2LMHeadModel",),
    gguf="gpt2",
    prefix="transformer.",
    fixed={"norm": "layer", "position": "learned", "gated": False, "qkv_bias": True, "out_bias": True,
           "ffn_bias": True},
    hf_defaults={"tie_word_embeddings": True, "activation_function": "gelu_new"},
    tensors=_rows(),
    keys=_KEYS,
    extra_hf=_extra_hf,
    extra_gguf=_extra_gguf,
    write_hf=_write_hf,
    fits_gguf=_fits,
)  # fmt: skip
