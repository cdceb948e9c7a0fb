"""GPT-NeoX and Pythia: attention and feed-forward part side by side, LayerNorm, a quarter of each head rotated."""

from __future__ import annotations

from runtime.architectures.base import (
    Architecture,
    Condition,
    Fields,
    KeyRow,
    Settings,
    Source,
    TensorRow,
    always,
    untied,
    with_out_bias,
    with_qkv_bias,
)
from runtime.architectures.forms import FUSED_QKV, FUSED_QKV_BY_HEAD
from runtime.architectures.rope_keys import gguf_context, gguf_rope, hf_rope, rope_misfit, rope_to_gguf, rope_to_hf
from runtime.architectures.shared import BLK, LAYER, QKV, QKV_BIASES, TIED, hf_activation
from runtime.config import ModelConfig
from runtime.text import _

_L = "gpt_neox.layers.{i}."
_PART = 0.25
_PLAIN = {  # ours: in folders, in GGUF
    "attention_residual.norm": ("input_layernorm", "attn_norm"),
    "ffn_residual.norm": ("post_attention_layernorm", "ffn_norm"),
    "attention.out": ("attention.dense", "attn_output"),
    "ffn.up": ("mlp.dense_h_to_4h", "ffn_up"),
    "ffn.down": ("mlp.dense_4h_to_h", "ffn_down"),
}


def _with_bias(name: str) -> Condition:
    return with_out_bias if name == "attention.out" else always


def _rows() -> tuple[TensorRow, ...]:
    plain = (
        TensorRow(f"{LAYER}{ours}.{kind}", f"{_L}{hf}.{kind}", f"{BLK}{gguf}.{kind}",
                  when=_with_bias(ours) if kind == "bias" else always)
        for ours, (hf, gguf) in _PLAIN.items() for kind in ("weight", "bias")
    )  # fmt: skip
    return (
        TensorRow("embedding.weight", "gpt_neox.embed_in.weight", "token_embd.weight"),
        *plain,
        TensorRow(QKV, f"{_L}attention.query_key_value.weight", f"{BLK}attn_qkv.weight", FUSED_QKV_BY_HEAD, FUSED_QKV),
        TensorRow(QKV_BIASES, f"{_L}attention.query_key_value.bias", f"{BLK}attn_qkv.bias", FUSED_QKV_BY_HEAD,
                  FUSED_QKV, when=with_qkv_bias),
        TensorRow("decoder.norm.weight", "gpt_neox.final_layer_norm.weight", "output_norm.weight"),
        TensorRow("decoder.norm.bias", "gpt_neox.final_layer_norm.bias", "output_norm.bias"),
        TensorRow("head.weight", "embed_out.weight", "output.weight", when=untied),
    )  # fmt: skip


_KEYS = (
    KeyRow("vocab_size", "vocab_size", "vocab_size"),
    KeyRow("d_model", "hidden_size", "embedding_length"),
    KeyRow("n_layers", "num_hidden_layers", "block_count"),
    KeyRow("n_heads", "num_attention_heads", "attention.head_count"),
    KeyRow("n_kv_heads", "", "", lambda known: known["n_heads"]),
    KeyRow("head_dim", "", "", lambda known: known["d_model"] // known["n_heads"]),
    KeyRow("d_ff", "intermediate_size", "feed_forward_length"),
    KeyRow("context_length", "max_position_embeddings", "context_length", 2048),
    KeyRow("norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon", 1e-5),
    KeyRow("parallel_residual", "use_parallel_residual", "use_parallel_residual", True),
    TIED,
)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    named = {"partial_rotary_factor": raw.get("rotary_pct", _PART), "rope_theta": raw.get("rotary_emb_base")}
    has_bias = bool(raw.get("attention_bias", True))
    return {
        "rope": hf_rope({**raw, **{key: raw.get(key) or value for key, value in named.items()}}, known["head_dim"]),
        "activation": hf_activation(raw, "hidden_act"),
        "qkv_bias": has_bias,
        "out_bias": has_bias,
    }


def _extra_gguf(settings: Settings, known: Fields, source: Source) -> Fields:
    # its models were trained with the exact GELU, which llama.cpp's graph approximates
    return {"rope": gguf_rope(settings, known["head_dim"], source), "activation": "gelu", "qkv_bias": True,
            "out_bias": True, "tied": "output.weight" not in source.names}  # fmt: skip


def _write_hf(config: ModelConfig) -> Fields:
    names = {"gelu_tanh": "gelu_new"}
    return {
        "rotary_pct": (config.rope.dim or config.head_dim) / config.head_dim,
        "rotary_emb_base": config.rope.base,
        "rope_scaling": rope_to_hf(config.rope, config.head_dim)["rope_scaling"],
        "hidden_act": names.get(config.activation, config.activation),
        "attention_bias": config.qkv_bias,
    }


def _write_gguf(config: ModelConfig) -> Fields:
    rope = rope_to_gguf(config.rope, config.head_dim, divisors=False)
    return rope | {"context_length": gguf_context(config, windows=False)}


def _fits(config: ModelConfig) -> str | None:
    if config.tied or not config.qkv_bias:
        return _("llama.cpp's GPT-NeoX graph needs a head of its own and biases; this model lacks one of them.")
    if config.activation not in ("gelu", "gelu_tanh"):
        return _("llama.cpp's graph of this family has another activation than “{name}”.").format(
            name=config.activation)  # fmt: skip
    return rope_misfit(config, divisors=False)


ARCHITECTURE = Architecture(
    name="gpt_neox",
    hf_types=("gpt_neox",),
    hf_classes=("GPTNeoXForCausalLM",),
    gguf="gptneox",
    prefix="gpt_neox.",
    fixed={"norm": "layer", "gated": False, "ffn_bias": True},
    hf_defaults={"hidden_act": "gelu"},
    tensors=_rows(),
    keys=_KEYS,
    extra_hf=_extra_hf,
    extra_gguf=_extra_gguf,
    write_hf=_write_hf,
    write_gguf=_write_gguf,
    fits_gguf=_fits,
)  # fmt: skip
