"""Which seed a draw uses. Knows no generator."""

from __future__ import annotations

import secrets

from runtime.params import SamplingParams

_MAX_SEED = 0xFFFFFFFE  # 0xFFFFFFFF asks llama.cpp for a random seed, which would then be unknown


def used_seed(params: SamplingParams) -> int:
    """Returns the seed that the draw will use: the one asked for, or a fresh one."""
    return secrets.randbelow(_MAX_SEED + 1) if params.seed < 0 else params.seed
