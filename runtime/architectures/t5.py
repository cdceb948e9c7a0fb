"""T5 (arXiv 1910.10683), T5 1.1, FLAN-T5 and mT5: RMSNorm, scores not divided, and a learned bias for each distance.

The first T5 has ReLU, and the embedding for its head, before which states are multiplied by d_model^-0.5; later ones
have a gated GELU and a head of their own. llama.cpp's graph never multiplies: in a GGUF file the head holds the factor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from runtime.architectures.base import Architecture, Fields, KeyRow, Settings, Side, Source, TensorRow, untied
from runtime.architectures.both_sides import affine
from runtime.architectures.forms import ALSO_AS_HEAD, WITH_LOGIT_SCALE
from runtime.architectures.shared import TIED, not_computed
from runtime.config import ModelConfig
from runtime.text import _

_SIDES: tuple[Side, ...] = ("encoder", "decoder")
_PROJECTIONS = {"q": "q", "k": "k", "v": "v", "out": "o"}
_RELATIVE = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
# feed_forward_proj: activation, gated
_FFN = {"relu": ("relu", False), "gelu": ("gelu", False), "gated-gelu": ("gelu_tanh", True),
        "gated-silu": ("silu", True), "gated-relu": ("relu", True)}  # fmt: skip


def _gated(config: ModelConfig, layer: int) -> bool:
    return config.gated


def _plain(config: ModelConfig, layer: int) -> bool:
    return not config.gated


def _tied(config: ModelConfig, layer: int) -> bool:
    return config.tied


def _rows() -> Iterator[TensorRow]:
    yield TensorRow("embedding.weight", "shared.weight", ("token_embd.weight", "output.weight"),
                    gguf_form=ALSO_AS_HEAD, when=_tied)  # fmt: skip
    for name in ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
        yield TensorRow("embedding.weight", name, "token_embd.weight")
    for side in _SIDES:
        yield from _side(side)
    yield TensorRow("head.weight", "lm_head.weight", "output.weight", gguf_form=WITH_LOGIT_SCALE, when=untied)


def _side(side: Side) -> Iterator[TensorRow]:
    ours, hf, gguf = f"{side}.layers.{{i}}.", f"{side}.block.{{i}}.layer.", f"{side[:3]}.blk.{{i}}."
    names = _attention(f"{ours}attention", f"{hf}0.SelfAttention", f"{gguf}attn")
    names |= {f"{ours}attention_residual.norm": (f"{hf}0.layer_norm", f"{gguf}attn_norm")}
    last = 1
    if side == "decoder":
        names |= _attention(f"{ours}cross", f"{hf}1.EncDecAttention", f"{gguf}cross_attn")
        names |= {f"{ours}cross_residual.norm": (f"{hf}1.layer_norm", f"{gguf}cross_attn_norm")}
        last = 2
    names |= {
        f"{ours}ffn.down": (f"{hf}{last}.DenseReluDense.wo", f"{gguf}ffn_down"),
        f"{ours}ffn_residual.norm": (f"{hf}{last}.layer_norm", f"{gguf}ffn_norm"),
        f"{side}.norm": (f"{side}.final_layer_norm", f"{side[:3]}.output_norm"),
    }
    yield TensorRow(f"{side}.bias.weight", f"{side}.{_RELATIVE}", f"{side[:3]}.blk.0.attn_rel_b.weight")
    yield from affine(names, side=side, kinds=("weight",))
    for name, part, when in (("wi", "up", _plain), ("wi_0", "gate", _gated), ("wi_1", "up", _gated)):
        matrix = {f"{ours}ffn.{part}": (f"{hf}{last}.DenseReluDense.{name}", f"{gguf}ffn_{part}")}
        yield from affine(matrix, side=side, kinds=("weight",), when=when)


def _attention(ours: str, hf: str, gguf: str) -> dict[str, tuple[str, str]]:
    return {f"{ours}.{part}": (f"{hf}.{name}", f"{gguf}_{name}") for part, name in _PROJECTIONS.items()}


_KEYS = (
    KeyRow("vocab_size", "vocab_size", "vocab_size"),
    KeyRow("d_model", "d_model", "embedding_length"),
    KeyRow("n_encoder_layers", "num_layers", "block_count"),
    KeyRow("n_layers", "num_decoder_layers", "decoder_block_count", lambda known: known["n_encoder_layers"]),
    KeyRow("n_heads", "num_heads", "attention.head_count"),
    KeyRow("n_kv_heads", "", "", lambda known: known["n_heads"]),
    KeyRow("head_dim", "d_kv", "attention.key_length", lambda known: known["d_model"] // known["n_heads"]),
    KeyRow("head_dim", "", "attention.value_length", lambda known: known["head_dim"]),
    KeyRow("d_ff", "d_ff", "feed_forward_length"),
    KeyRow("context_length", "n_positions", "context_length", 512),
    KeyRow("norm_eps", "layer_norm_epsilon", "attention.layer_norm_rms_epsilon", 1e-6),
    KeyRow("relative_buckets", "relative_attention_num_buckets", "attention.relative_buckets_count", 32),
    KeyRow("relative_max_distance", "relative_attention_max_distance", "", 128),
    TIED,
)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    name = str(raw.get("feed_forward_proj", "relu"))
    if name not in _FFN:
        raise not_computed("feed_forward_proj", name)
    activation, gated = _FFN[name]
    scaled = raw.get("scale_decoder_outputs", known["tied"])  # the newer key; older files mean it by the tie
    if raw.get("model_type") == "mt5":
        scaled = False
    return {"activation": activation, "gated": gated, "logit_scale": known["d_model"] ** -0.5 if scaled else 1.0}


def _extra_gguf(settings: Settings, known: Fields, source: Source) -> Fields:
    gated = "enc.blk.0.ffn_gate.weight" in source.names
    activation = "gelu_tanh" if gated else "relu"
    return {"tied": "output.weight" not in source.names, "gated": gated, "activation": activation}


def _write_hf(config: ModelConfig) -> Fields:
    names = {kind: name for name, kind in _FFN.items()}
    return {"feed_forward_proj": names[config.activation, config.gated], "is_encoder_decoder": True,
            "scale_decoder_outputs": config.logit_scale != 1.0}  # fmt: skip


def _tied_without_head(config: ModelConfig, names: Collection[str]) -> ModelConfig:
    """A folder without a head has the embedding for it, whatever its config.json says."""
    has_head = "lm_head.weight" in names or "output.weight" in names
    return config if has_head else msgspec.structs.replace(config, tied=True)


def _fits(config: ModelConfig) -> str | None:
    if (config.activation, config.gated) not in (("relu", False), ("gelu_tanh", True)):
        return _("llama.cpp's T5 graph has ReLU, or a gated GELU in its tanh form; this model has neither.")
    if config.relative_max_distance != 128:
        return _("llama.cpp's T5 graph tells distances up to 128 apart; this model, up to {n}.").format(
            n=config.relative_max_distance)  # fmt: skip
    if config.n_layers > config.n_encoder_layers:
        return _("llama.cpp runs no T5 whose decoder has more layers than its encoder, as this one's has.")
    return None


ARCHITECTURE = Architecture(
    name="t5",
    hf_types=("t5", "mt5"),
    hf_classes=("T5ForConditionalGeneration", "MT5ForConditionalGeneration", "T5WithLMHeadModel"),
    gguf="t5",
    prefix="",
    fixed={"form": "encoder-decoder", "norm": "rms", "position": "relative", "attention_scale": 1.0},
    hf_defaults={"tie_word_embeddings": True},
    tensors=tuple(_rows()),
    keys=_KEYS,
    ignorable=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight",
               "*.EncDecAttention.relative_attention_bias.*", "dec.blk.*.cross_attn_rel_b.weight"),
    extra_hf=_extra_hf,
    extra_gguf=_extra_gguf,
    write_hf=_write_hf,
    write_gguf=lambda config: {"attention.layer_norm_epsilon": config.norm_eps},
    fits_gguf=_fits,
    by_names=_tied_without_head,
)  # fmt: skip
