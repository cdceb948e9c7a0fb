"""The frequencies of rotary positions, and how each scaling stretches them. Numbers only: it turns no vectors.

Position p turns pair j of a head by the angle p * f_j with f_j = base^(-2j / dim) (RoFormer, arXiv 2104.09864). A model
trained on short texts reads longer ones when the frequencies become lower; the ways to do that differ in which ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from runtime.config import Rope

Frequencies = NDArray[np.float64]


def frequencies(rope: Rope, head_dim: int, length: int) -> Frequencies:
    """Returns f (dim / 2) for a text of `length` positions in all; only longrope and dynamic NTK depend on it."""
    dim = rope.dim or head_dim
    return _SCALINGS[rope.scaling](rope, dim, length)


def depends_on_length(rope: Rope, length: int) -> int:
    """Returns a number that changes exactly when `frequencies` does as the text grows."""
    if rope.scaling == "dynamic":
        return max(length, rope.original_context)
    return int(rope.scaling == "longrope" and length > rope.original_context)


def attention_factor(rope: Rope) -> float:
    """Returns what cos and sin are multiplied by, so that stretched attention stays sharp enough."""
    if rope.attention_factor:
        return rope.attention_factor
    if rope.scaling == "yarn":
        return yarn_sharpness(rope.factor)
    if rope.scaling == "longrope" and rope.factor > 1:
        return math.sqrt(1 + math.log(rope.factor) / math.log(rope.original_context))
    return 1.0


def yarn_sharpness(factor: float) -> float:
    """YaRN's recommendation, 0.1 ln(factor) + 1 (arXiv 2309.00071, section 3.4)."""
    return 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0


def llama3_divisors(rope: Rope, dim: int) -> Frequencies:
    """Returns what Llama 3 divides each frequency by: nothing for short waves, `factor` for long ones, and a blend.

    A wave is short when it fits `high_freq_factor` times or more into the original context, long when it fits less than
    `low_freq_factor` times.
    """
    fits = rope.original_context * _plain(rope.base, dim) / (2 * math.pi)
    blend = np.clip((fits - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor), 0, 1)
    divisors: Frequencies = 1 / ((1 - blend) / rope.factor + blend)
    return divisors


def _plain(base: float, dim: int) -> Frequencies:
    exponents: Frequencies = np.arange(0, dim, 2, dtype=np.float64) / dim
    plain: Frequencies = base**-exponents
    return plain


def _unscaled(rope: Rope, dim: int, length: int) -> Frequencies:
    return _plain(rope.base, dim)


def _linear(rope: Rope, dim: int, length: int) -> Frequencies:
    """All positions are squeezed by the factor (arXiv 2306.15595)."""
    return _plain(rope.base, dim) / rope.factor


def _dynamic(rope: Rope, dim: int, length: int) -> Frequencies:
    """NTK-aware: the base grows with the text, so that fast pairs keep their speed and slow ones are stretched."""
    stretch = rope.factor * max(length, rope.original_context) / rope.original_context - (rope.factor - 1)
    return _plain(rope.base * stretch ** (dim / (dim - 2)), dim)


def _yarn(rope: Rope, dim: int, length: int) -> Frequencies:
    """Pairs that turn often within the original context stay, those that hardly turn are stretched (2309.00071)."""
    plain = _plain(rope.base, dim)
    low, high = _ramp_ends(rope, dim)
    stretched = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
    mixed: Frequencies = plain / rope.factor * stretched + plain * (1 - stretched)
    return mixed


def _ramp_ends(rope: Rope, dim: int) -> tuple[float, float]:
    """Returns the pairs that turn `beta_fast` and `beta_slow` times within the original context."""
    ends = [
        dim * math.log(rope.original_context / (turns * 2 * math.pi)) / (2 * math.log(rope.base))
        for turns in (rope.beta_fast, rope.beta_slow)
    ]
    low, high = (math.floor(ends[0]), math.ceil(ends[1])) if rope.truncate else ends
    return max(low, 0), min(high, dim - 1)


def _llama3(rope: Rope, dim: int, length: int) -> Frequencies:
    return _plain(rope.base, dim) / llama3_divisors(rope, dim)


def _longrope(rope: Rope, dim: int, length: int) -> Frequencies:
    """Divisors found by search, one list for texts of the original length and one beyond (arXiv 2402.13753)."""
    return _plain(rope.base, dim) / (rope.long_factors if length > rope.original_context else rope.factors)


def _factors(rope: Rope, dim: int, length: int) -> Frequencies:
    return _plain(rope.base, dim) / rope.factors


_SCALINGS: dict[str, Callable[[Rope, int, int], Frequencies]] = {
    "none": _unscaled, "linear": _linear, "dynamic": _dynamic, "yarn": _yarn, "llama3": _llama3,
    "longrope": _longrope, "factors": _factors,
}  # fmt: skip
