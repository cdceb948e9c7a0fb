"""Attention: every position gathers from the others what it needs (Attention Is All You Need, section 3.2).

    Attention(Q, K, V) = softmax(Q Kᵀ / sqrt(d_k)) V

`attend` writes the equation out, `attend_fused` has it done by one kernel, and `Attention` is the layer around them:
multi-head, grouped-query (arXiv 2305.13245) and multi-query (arXiv 1911.02150) alike, on the same text or on another.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from runtime.config import ModelConfig
from runtime.native.linear import FusedLinear, Linear
from runtime.native.masks import EVERYTHING, Mask
from runtime.native.norm import make_norm
from runtime.native.positions import rotate
from runtime.native.step import AttentionKind, Step


def attend(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Mask = EVERYTHING, scale: float | None = None, softcap: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Returns the gathered values (B, H, T, D) and the weights (B, H, T, S), step by step as the paper has it.

    q is (B, H, T, D), k and v are (B, K, S, D) where K divides H. `scale` is 1 / sqrt(D) unless given; `softcap` bends
    the scores so that none leaves ±softcap (arXiv 2408.00118).
    """
    k, v = _one_per_query_head(q, k, v)
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)  # (B, H, T, S)
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    scores = _masked(scores, mask).float()
    exponents = torch.exp(scores - scores.amax(dim=-1, keepdim=True))  # the largest is exp(0): nothing overflows
    weights = (exponents / exponents.sum(dim=-1, keepdim=True)).to(q.dtype)
    return weights @ v, weights


def attend_fused(q: Tensor, k: Tensor, v: Tensor, *, mask: Mask = EVERYTHING, scale: float | None = None) -> Tensor:
    """Returns what `attend` gathers, by one kernel that never writes the scores down (arXiv 2205.14135)."""
    B, H, T, D = q.shape
    if T == 1 and k.shape[1] != H and mask.table is None:  # the heads that share keys are queries of the same keys
        grouped = F.scaled_dot_product_attention(q.view(B, k.shape[1], -1, D), k, v, scale=scale)
        return grouped.view(B, H, 1, D)
    k, v = _one_per_query_head(q, k, v)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.table, is_causal=mask.causal, scale=scale)


def _one_per_query_head(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    groups = q.shape[1] // k.shape[1]
    if groups == 1:
        return k, v
    return k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)


def _masked(scores: Tensor, mask: Mask) -> Tensor:
    table = mask.table
    if mask.causal:
        table = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if table is None:
        return scores
    return scores.masked_fill(~table, float("-inf")) if table.dtype == torch.bool else scores + table


class Attention(nn.Module):
    """One layer's attention: on its own text ("self", "encoder"), or on the encoder's output ("cross")."""

    def __init__(self, config: ModelConfig, layer: int, kind: AttentionKind) -> None:
        super().__init__()
        self.layer, self.kind = layer, kind
        self.heads = (config.n_heads, config.n_kv_heads, config.n_kv_heads)
        self.head_dim = config.head_dim
        self.window = config.window_of(layer) if kind != "cross" else None
        self.rope = config.rope_of(layer) if kind != "cross" else None
        self.scale, self.softcap = config.score_scale, config.attention_softcap
        sizes = dict(zip("qkv", (heads * config.head_dim for heads in self.heads), strict=True))
        if kind == "cross":
            self.q = Linear(config.d_model, sizes.pop("q"), bias=config.qkv_bias)
            self.kv = FusedLinear(config.d_model, sizes, bias=config.qkv_bias)
        else:
            self.qkv = FusedLinear(config.d_model, sizes, bias=config.qkv_bias)
        self.out = Linear(config.n_heads * config.head_dim, config.d_model, bias=config.out_bias)
        self.qk_norm = config.qk_norm
        if config.qk_norm != "none":
            per_head = config.qk_norm == "head"
            self.q_norm = make_norm(config, config.head_dim * (1 if per_head else config.n_heads))
            self.k_norm = make_norm(config, config.head_dim * (1 if per_head else config.n_kv_heads))

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """Gathers for each position of x (B, T, C) what it may see, and returns (B, T, C)."""
        q, k, v, mask, first = self._cross(x, step) if self.kind == "cross" else self._own(x, step)
        watch = step.watch
        if watch is not None and watch.wants_attention(self.kind, self.layer):
            gathered, weights = attend(q, k, v, mask=mask, scale=self.scale, softcap=self.softcap)
            watch.attention(self.kind, self.layer, weights, first)
        elif self.softcap:
            gathered, _ = attend(q, k, v, mask=mask, scale=self.scale, softcap=self.softcap)
        else:
            gathered = attend_fused(q, k, v, mask=mask, scale=self.scale)
        out: Tensor = self.out(gathered.transpose(1, 2).flatten(2))
        return out

    def _own(self, x: Tensor, step: Step) -> tuple[Tensor, Tensor, Tensor, Mask, int]:
        """Returns queries of the new positions, keys and values of all, the mask, and the first key's position."""
        H, K, _ = self.heads
        heads = self.qkv(x).view(*x.shape[:2], -1, self.head_dim).transpose(1, 2)  # (B, H + K + K, T, D)
        qk, v = heads[:, : H + K], heads[:, H + K :]
        if self.qk_norm != "none":
            qk = torch.cat(self.normed(qk[:, :H], qk[:, H:]), dim=1)
        if self.rope is not None:
            qk = rotate(qk, step.turns[self.rope], self.rope)
        q, k = qk[:, :H], qk[:, H:]
        first = 0
        if step.cache is not None:
            k, v, first = step.cache.append(self.layer, k, v)
        return q, k, v, step.masks.get(self.window, first, k.shape[2]), first

    def normed(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Returns queries and keys (B, any, T, D), normed as the config says."""
        if self.qk_norm == "head":
            return self.q_norm(q), self.k_norm(k)
        return _norm_across_heads(q, self.q_norm), _norm_across_heads(k, self.k_norm)

    def _cross(self, x: Tensor, step: Step) -> tuple[Tensor, Tensor, Tensor, Mask, int]:
        """Returns queries of the new positions, and keys and values of the encoder's output, made once per source."""
        q = self.q(x).view(*x.shape[:2], -1, self.head_dim).transpose(1, 2)
        kept = step.cache.cross(self.layer) if step.cache is not None else None
        if kept is None:
            assert step.encoded is not None
            both = self.kv(step.encoded).unflatten(-1, (2, -1, self.head_dim))  # (B, S, 2, K, D)
            kept = both[:, :, 0].transpose(1, 2), both[:, :, 1].transpose(1, 2)
            if step.cache is not None:
                step.cache.set_cross(self.layer, *kept)
        return q, *kept, step.encoded_mask, 0


def _norm_across_heads(x: Tensor, norm: nn.Module) -> Tensor:
    """Norms all heads of a position as one vector: (B, H, T, D) → the same."""
    whole = x.transpose(1, 2)
    normed: Tensor = norm(whole.flatten(2))
    return normed.view(whole.shape).transpose(1, 2)
