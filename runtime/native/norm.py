"""Normalization: keeps the size of each position's vector in bounds, so that deep stacks can be trained.

LayerNorm (arXiv 1607.06450): y = (x - mean) / sqrt(variance + eps) * w + b
RMSNorm (arXiv 1910.07467):   y = x / sqrt(mean(x²) + eps) * w
"""

from __future__ import annotations

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
        return F.rms_norm(x, self.size, self.weight, self.eps)


def make_norm(config: ModelConfig, size: int | None = None) -> nn.Module:
    """Returns the norm that the config names, over `size` entries (d_model unless given)."""
    if config.norm == "layer":
        return nn.LayerNorm(size or config.d_model, config.norm_eps)
    return RMSNorm(size or config.d_model, config.norm_eps)
