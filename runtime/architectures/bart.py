"""BART (arXiv 1910.13461): encoder and decoder of the 2017 kind, with GELU, learned positions and a normed embedding.

Its tables of positions keep two rows free before position 0, and each token has a number added to its logit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from runtime.architectures.base import Architecture, Fields, KeyRow, Settings, Side, TensorRow, untied
from runtime.architectures.both_sides import affine, same_on_both_sides, with_head_bias
from runtime.architectures.forms import ONE_ROW
from runtime.architectures.shared import TIED, hf_activation, refuse
from runtime.config import ModelConfig
from runtime.text import _

_OFFSET = 2
_SIDES: tuple[Side, ...] = ("encoder", "decoder")
_BIAS = "final_logits_bias"


def _rows() -> Iterator[TensorRow]:
    for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"):
        yield TensorRow("embedding.weight", f"model.{name}.weight", "")
    for side in _SIDES:
        yield TensorRow(f"{side}.positions.weight", f"model.{side}.embed_positions.weight", "")
        yield from affine({f"{side}.embedding_norm": (f"model.{side}.layernorm_embedding", "")})
        yield from affine({ours: (hf, "") for ours, hf in _layer(side).items()}, side=side)
    yield TensorRow("head.weight", "lm_head.weight", "", when=untied)
    yield TensorRow("head_bias", _BIAS, "", ONE_ROW, when=with_head_bias)


def _layer(side: Side) -> dict[str, str]:
    ours, hf = f"{side}.layers.{{i}}.", f"model.{side}.layers.{{i}}."
    attentions = {"attention": "self_attn"} | ({"cross": "encoder_attn"} if side == "decoder" else {})
    names = {f"{ours}{part}.{one}": f"{hf}{name}.{one}_proj" for part, name in attentions.items()
             for one in ("q", "k", "v", "out")}  # fmt: skip
    names |= {f"{ours}{part}_residual.post_norm": f"{hf}{name}_layer_norm" for part, name in attentions.items()}
    return names | {
        f"{ours}ffn.up": f"{hf}fc1",
        f"{ours}ffn.down": f"{hf}fc2",
        f"{ours}ffn_residual.post_norm": f"{hf}final_layer_norm",
    }


_KEYS = (
    KeyRow("vocab_size", "vocab_size", ""),
    KeyRow("d_model", "d_model", ""),
    KeyRow("n_layers", "decoder_layers", ""),
    KeyRow("n_encoder_layers", "encoder_layers", ""),
    KeyRow("n_heads", "decoder_attention_heads", ""),
    KeyRow("n_kv_heads", "", "", lambda known: known["n_heads"]),
    KeyRow("head_dim", "", "", lambda known: known["d_model"] // known["n_heads"]),
    KeyRow("d_ff", "decoder_ffn_dim", ""),
    KeyRow("context_length", "max_position_embeddings", "", 1024),
    TIED,
)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    for size in ("attention_heads", "ffn_dim"):
        same_on_both_sides(raw, f"encoder_{size}", f"decoder_{size}")
    refuse(raw, normalize_before=True, add_final_layer_norm=True)
    scale = float(known["d_model"]) ** 0.5 if raw.get("scale_embedding") else 1.0
    return {"activation": hf_activation(raw, "activation_function"), "embedding_scale": scale}


def _write_hf(config: ModelConfig) -> Fields:
    names = {"gelu_tanh": "gelu_new"}
    return {
        "encoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "num_hidden_layers": config.n_encoder_layers,
        "activation_function": names.get(config.activation, config.activation),
        "scale_embedding": config.embedding_scale != 1.0,
        "is_encoder_decoder": True,
    }


def _with_bias_that_is_there(config: ModelConfig, names: Collection[str]) -> ModelConfig:
    return msgspec.structs.replace(config, head_bias=_BIAS in names)


ARCHITECTURE = Architecture(
    name="bart",
    hf_types=("bart",),
    hf_classes=("BartForConditionalGeneration", "BartModel"),
    gguf="",
    fixed={"form": "encoder-decoder", "norm": "layer", "norm_placement": "post", "embedding_norm": True,
           "position": "learned", "position_offset": _OFFSET, "gated": False, "qkv_bias": True, "out_bias": True,
           "ffn_bias": True, "head_bias": True},
    hf_defaults={"tie_word_embeddings": True, "activation_function": "gelu"},
    tensors=tuple(_rows()),
    keys=_KEYS,
    ignorable=("*encoder.embed_tokens.weight", "*decoder.embed_tokens.weight", "*.version"),
    extra_hf=_extra_hf,
    write_hf=_write_hf,
    fits_gguf=lambda config: _("llama.cpp has no graph for BART, so no GGUF file can hold it."),
    by_names=_with_bias_that_is_there,
)  # fmt: skip
