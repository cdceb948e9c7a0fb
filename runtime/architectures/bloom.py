"""BLOOM: LayerNorm, also on the embedding, a plain GELU part, and ALiBi: scores that fall with the distance."""

from __future__ import annotations

from runtime.architectures.base import Architecture, Fields, KeyRow, Settings, Source, TensorRow, untied
from runtime.architectures.forms import FUSED_QKV, FUSED_QKV_BY_HEAD
from runtime.architectures.shared import BLK, LAYER, QKV, QKV_BIASES, TIED, refuse

_H = "transformer.h.{i}."
_PLAIN = {  # ours: in folders, in GGUF
    f"{LAYER}attention_residual.norm": (f"{_H}input_layernorm", f"{BLK}attn_norm"),
    f"{LAYER}ffn_residual.norm": (f"{_H}post_attention_layernorm", f"{BLK}ffn_norm"),
    f"{LAYER}attention.out": (f"{_H}self_attention.dense", f"{BLK}attn_output"),
    f"{LAYER}ffn.up": (f"{_H}mlp.dense_h_to_4h", f"{BLK}ffn_up"),
    f"{LAYER}ffn.down": (f"{_H}mlp.dense_4h_to_h", f"{BLK}ffn_down"),
    "decoder.embedding_norm": ("transformer.word_embeddings_layernorm", "token_embd_norm"),
    "decoder.norm": ("transformer.ln_f", "output_norm"),
}
_FUSED = f"{_H}self_attention.query_key_value"

_ROWS = (
    TensorRow("embedding.weight", "transformer.word_embeddings.weight", "token_embd.weight"),
    *(
        TensorRow(f"{ours}.{kind}", f"{hf}.{kind}", f"{gguf}.{kind}")
        for ours, (hf, gguf) in _PLAIN.items() for kind in ("weight", "bias")
    ),
    TensorRow(QKV, f"{_FUSED}.weight", f"{BLK}attn_qkv.weight", FUSED_QKV_BY_HEAD, FUSED_QKV),
    TensorRow(QKV_BIASES, f"{_FUSED}.bias", f"{BLK}attn_qkv.bias", FUSED_QKV_BY_HEAD, FUSED_QKV),
    TensorRow("head.weight", "lm_head.weight", "output.weight", when=untied),
)  # fmt: skip

_KEYS = (
    KeyRow("vocab_size", "vocab_size", "vocab_size"),
    KeyRow("d_model", "hidden_size", "embedding_length", older=("n_embed",)),
    KeyRow("n_layers", "n_layer", "block_count", older=("num_hidden_layers",)),
    KeyRow("n_heads", "n_head", "attention.head_count", older=("num_attention_heads",)),
    KeyRow("n_kv_heads", "", "", lambda known: known["n_heads"]),
    KeyRow("head_dim", "", "", lambda known: known["d_model"] // known["n_heads"]),
    KeyRow("d_ff", "", "feed_forward_length", lambda known: 4 * known["d_model"]),
    KeyRow("context_length", "seq_length", "context_length", 2048),
    KeyRow("norm_eps", "layer_norm_epsilon", "attention.layer_norm_epsilon", 1e-5),
    TIED,
)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    refuse(raw, apply_residual_connection_post_layernorm=True)
    return {}


def _extra_gguf(settings: Settings, known: Fields, source: Source) -> Fields:
    return {"tied": "output.weight" not in source.names}


ARCHITECTURE = Architecture(
    name="bloom",
    hf_types=("bloom",),
    hf_classes=("BloomForCausalLM",),
    gguf="bloom",
    prefix="transformer.",
    fixed={"norm": "layer", "position": "alibi", "embedding_norm": True, "gated": False, "activation": "gelu_tanh",
           "qkv_bias": True, "out_bias": True, "ffn_bias": True},
    hf_defaults={"tie_word_embeddings": True},
    tensors=_ROWS,
    keys=_KEYS,
    extra_hf=_extra_hf,
    extra_gguf=_extra_gguf,
)  # fmt: skip
