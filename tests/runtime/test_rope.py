"""The frequencies of every scaling against transformers' own, at the positions where mistakes show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime.architectures.rope_keys import hf_rope
from runtime.config import Rope
from runtime.rope import attention_factor, frequencies, llama3_divisors

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "llama3": LLAMA3,
    "yarn": YARN,
    "yarn, own bounds": YARN | {"beta_fast": 20, "beta_slow": 2, "attention_factor": 1.1},
    "yarn, mscale": YARN | {"mscale": 0.7, "mscale_all_dim": 0.9},
    "yarn, not rounded": YARN | {"truncate": False},
    "longrope": {"rope_type": "longrope", "original_max_position_embeddings": 64,
                 "short_factor": [1.0 + j / 10 for j in range(8)], "long_factor": [2.0 + j for j in range(8)]},
}  # fmt: skip


@pytest.mark.parametrize("part", [1.0, 0.5])
@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("length", [32, 64, 500])
def test_frequencies_are_those_of_transformers(name: str, part: float, length: int) -> None:
    import transformers
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    pairs = int(16 * part) // 2
    params = SCALINGS[name] | {"rope_theta": 10000.0, "partial_rotary_factor": part}
    params |= {key: params[key][:pairs] for key in ("short_factor", "long_factor") if key in params}
    config = transformers.LlamaConfig(hidden_size=64, num_attention_heads=4, max_position_embeddings=256,
                                      rope_parameters=dict(params))  # fmt: skip
    longest = max(length, 256) if name == "dynamic" else length

    theirs, factor = ROPE_INIT_FUNCTIONS[params["rope_type"]](config, "cpu", seq_len=longest)

    ours = hf_rope({"rope_parameters": params, "max_position_embeddings": 256}, 16)
    np.testing.assert_allclose(frequencies(ours, 16, length), theirs.numpy(), rtol=2e-6)
    assert attention_factor(ours) == pytest.approx(float(factor))


def test_the_first_frequency_is_one_and_the_others_fall_evenly() -> None:
    f = frequencies(Rope(base=10000.0), 8, 100)

    np.testing.assert_allclose(f, [1, 0.1, 0.01, 0.001])


def test_llama3_leaves_short_waves_and_stretches_long_ones() -> None:
    rope = Rope(scaling="llama3", factor=8.0, original_context=64)

    divisors = llama3_divisors(rope, 16)

    assert divisors[0] == 1
    assert divisors[-1] == 8
    assert all(np.diff(divisors) >= 0)
