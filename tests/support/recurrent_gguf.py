"""Writes a tiny random Mamba model: its cache is one state that moves on with every token and cannot go back."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

import tiny_gguf

_D_MODEL, _D_INNER, _D_STATE, _D_CONV, _DT_RANK = 64, 128, 16, 4, 4


def write_recurrent(path: Path, *, seed: int = 0, n_layers: int = 2, n_ctx: int = 4096) -> Path:
    """Writes the model, with the vocabulary of `tiny_gguf.write_tiny`, and returns `path`."""
    spell, merges = tiny_gguf._tiny_vocabulary()
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_name("Recurrent")
    for key, value in {
        "context_length": n_ctx, "embedding_length": _D_MODEL, "feed_forward_length": 0, "block_count": n_layers,
        "attention.head_count": 0, "ssm.conv_kernel": _D_CONV, "ssm.inner_size": _D_INNER,
        "ssm.state_size": _D_STATE, "ssm.time_step_rank": _DT_RANK,
    }.items():  # fmt: skip
        writer.add_uint32(f"mamba.{key}", value)
    writer.add_float32("mamba.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(spell)
    writer.add_token_types(tiny_gguf._types(spell))
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tiny_gguf.IM_END)
    writer.add_bos_token_id(tiny_gguf.END_OF_TEXT)
    writer.add_add_bos_token(False)
    writer.add_chat_template(tiny_gguf.chatml_template())
    for name, tensor in _tensors(np.random.default_rng(seed), n_layers, len(spell)).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(rng: np.random.Generator, n_layers: int, n_vocab: int) -> dict[str, np.ndarray]:
    def matrix(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    tensors = {"token_embd.weight": 8 * matrix(n_vocab, _D_MODEL), "output_norm.weight": np.ones(_D_MODEL, np.float32)}
    for layer in range(n_layers):
        rows = np.tile(np.arange(1, _D_STATE + 1, dtype=np.float32), (_D_INNER, 1))
        tensors |= {
            f"blk.{layer}.{name}": tensor
            for name, tensor in {
                "attn_norm.weight": np.ones(_D_MODEL, np.float32),
                "ssm_in.weight": matrix(2 * _D_INNER, _D_MODEL),
                "ssm_conv1d.weight": matrix(_D_INNER, _D_CONV),
                "ssm_conv1d.bias": np.zeros(_D_INNER, np.float32),
                "ssm_x.weight": matrix(_DT_RANK + 2 * _D_STATE, _D_INNER),
                "ssm_dt.weight": matrix(_D_INNER, _DT_RANK),
                "ssm_dt.bias": np.full(_D_INNER, -2.0, np.float32),
                "ssm_a": -rows,
                "ssm_d": np.ones(_D_INNER, np.float32),
                "ssm_out.weight": matrix(_D_MODEL, _D_INNER),
            }.items()
        }
    return tensors
