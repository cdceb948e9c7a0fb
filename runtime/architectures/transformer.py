"""The Transformer of 2017 (Attention Is All You Need, arXiv 1706.03762), encoder and decoder.

Six layers a side, 512 wide with 8 heads, ReLU layers of 2048 within, sinusoidal positions, LayerNorm after each part,
and one matrix, times the square root of d_model where it embeds, for source, target and head. All that are defaults
here. Names of layers and settings are those of `torch.nn.Transformer`, so that one trained with it can be taken over.
"""

from __future__ import annotations

from collections.abc import Iterator

from runtime.architectures.base import (
    Architecture,
    Fields,
    KeyRow,
    Settings,
    Side,
    TensorRow,
    always,
    untied,
    with_ffn_bias,
    with_out_bias,
    with_qkv_bias,
)
from runtime.architectures.both_sides import affine
from runtime.architectures.forms import FUSED_QKV
from runtime.architectures.shared import TIED, hf_activation
from runtime.config import ModelConfig
from runtime.text import _


def _rows() -> Iterator[TensorRow]:
    yield TensorRow("embedding.weight", "embedding.weight", "")
    yield from _side("encoder", {"attention": "self_attn"})
    yield from _side("decoder", {"attention": "self_attn", "cross": "multihead_attn"})
    yield TensorRow("head.weight", "head.weight", "", when=untied)


def _side(side: Side, attentions: dict[str, str]) -> Iterator[TensorRow]:
    layer = f"{side}.layers.{{i}}."
    for ours, name in attentions.items():
        for kind in ("weight", "bias"):
            parts = tuple(f"{layer}{ours}.{part}.{kind}" for part in "qkv")
            when = with_qkv_bias if kind == "bias" else always
            yield TensorRow(parts, f"{layer}{name}.in_proj_{kind}", "", FUSED_QKV, when=when, side=side)
        out = {f"{layer}{ours}.out": (f"{layer}{name}.out_proj", "")}
        yield from affine(out, side=side, kinds=("weight",))
        yield from affine(out, side=side, kinds=("bias",), when=with_out_bias)
    norms = [f"{layer}{ours}_residual.post_norm" for ours in (*attentions, "ffn")]
    yield from affine({ours: (f"{layer}norm{n}", "") for n, ours in enumerate(norms, 1)}, side=side)
    ffn = {f"{layer}ffn.up": (f"{layer}linear1", ""), f"{layer}ffn.down": (f"{layer}linear2", "")}
    yield from affine(ffn, side=side, kinds=("weight",))
    yield from affine(ffn, side=side, kinds=("bias",), when=with_ffn_bias)


_KEYS = (
    KeyRow("vocab_size", "vocab_size", ""),
    KeyRow("d_model", "d_model", "", 512),
    KeyRow("n_layers", "num_decoder_layers", "", 6),
    KeyRow("n_encoder_layers", "num_encoder_layers", "", 6),
    KeyRow("n_heads", "nhead", "", 8),
    KeyRow("n_kv_heads", "", "", lambda known: known["n_heads"]),
    KeyRow("head_dim", "", "", lambda known: known["d_model"] // known["n_heads"]),
    KeyRow("d_ff", "dim_feedforward", "", 2048),
    KeyRow("context_length", "max_position_embeddings", "", 1024),
    KeyRow("norm_eps", "layer_norm_eps", "", 1e-5),
    TIED,
)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    biased = bool(raw.get("bias", True))
    scaled = raw.get("scale_embedding", True)
    return {
        "qkv_bias": biased,
        "out_bias": biased,
        "ffn_bias": biased,
        "activation": hf_activation(raw, "activation"),
        "embedding_scale": float(known["d_model"]) ** 0.5 if scaled else 1.0,
    }


def _write_hf(config: ModelConfig) -> Fields:
    return {"bias": config.qkv_bias, "scale_embedding": config.embedding_scale != 1.0,
            "activation": config.activation, "is_encoder_decoder": True}  # fmt: skip


ARCHITECTURE = Architecture(
    name="transformer",
    hf_types=("transformer",),
    hf_classes=("Transformer",),
    gguf="",
    prefix="",
    fixed={"form": "encoder-decoder", "norm": "layer", "norm_placement": "post", "position": "sinusoidal",
           "gated": False},
    hf_defaults={"tie_word_embeddings": True, "activation": "relu"},
    tensors=tuple(_rows()),
    keys=_KEYS,
    extra_hf=_extra_hf,
    write_hf=_write_hf,
    fits_gguf=lambda config: _("llama.cpp has no graph for the Transformer of 2017, so no GGUF file can hold it."),
)  # fmt: skip
