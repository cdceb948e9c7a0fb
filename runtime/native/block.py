"""One layer of a Transformer: attention, then the feed-forward part, each added to the stream that runs through.

Where the norms stand is a choice: before each part (GPT-2 and most since), after the sum (the 2017 paper), on both
sides of the part (Gemma), or on what it adds (OLMo 2).
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from runtime.config import ModelConfig
from runtime.native.attention import Attention
from runtime.native.feed_forward import make_feed_forward
from runtime.native.norm import make_norm
from runtime.native.step import AttentionKind, Step

_BEFORE, _AFTER = ("pre", "both"), ("post", "both", "branch")


class Residual(nn.Module):
    """A part of a layer with its norms, added to its input: x + f(x), normed where the config places it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.after_sum = config.norm_placement == "post"
        self.norm = make_norm(config) if config.norm_placement in _BEFORE else None
        self.post_norm = make_norm(config) if config.norm_placement in _AFTER else None

    def forward(self, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        if self.after_sum:
            assert self.post_norm is not None
            normed: Tensor = self.post_norm(x + part(x))
            return normed
        return x + self.branch(x, part)

    def branch(self, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Returns what is to be added to x."""
        added = part(x if self.norm is None else self.norm(x))
        return added if self.post_norm is None else self.post_norm(added)


class Block(nn.Module):
    """A layer: (B, T, C) → (B, T, C). A decoder's layer with `cross` looks at the encoder's output in between."""

    def __init__(self, config: ModelConfig, layer: int, kind: AttentionKind, *, cross: bool = False) -> None:
        super().__init__()
        self.parallel = config.parallel_residual
        self.attention_residual = Residual(config)
        self.attention = Attention(config, layer, kind)
        self.cross_residual = Residual(config) if cross else None
        self.cross = Attention(config, layer, "cross") if cross else None
        self.ffn_residual = Residual(config)
        self.ffn = make_feed_forward(config, layer)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        def attention(normed: Tensor) -> Tensor:
            gathered: Tensor = self.attention(normed, step)
            return gathered

        if self.parallel:
            return x + self.attention_residual.branch(x, attention) + self.ffn_residual.branch(x, self.ffn)
        x = self.attention_residual(x, attention)
        if self.cross is not None and self.cross_residual is not None:
            cross = self.cross
            x = self.cross_residual(x, lambda normed: cross(normed, step))
        summed: Tensor = self.ffn_residual(x, self.ffn)
        return summed
