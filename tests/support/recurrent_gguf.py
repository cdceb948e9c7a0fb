"""Writes tiny random models whose cache is, or holds, a state that moves on with every token and cannot go back.

A Mamba model has nothing else; a Jamba model has layers with such a state beside layers that attend.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

import tiny_gguf

_D_MODEL, _D_INNER, _D_STATE, _D_CONV, _DT_RANK = 64, 128, 16, 4, 4
_N_HEADS, _N_KV_HEADS, _HEAD_DIM, _D_FF = 2, 1, 32, 96


def write_recurrent(
    path: Path, *, seed: int = 0, n_layers: int = 2, n_ctx: int = 4096, hybrid: bool = False
) -> Path:  # fmt: skip
    """Writes the model, with the vocabulary of `tiny_gguf.write_tiny`, and returns `path`.

    With `hybrid`, it is a Jamba model, of which every other layer attends.
    """
    spell, merges = tiny_gguf._tiny_vocabulary()
    architecture = "jamba" if hybrid else "mamba"
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("Recurrent")
    for key, value in {
        "context_length": n_ctx, "embedding_length": _D_MODEL, "feed_forward_length": _D_FF if hybrid else 0,
        "block_count": n_layers, "attention.head_count": _N_HEADS if hybrid else 0, "ssm.conv_kernel": _D_CONV,
        "ssm.inner_size": _D_INNER, "ssm.state_size": _D_STATE, "ssm.time_step_rank": _DT_RANK,
    }.items():  # fmt: skip
        writer.add_uint32(f"{architecture}.{key}", value)
    if hybrid:
        writer.add_head_count_kv([_N_KV_HEADS if layer % 2 else 0 for layer in range(n_layers)])
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(spell)
    writer.add_token_types(tiny_gguf._types(spell))
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tiny_gguf.IM_END)
    writer.add_bos_token_id(tiny_gguf.END_OF_TEXT)
    writer.add_add_bos_token(False)
    writer.add_chat_template(tiny_gguf.chatml_template())
    tensors = _tensors(np.random.default_rng(seed), n_layers, len(spell), hybrid=hybrid)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(
    rng: np.random.Generator, n_layers: int, n_vocab: int, *, hybrid: bool
) -> dict[str, np.ndarray]:  # fmt: skip
    tensors = {
        "token_embd.weight": 8 * _matrix(rng, n_vocab, _D_MODEL), "output_norm.weight": np.ones(_D_MODEL, np.float32),
    }  # fmt: skip
    for layer in range(n_layers):
        parts = _attention(rng) if hybrid and layer % 2 else _state(rng)
        if hybrid:
            parts |= _feed_forward(rng) | ({} if layer % 2 else _state_norms())
        tensors |= {f"blk.{layer}.{name}": tensor for name, tensor in parts.items()}
    return tensors


def _matrix(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)


def _state(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "attn_norm.weight": np.ones(_D_MODEL, np.float32),
        "ssm_in.weight": _matrix(rng, 2 * _D_INNER, _D_MODEL),
        "ssm_conv1d.weight": _matrix(rng, _D_INNER, _D_CONV),
        "ssm_conv1d.bias": np.zeros(_D_INNER, np.float32),
        "ssm_x.weight": _matrix(rng, _DT_RANK + 2 * _D_STATE, _D_INNER),
        "ssm_dt.weight": _matrix(rng, _D_INNER, _DT_RANK),
        "ssm_dt.bias": np.full(_D_INNER, -2.0, np.float32),
        "ssm_a": -np.tile(np.arange(1, _D_STATE + 1, dtype=np.float32), (_D_INNER, 1)),
        "ssm_d": np.ones(_D_INNER, np.float32),
        "ssm_out.weight": _matrix(rng, _D_MODEL, _D_INNER),
    }


def _state_norms() -> dict[str, np.ndarray]:
    sizes = {"dt": _DT_RANK, "b": _D_STATE, "c": _D_STATE}
    return {f"ssm_{name}_norm.weight": np.ones(size, np.float32) for name, size in sizes.items()}


def _attention(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "attn_norm.weight": np.ones(_D_MODEL, np.float32),
        "attn_q.weight": 2 * _matrix(rng, _N_HEADS * _HEAD_DIM, _D_MODEL),
        "attn_k.weight": 2 * _matrix(rng, _N_KV_HEADS * _HEAD_DIM, _D_MODEL),
        "attn_v.weight": _matrix(rng, _N_KV_HEADS * _HEAD_DIM, _D_MODEL),
        "attn_output.weight": _matrix(rng, _D_MODEL, _N_HEADS * _HEAD_DIM),
    }


def _feed_forward(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "ffn_norm.weight": np.ones(_D_MODEL, np.float32),
        "ffn_gate.weight": _matrix(rng, _D_FF, _D_MODEL),
        "ffn_up.weight": _matrix(rng, _D_FF, _D_MODEL),
        "ffn_down.weight": _matrix(rng, _D_MODEL, _D_FF),
    }
