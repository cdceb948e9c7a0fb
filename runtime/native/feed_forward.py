"""The feed-forward part: what each position works out by itself, after attention has gathered for it.

Plain (2017, section 3.3):        down(act(up(x)))
Gated (arXiv 2002.05202):         down(act(gate(x)) * up(x)), named SwiGLU with SiLU and GeGLU with GELU
Mixture of experts (2101.03961):  the sum of a few experts' answers, weighed by a router
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from runtime.config import ModelConfig
from runtime.native.linear import FusedLinear, Linear, project

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """The plain or the gated kind: (B, T, C) → (B, T, C)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.gated = config.gated
        if config.gated:
            sizes = {"gate": config.d_ff, "up": config.d_ff}
            self.gate_up = FusedLinear(config.d_model, sizes, bias=config.ffn_bias)
        else:
            self.up = Linear(config.d_model, config.d_ff, bias=config.ffn_bias)
        self.down = Linear(config.d_ff, config.d_model, bias=config.ffn_bias)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(self._inner(x))
        return out

    def _inner(self, x: Tensor) -> Tensor:
        if not self.gated:
            return self.activation(self.up(x))
        both: Tensor = self.gate_up(x)
        gate, up = both.chunk(2, dim=-1)
        return self.activation(gate) * up


class ExpertLinear(nn.Module):
    """One matrix of every expert, as one tensor (E, outputs, inputs); the outputs are those of the parts, in order."""

    axis = 1  # along which the parts lie

    def __init__(self, n_experts: int, inputs: int, parts: Mapping[str, int]) -> None:
        super().__init__()
        self.parts = {f"experts.{part}": size for part, size in parts.items()}
        self.weight = nn.Parameter(torch.empty(n_experts, sum(parts.values()), inputs))

    def forward(self, x: Tensor, expert: int) -> Tensor:
        return project(x, self.weight[expert])


class MixtureOfExperts(nn.Module):
    """Each position is sent to the `n_experts_used` experts that the router finds likeliest: (B, T, C) → (B, T, C)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[config.activation]
        self.n_used, self.normalize = config.n_experts_used, config.normalize_expert_weights
        self.router = Linear(config.d_model, config.n_experts, bias=False)
        E, C, inner = config.n_experts, config.d_model, config.expert_d_ff
        self.gate_up = ExpertLinear(E, C, {"gate": inner, "up": inner})
        self.down = ExpertLinear(E, inner, {"down": C})

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, -2)  # (B * T, C)
        weights, chosen = self._route(rows)
        answer = torch.zeros_like(rows)
        for expert in sorted(set(chosen.flatten().tolist())):
            row, rank = (chosen == expert).nonzero(as_tuple=True)
            gate, up = self.gate_up(rows[row], expert).chunk(2, dim=-1)
            own = self.down(self.activation(gate) * up, expert)
            answer.index_add_(0, row, own * weights[row, rank, None])
        return answer.view_as(x)

    def _route(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the weights and the numbers of each row's experts, both (rows, n_used)."""
        likely = self.router(rows).float().softmax(dim=-1)
        weights, chosen = likely.topk(self.n_used, dim=-1)
        if self.normalize:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights.to(rows.dtype), chosen


def make_feed_forward(config: ModelConfig, layer: int) -> nn.Module:
    """Returns the layer's feed-forward part: a mixture of experts where the config has them."""
    return MixtureOfExperts(config) if config.has_experts(layer) else FeedForward(config)
