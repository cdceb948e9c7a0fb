"""GLM-4 (0414): norms on both sides of each part, half of each head rotated by neighbours, a fused gate and up."""

from __future__ import annotations

from runtime.architectures.base import Architecture, TensorRow
from runtime.architectures.forms import FUSED_GATE_UP
from runtime.architectures.shared import (
    BLK,
    GATE_UP,
    HF_LAYER,
    LAYER,
    RMS_EPS,
    TIED,
    RopeFunctions,
    attention,
    ends,
    sizes,
)
from runtime.config import ModelConfig
from runtime.text import _

_FUNCTIONS = RopeFunctions(layout="interleaved", biases={"qkv_bias": "attention_bias"})
_NORM_NAMES = {  # ours: in folders, in GGUF
    "attention_residual.norm": ("input_layernorm", "attn_norm"),
    "attention_residual.post_norm": ("post_self_attn_layernorm", "post_attention_norm"),
    "ffn_residual.norm": ("post_attention_layernorm", "ffn_norm"),
    "ffn_residual.post_norm": ("post_mlp_layernorm", "post_ffw_norm"),
}


def _fits(config: ModelConfig) -> str | None:
    if config.n_layers == 17:  # llama.cpp takes it for another model of the family
        return _("llama.cpp reads a GLM-4 file with 17 layers as another kind of model.")
    return _FUNCTIONS.fits_gguf(config)


ARCHITECTURE = Architecture(
    name="glm4",
    hf_types=("glm4",),
    hf_classes=("Glm4ForCausalLM",),
    gguf="glm4",
    accepts=lambda settings: not settings.get("rope.dimension_sections"),
    fixed={"norm_placement": "both"},
    hf_defaults={"partial_rotary_factor": 0.5, "head_dim": 128, "num_key_value_heads": 2, "attention_bias": True,
                 "rms_norm_eps": 1.5625e-07, "max_position_embeddings": 131072},
    tensors=(
        *ends(),
        *(TensorRow(f"{LAYER}{ours}.weight", f"{HF_LAYER}{hf}.weight", f"{BLK}{gguf}.weight")
          for ours, (hf, gguf) in _NORM_NAMES.items()),
        *attention(),
        TensorRow(GATE_UP, f"{HF_LAYER}mlp.gate_up_proj.weight", f"{BLK}ffn_up.weight",
                  hf_form=FUSED_GATE_UP, gguf_form=FUSED_GATE_UP),
        TensorRow(f"{LAYER}ffn.down.weight", f"{HF_LAYER}mlp.down_proj.weight", f"{BLK}ffn_down.weight"),
    ),
    keys=(*sizes(), RMS_EPS, TIED),
    extra_hf=_FUNCTIONS.extra_hf,
    extra_gguf=_FUNCTIONS.extra_gguf,
    write_hf=_FUNCTIONS.write_hf,
    write_gguf=_FUNCTIONS.write_gguf,
    gguf_tensors=_FUNCTIONS.gguf_tensors,
    fits_gguf=_fits,
)  # fmt: skip
