"""BERT (arXiv 1810.04805): an encoder with LayerNorm after each part, learned positions and token types.

A folder may hold the head that guesses hidden tokens; a GGUF file holds no head. The pooler, a layer trained to compare
two sentences, is part of neither: vectors are pooled from the last states.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import msgspec

from runtime.architectures.base import Architecture, Fields, KeyRow, Settings, Source, TensorRow
from runtime.architectures.both_sides import (
    ENCODER,
    affine,
    masked_fields,
    untied_masked_head,
    with_masked_head,
)
from runtime.architectures.forms import WITHOUT_OFFSET
from runtime.architectures.shared import BLK, refuse
from runtime.config import ModelConfig
from runtime.text import _

_PARTS = {  # ours: in folders, in GGUF
    **{f"attention.{part}": (f"attention.self.{name}", f"attn_{part}")
       for part, name in {"q": "query", "k": "key", "v": "value"}.items()},
    "attention.out": ("attention.output.dense", "attn_output"),
    "ffn.up": ("intermediate.dense", "ffn_up"),
    "ffn.down": ("output.dense", "ffn_down"),
}  # fmt: skip
_NORMS = {
    "attention_residual.post_norm": ("attention.output.LayerNorm", "attn_output_norm"),
    "ffn_residual.post_norm": ("output.LayerNorm", "layer_output_norm"),
}
_FIRST_NAMES = {"weight": "gamma", "bias": "beta"}  # of norms, in the first checkpoints
_HEAD = "cls.predictions"

KEYS = (
    KeyRow("vocab_size", "vocab_size", "vocab_size"),
    KeyRow("d_model", "hidden_size", "embedding_length"),
    KeyRow("n_layers", "num_hidden_layers", "block_count"),
    KeyRow("n_heads", "num_attention_heads", "attention.head_count"),
    KeyRow("n_kv_heads", "", "", lambda known: known["n_heads"]),
    KeyRow("head_dim", "", "", lambda known: known["d_model"] // known["n_heads"]),
    KeyRow("d_ff", "intermediate_size", "feed_forward_length"),
    KeyRow("context_length", "max_position_embeddings", "context_length", 512),
    KeyRow("norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon", 1e-12),
    KeyRow("n_token_types", "type_vocab_size", "", 2),
)
FIXED: Fields = {
    "form": "encoder", "norm": "layer", "norm_placement": "post", "embedding_norm": True, "position": "learned",
    "gated": False, "qkv_bias": True, "out_bias": True, "ffn_bias": True,
}  # fmt: skip


def _also_old(rows: tuple[TensorRow, ...]) -> tuple[TensorRow, ...]:
    """Returns the rows of norms, and after them the same by their first names."""
    older = []
    for row in rows:
        start, _dot, kind = str(row.hf).rpartition(".")
        older.append(replace(row, hf=f"{start}.{_FIRST_NAMES[kind]}"))
    return (*rows, *older)


def backbone(prefix: str) -> tuple[TensorRow, ...]:
    """Returns the rows of a BERT without its head; in folders, names begin with `prefix`."""
    layer = f"{prefix}encoder.layer.{{i}}."
    parts = {f"{ENCODER}{ours}": (layer + hf, BLK + gguf) for ours, (hf, gguf) in _PARTS.items()}
    norms = {f"{ENCODER}{ours}": (layer + hf, BLK + gguf) for ours, (hf, gguf) in _NORMS.items()}
    first = {"encoder.embedding_norm": (f"{prefix}embeddings.LayerNorm", "token_embd_norm")}
    return (
        TensorRow("embedding.weight", f"{prefix}embeddings.word_embeddings.weight", "token_embd.weight"),
        TensorRow("token_types.weight", f"{prefix}embeddings.token_type_embeddings.weight", "token_types.weight",
                  when=lambda config, layer: config.n_token_types > 0),
        TensorRow("encoder.positions.weight", f"{prefix}embeddings.position_embeddings.weight", "position_embd.weight",
                  gguf_form=WITHOUT_OFFSET),
        *_also_old(affine(first)),
        *affine(parts, side="encoder"),
        *_also_old(affine(norms, side="encoder")),
    )  # fmt: skip


def head(dense: str, norm: str, bias: str, decoder: str) -> tuple[TensorRow, ...]:
    """Returns the rows of the head that guesses hidden tokens.

    The vector `bias` and the one of the matrix `decoder` are one and the same, but where the matrix is its own.
    """
    biases = ((f"{decoder}.bias", untied_masked_head), (bias, with_masked_head), (f"{decoder}.bias", with_masked_head))
    return (
        *affine({"masked_head.dense": (dense, "")}, when=with_masked_head),
        *_also_old(affine({"masked_head.norm": (norm, "")}, when=with_masked_head)),
        *(TensorRow("head_bias", name, "", when=when) for name, when in biases),
        TensorRow("head.weight", f"{decoder}.weight", "", when=untied_masked_head),
    )


def without_missing_head(config: ModelConfig, names: Collection[str], dense: str) -> ModelConfig:
    """Returns the config with the head that the tensors show, whatever the class is called that config.json names."""
    masked = f"{dense}.weight" in names
    if masked == config.masked_head:
        return config
    return msgspec.structs.replace(config, masked_head=masked, head_bias=masked, tied=True)


def extra_gguf(settings: Settings, known: Fields, source: Source) -> Fields:
    """Returns what a GGUF file tells by its tensors. llama.cpp's graph has GELU, for the models' exact one."""
    types = source.info("token_types.weight").shape[0] if "token_types.weight" in source.names else 0
    return {"n_token_types": types, "tied": True, "activation": "gelu"}


def write_gguf(config: ModelConfig) -> Fields:
    """Returns the settings without which llama.cpp would read a BERT from left to right, or refuse it."""
    return {"attention.causal": False, "tokenizer.ggml.token_type_count": config.n_token_types}


def misfit(config: ModelConfig) -> str | None:
    """Says why llama.cpp's graph cannot hold a BERT's encoder, None when it can."""
    if config.activation not in ("gelu", "gelu_tanh") or not config.n_token_types:
        return _("llama.cpp's BERT graph has GELU and token types; this model lacks one of them.")
    return None


def write_hf(config: ModelConfig, names: tuple[str, str]) -> Fields:
    """Returns config.json's keys for a model with or without a head, whose classes are `names`."""
    activations = {"gelu_tanh": "gelu_new"}
    return {
        "architectures": [names[0] if config.masked_head else names[1]],
        "hidden_act": activations.get(config.activation, config.activation),
        "tie_word_embeddings": config.tied,
    }


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    refuse(raw, is_decoder=True, position_embedding_type=("relative_key", "relative_key_query"))
    return masked_fields(raw)


ARCHITECTURE = Architecture(
    name="bert",
    hf_types=("bert",),
    hf_classes=("BertForMaskedLM", "BertForPreTraining", "BertModel"),
    gguf="bert",
    prefix="bert.",
    fixed=FIXED,
    hf_defaults={"hidden_act": "gelu"},
    tensors=(
        *backbone("bert."),
        *head(f"{_HEAD}.transform.dense", f"{_HEAD}.transform.LayerNorm", f"{_HEAD}.bias", f"{_HEAD}.decoder"),
    ),
    keys=KEYS,
    ignorable=("*pooler.dense.*", "*embeddings.position_ids", "cls.seq_relationship.*", f"{_HEAD}.bias",
               f"{_HEAD}.decoder.bias"),
    extra_hf=_extra_hf,
    extra_gguf=extra_gguf,
    write_hf=lambda config: write_hf(config, ("BertForMaskedLM", "BertModel")),
    write_gguf=write_gguf,
    fits_gguf=misfit,
    by_names=lambda config, names: without_missing_head(config, names, f"{_HEAD}.transform.dense"),
)  # fmt: skip
