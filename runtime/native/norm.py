"""Normalization: keeps the size of each position's vector in bounds, so that deep stacks can be trained.

LayerNorm (arXiv 1607.06450): y = (x - mean) / sqrt(variance + eps) * w + b
RMSNorm (arXiv 1910.07467):   y = x / sqrt(mean(x²) + eps) * w
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from runtime.config import ModelConfig


class RMSNorm(nn.Module):
    """Divides by the root of the mean square, and scales each entry by a learned weight. (…, size) → the same."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.size = (size,)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        if x.is_cpu and x.numel() == self.size[0]:
            return rms_norm_of_one(x, weight, self.eps)
        return F.rms_norm(x.to(weight.dtype), self.size, weight, self.eps).to(x.dtype)


def rms_norm_of_one(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Norms a single vector, (…, size) with ones in front → the same, in a quarter of the time.

    On a CPU torch puts `rms_norm` together from ten small operations, each of which takes longer than its arithmetic
    (15 µs in all); here they are three.
    """
    length: float = torch.linalg.vector_norm(x, dtype=weight.dtype).item()
    return (x * weight).mul_(1.0 / math.sqrt(length * length / x.shape[-1] + eps)).to(x.dtype)


class LayerNorm(RMSNorm):
    """Takes the mean off, divides by the standard deviation, scales and shifts. (…, size) → the same."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__(size, eps)
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x.to(self.weight.dtype), self.size, self.weight, self.bias, self.eps).to(x.dtype)


def make_norm(config: ModelConfig, size: int | None = None) -> RMSNorm:
    """Returns the norm that the config names, over `size` entries (d_model unless given)."""
    kind = LayerNorm if config.norm == "layer" else RMSNorm
    return kind(size or config.d_model, config.norm_eps)


def keep_norms_exact(model: nn.Module) -> None:
    """Makes all norms of a model f32, whatever the matrices are: Gemma's weights, near 1, would not survive bf16."""
    for module in model.modules():
        if isinstance(module, RMSNorm):
            module.float()
