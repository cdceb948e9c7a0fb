"""OLMo 2: norms on what each part adds instead of what it reads, and over all queries and all keys at once."""

from __future__ import annotations

from runtime.architectures.base import Architecture, TensorRow
from runtime.architectures.shared import (
    BLK,
    HF_LAYER,
    LAYER,
    RMS_EPS,
    TIED,
    RopeFunctions,
    attention,
    ends,
    gated_ffn,
    qk_norms,
    sizes,
)
from runtime.config import ModelConfig
from runtime.text import _

_FUNCTIONS = RopeFunctions(base=10_000.0, biases={"qkv_bias": "attention_bias", "out_bias": "attention_bias"})
_NORMS = (
    TensorRow(f"{LAYER}attention_residual.post_norm.weight", f"{HF_LAYER}post_attention_layernorm.weight",
              f"{BLK}post_attention_norm.weight"),
    TensorRow(f"{LAYER}ffn_residual.post_norm.weight", f"{HF_LAYER}post_feedforward_layernorm.weight",
              f"{BLK}post_ffw_norm.weight"),
)  # fmt: skip


def _fits(config: ModelConfig) -> str | None:
    if config.tied:
        return _("llama.cpp's OLMo 2 graph needs a head of its own; this model's is its embedding.")
    if config.head_dim * config.n_heads != config.d_model:
        return _("llama.cpp's OLMo 2 graph derives the head size from the model's width; this model's differs.")
    return _FUNCTIONS.fits_gguf(config)


ARCHITECTURE = Architecture(
    name="olmo2",
    hf_types=("olmo2",),
    hf_classes=("Olmo2ForCausalLM",),
    gguf="olmo2",
    # OLMo 3 shares the name in GGUF, and has windows
    accepts=lambda settings: not settings.get("attention.sliding_window"),
    fixed={"norm_placement": "branch", "qk_norm": "full"},
    tensors=(*ends(), *_NORMS, *attention(), *qk_norms(), *gated_ffn()),
    keys=(*sizes(), RMS_EPS, TIED),
    extra_hf=_FUNCTIONS.extra_hf,
    extra_gguf=_FUNCTIONS.extra_gguf,
    write_hf=_FUNCTIONS.write_hf,
    write_gguf=_FUNCTIONS.write_gguf,
    gguf_tensors=_FUNCTIONS.gguf_tensors,
    fits_gguf=_fits,
)
