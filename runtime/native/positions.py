"""How a Transformer knows the order of its tokens: attention alone does not.

Sinusoidal and learned positions are vectors added to the embeddings (the 2017 paper, section 3.5). Rotary positions
turn the queries and keys. Relative ones (T5, ALiBi) are added to the scores. Knows nothing about masks or caches.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from runtime.config import ModelConfig, Rope
from runtime.rope import attention_factor, depends_on_length, frequencies

CosSin = tuple[Tensor, Tensor]


# --- added to the embeddings ------------------------------------------------------------------------------------


class SinusoidalPositions(nn.Module):
    """PE(p, 2j) = sin(p / 10000^(2j/C)), PE(p, 2j+1) = cos(the same): positions (T) or (B, T) → (…, T, C)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def forward(self, positions: Tensor) -> Tensor:
        exponents = torch.arange(0, self.d_model, 2, dtype=torch.float64) / self.d_model
        angles = positions.cpu()[..., None] * 10_000.0**-exponents  # in f64, which not every device has
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float().to(positions.device)


class LearnedPositions(nn.Module):
    """A trained vector for each position: positions (T) or (B, T) → (…, T, C). `offset` rows before 0 stay unused."""

    def __init__(self, count: int, d_model: int, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset
        self.weight = nn.Parameter(torch.empty(count + offset, d_model))

    def forward(self, positions: Tensor) -> Tensor:
        return nn.functional.embedding(positions + self.offset, self.weight)


# --- rotary -----------------------------------------------------------------------------------------------------


class RotaryTable:
    """cos and sin of every angle, worked out once and kept as long as texts do not outgrow the table.

    cos (S, dim) holds each pair's cosine at both of its places; sin (S, dim) its sine, negative at the first place: the
    signs that `rotate` needs.
    """

    def __init__(self, rope: Rope, head_dim: int) -> None:
        self._rope = rope
        self._head_dim = head_dim
        self._tables: CosSin | None = None
        self._made_for: tuple[object, ...] = ()

    def at(self, positions: slice | Tensor, length: int, *, planned: int = 0, like: Tensor) -> CosSin:
        """Returns cos and sin (T, dim) of a run of positions, or (B, T, dim) of a table (B, T) of them.

        All of them lie before `length`; a text that will become longer has the frequencies of its `planned` length.
        Device and dtype are those of `like`.
        """
        cos, sin = self._up_to(length, max(length, planned), like)
        return cos[positions], sin[positions]

    def _up_to(self, length: int, planned: int, like: Tensor) -> CosSin:
        kept_for = (depends_on_length(self._rope, planned), like.device, like.dtype)
        if self._tables is None or kept_for != self._made_for or length > len(self._tables[0]):
            self._made_for = kept_for
            self._tables = self._make(max(256, 1 << (length - 1).bit_length()), planned, like)
        return self._tables

    def _make(self, rows: int, planned: int, like: Tensor) -> CosSin:
        f = torch.from_numpy(frequencies(self._rope, self._head_dim, planned)).float()
        angles = torch.arange(rows).float()[:, None] * f
        factor = attention_factor(self._rope)
        cos, sin = angles.cos() * factor, angles.sin() * factor
        pairs = [(cos, cos), (-sin, sin)]
        if self._rope.layout == "half":
            both = [torch.cat(pair, dim=-1) for pair in pairs]
        else:
            both = [torch.stack(pair, dim=-1).flatten(-2) for pair in pairs]
        return both[0].to(like), both[1].to(like)


def rotate(x: Tensor, cos_sin: CosSin, rope: Rope) -> Tensor:
    """Turns each pair (a, b) of the last axis by its angle: (a cos - b sin, b cos + a sin).

    x is (B, heads, T, D); cos and sin are (T, dim), or (B, 1, T, dim). What a head has beyond dim passes unchanged.
    """
    cos, sin = cos_sin
    dim = cos.shape[-1]
    turning = x if dim == x.shape[-1] else x[..., :dim]
    turned = torch.addcmul(turning * cos, _partners(turning, rope), sin)
    return turned if dim == x.shape[-1] else torch.cat((turned, x[..., dim:]), dim=-1)


def _partners(x: Tensor, rope: Rope) -> Tensor:
    """Returns each entry's partner in its place: b where a stands, and a where b stands."""
    if rope.layout == "half":
        return x.roll(x.shape[-1] // 2, dims=-1)
    return x.view(*x.shape[:-1], -1, 2).flip(-1).flatten(-2)


# --- added to the scores ----------------------------------------------------------------------------------------


class RelativeBias(nn.Module):
    """T5's relative positions (arXiv 1910.10683): one learned number per head and bucket of distances."""

    def __init__(self, config: ModelConfig, *, both_ways: bool) -> None:
        super().__init__()
        self.both_ways = both_ways
        self.n_buckets = config.relative_buckets
        self.max_distance = config.relative_max_distance
        self.weight = nn.Parameter(torch.empty(config.relative_buckets, config.n_heads))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Returns the bias (1, H, T, S) between query positions (T) and key positions (S)."""
        buckets = self._buckets(keys[None, :] - queries[:, None])
        return self.weight[buckets].permute(2, 0, 1)[None]

    def _buckets(self, distance: Tensor) -> Tensor:
        """Near distances have a bucket each; farther ones share buckets that widen up to `max_distance`."""
        n = self.n_buckets // 2 if self.both_ways else self.n_buckets
        side = (distance > 0).long() * n if self.both_ways else 0
        back = distance.abs() if self.both_ways else (-distance).clamp(min=0)
        exact = n // 2
        growth = torch.log(back.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        far = (exact + (growth * (n - exact)).long()).clamp(max=n - 1)
        return side + torch.where(back < exact, back, far)


class AlibiBias(nn.Module):
    """ALiBi (arXiv 2108.12409): scores fall with the distance, in each head with another slope."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Returns the bias (1, H, T, S) between query positions (T) and key positions (S)."""
        slopes = torch.tensor(alibi_slopes(self.n_heads), device=keys.device)
        return slopes[None, :, None, None] * (keys[None, :] - queries[:, None])[None, None]


def alibi_slopes(n_heads: int) -> list[float]:
    """Returns a geometric row from 2^(-8/n); where n is no power of two, the row of twice the lower power fills up."""
    lower = 1 << (n_heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (head + 1) / lower) for head in range(lower)]
    between = [2.0 ** (-4 * (head + 1) / lower) for head in range(0, 2 * lower, 2)]
    return slopes + between[: n_heads - lower]
