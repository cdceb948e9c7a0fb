"""Rotary positions in files: what is written reads back, and what llama.cpp cannot do is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memory_checkpoint import MemoryCheckpoint
from runtime.architectures.rope_keys import (
    gguf_context,
    gguf_rope,
    hf_rope,
    rope_misfit,
    rope_tensors,
    rope_to_gguf,
    rope_to_hf,
)
from runtime.config import ModelConfig, Rope
from runtime.rope import attention_factor, frequencies

LLAMA3 = Rope(base=5e5, scaling="llama3", factor=32.0, original_context=8192)
YARN = Rope(scaling="yarn", factor=4.0, original_context=32)
LONG = Rope(scaling="longrope", factors=(1.0, 1.5), long_factors=(2.0, 4.0), factor=4.0, original_context=16)
ROPES = {
    "plain": Rope(base=123.0),
    "part of the head": Rope(dim=4),
    "linear": Rope(scaling="linear", factor=2.0),
    "llama3": LLAMA3,
    "yarn": YARN,
    "yarn, sharper": Rope(scaling="yarn", factor=4.0, original_context=32, attention_factor=1.5),
    "yarn, bounds of its own": Rope(scaling="yarn", factor=8.0, original_context=64, beta_fast=8.0, truncate=False),
    "longrope": LONG,
    "divisors": Rope(scaling="factors", factors=(1.0, 3.0), original_context=16, attention_factor=1.25),
}


def config(rope: Rope, **more: Any) -> ModelConfig:
    return ModelConfig(family="test", vocab_size=8, d_model=16, n_layers=2, n_heads=2, n_kv_heads=2, head_dim=8, d_ff=8,
                       context_length=64, rope=rope, **more)  # fmt: skip


def turned_alike(one: Rope, other: Rope, length: int) -> None:
    np.testing.assert_allclose(frequencies(one, 8, length), frequencies(other, 8, length), rtol=1e-5)
    assert attention_factor(one) == pytest.approx(attention_factor(other))


@pytest.mark.parametrize("name", ROPES)
def test_what_config_json_is_given_reads_back(name: str) -> None:
    rope = _of_size(ROPES[name])

    back = hf_rope(rope_to_hf(rope, 8) | {"max_position_embeddings": 64}, 8)

    for length in (8, 60):
        turned_alike(back, rope, length)


@pytest.mark.parametrize("name", ROPES)
def test_what_a_gguf_is_given_reads_back(name: str) -> None:
    rope = _of_size(ROPES[name])
    tensors = rope_tensors(config(rope), divisors=True)
    source = MemoryCheckpoint("gguf", tensors)

    back = gguf_rope(rope_to_gguf(rope, 8, divisors=True) | {"context_length": 64}, 8, source)

    for length in (8, 60):
        turned_alike(back, rope, length)


def _of_size(rope: Rope) -> Rope:
    """Lists in the table above are written for two pairs; a head of 8 has four."""
    import msgspec

    return msgspec.structs.replace(rope, factors=rope.factors * 2, long_factors=rope.long_factors * 2)


def test_llama3_is_recognized_by_its_divisors() -> None:
    source = MemoryCheckpoint("gguf", rope_tensors(config(LLAMA3), divisors=True))

    assert gguf_rope(rope_to_gguf(LLAMA3, 8, divisors=True), 8, source) == LLAMA3


def test_yarn_is_written_under_the_keys_of_the_format() -> None:
    assert rope_to_gguf(YARN, 8, divisors=False) == {
        "rope.freq_base": 10000.0, "rope.dimension_count": 8, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 32, "rope.scaling.yarn_beta_fast": 32.0,
        "rope.scaling.yarn_beta_slow": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["llama3", "longrope", "yarn, bounds of its own", "divisors"])
def test_a_graph_without_divisors_cannot_hold_some_scalings(name: str) -> None:
    assert rope_misfit(config(ROPES[name]), divisors=False)
    assert rope_misfit(config(ROPES[name]), divisors=True) is None


def test_dynamic_scaling_is_exact_up_to_the_original_length() -> None:
    rope = Rope(scaling="dynamic", factor=2.0, original_context=24)

    assert gguf_context(config(rope), windows=False) == 24
    assert rope_to_gguf(rope, 8, divisors=False) == {"rope.freq_base": 10000.0, "rope.dimension_count": 8}


def test_a_window_that_the_graph_lacks_bounds_the_context() -> None:
    windowed = config(Rope(), sliding_window=32)

    assert gguf_context(windowed, windows=False) == 32
    assert gguf_context(windowed, windows=True) == 64
