"""Mixtral: Mistral with eight experts in place of the feed-forward part."""

from __future__ import annotations

from runtime.architectures.base import Architecture, Fields, KeyRow, Settings
from runtime.architectures.shared import (
    RMS_EPS,
    TIED,
    RopeFunctions,
    attention,
    ends,
    expert_rows,
    hf_layer_types,
    hf_windows,
    norms,
    sizes,
)
from runtime.config import ModelConfig

_FUNCTIONS = RopeFunctions(base=1_000_000.0, divisors=True)
_KEYS = (
    KeyRow("n_experts", "num_local_experts", "expert_count", 8),
    KeyRow("n_experts_used", "num_experts_per_tok", "expert_used_count", 2),
    KeyRow("expert_d_ff", "intermediate_size", "feed_forward_length"),
)


def _extra_hf(raw: Settings, known: Fields) -> Fields:
    return _FUNCTIONS.extra_hf(raw, known) | hf_windows(raw, known)


def _write_hf(config: ModelConfig) -> Fields:
    return _FUNCTIONS.write_hf(config) | hf_layer_types(config)


ARCHITECTURE = Architecture(
    name="mixtral",
    hf_types=("mixtral",),
    hf_classes=("MixtralForCausalLM",),
    gguf="llama",
    accepts=lambda settings: bool(settings.get("expert_count")),
    hf_defaults={"num_key_value_heads": 8, "max_position_embeddings": 131072},
    tensors=(
        *ends(), *norms(), *attention(permuted=True),
        *expert_rows("block_sparse_moe", {"gate": "w1", "up": "w3", "down": "w2"}),
    ),
    keys=(*sizes(), RMS_EPS, TIED, *_KEYS),
    extra_hf=_extra_hf,
    extra_gguf=_FUNCTIONS.extra_gguf,
    write_hf=_write_hf,
    write_gguf=_FUNCTIONS.write_gguf,
    gguf_tensors=_FUNCTIONS.gguf_tensors,
    fits_gguf=_FUNCTIONS.fits_gguf,
)  # fmt: skip
