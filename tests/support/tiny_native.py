"""A tiny Llama-type checkpoint in memory, random and complete, to be spoiled by tests of loading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer

import tiny_tokenizers
from memory_checkpoint import MemoryCheckpoint
from runtime.architectures import reading
from runtime.architectures.binding import placements

CONFIG: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 24, "hidden_size": 16,
    "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
    "hidden_act": "silu",
}  # fmt: skip
# The same sizes under all the names that families have for them.
ANY_FAMILY = CONFIG | {
    "num_hidden_layers": 4, "head_dim": 4, "query_pre_attn_scalar": 4, "norm_topk_prob": True, "rotary_pct": 1.0,
    "layer_norm_epsilon": 1e-5, "n_embd": 16, "n_layer": 4, "n_head": 4, "d_model": 16, "num_layers": 4, "num_heads": 4,
    "d_ff": 20, "decoder_layers": 4, "encoder_layers": 4, "decoder_attention_heads": 4, "decoder_ffn_dim": 20,
}  # fmt: skip


def tiny_checkpoint(**config: Any) -> MemoryCheckpoint:
    """Returns a folder's checkpoint whose config.json differs from the usual one by `config`."""
    raw = CONFIG | config
    described = reading.from_hf(reading.by_hf_type("llama"), raw)
    C, F, D = described.d_model, described.d_ff, described.head_dim
    V = described.vocab_size
    sizes = {"embed_tokens": (V, C), "lm_head": (V, C), "norm": (C,), "input_layernorm": (C,),
             "post_attention_layernorm": (C,), "q_proj": (4 * D, C), "k_proj": (2 * D, C), "v_proj": (2 * D, C),
             "o_proj": (C, 4 * D), "gate_proj": (F, C), "up_proj": (F, C), "down_proj": (C, F)}  # fmt: skip
    rng = np.random.default_rng(1)
    names = [claim.sources[0] for claim in placements(reading.by_hf_type("llama"), described, "folder")]
    tensors = {name: rng.standard_normal(sizes[name.split(".")[-2]], np.float32) for name in names}
    return MemoryCheckpoint("folder", tensors, config=raw)


def write_folder(folder: Path, *, lacking: int = 0, **config: Any) -> Path:
    """Writes the checkpoint and a tokenizer as a folder; its embedding lacks rows for the last `lacking` tokens."""
    tiny_tokenizers.write_tokenizer(folder, "byte-level")
    size = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size() - lacking
    checkpoint = tiny_checkpoint(vocab_size=size, **config)
    save_file(checkpoint.tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(checkpoint.config))
    return folder
