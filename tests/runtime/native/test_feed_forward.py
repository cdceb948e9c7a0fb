"""Feed-forward parts and norms against their equations, written out."""

from __future__ import annotations

from typing import TypeVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from runtime.config import Activation, ModelConfig
from runtime.native.feed_forward import FeedForward, MixtureOfExperts, make_feed_forward
from runtime.native.linear import Linear
from runtime.native.norm import LayerNorm, RMSNorm, keep_norms_exact, make_norm

FUNCTIONS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}


def config(**more: object) -> ModelConfig:
    sizes: dict[str, object] = {"vocab_size": 10, "d_model": 6, "n_layers": 2, "n_heads": 1, "n_kv_heads": 1,
                                "head_dim": 6, "d_ff": 8, "context_length": 64}  # fmt: skip
    return ModelConfig(family="test", **sizes | more)  # type: ignore[arg-type]


Module = TypeVar("Module", bound=nn.Module)


def filled(module: Module) -> Module:
    """Gives a module random weights."""
    torch.manual_seed(0)
    for parameter in module.requires_grad_(False).parameters():
        parameter.normal_(std=0.5)
    return module


def states(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("activation", FUNCTIONS)
def test_the_plain_kind(activation: Activation) -> None:
    part = filled(FeedForward(config(activation=activation, gated=False, ffn_bias=True)))
    x = states(2, 3, 6)

    inner = FUNCTIONS[activation](x @ part.up.weight.T + part.up.bias)

    torch.testing.assert_close(part(x), inner @ part.down.weight.T + part.down.bias)


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"], ids=["SwiGLU", "GeGLU"])
def test_the_gated_kind(activation: Activation) -> None:
    part = filled(FeedForward(config(activation=activation)))
    gate, up = part.gate_up.weight[:8], part.gate_up.weight[8:]
    x = states(2, 3, 6)

    torch.testing.assert_close(part(x), (FUNCTIONS[activation](x @ gate.T) * (x @ up.T)) @ part.down.weight.T)


@pytest.mark.parametrize("normalize", [True, False])
def test_experts_are_weighed_by_the_router(normalize: bool) -> None:
    """Against all experts at once, with the weights of those not chosen set to 0."""
    sizes = {"n_experts": 5, "n_experts_used": 2, "expert_d_ff": 4}
    part = filled(MixtureOfExperts(config(**sizes, normalize_expert_weights=normalize)))
    x = states(2, 3, 6)
    likely = (x @ part.router.weight.T).softmax(dim=-1)
    weights = likely * (likely >= likely.topk(2, dim=-1).values[..., -1:])
    if normalize:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    gate, up = part.gate_up.weight[:, :4], part.gate_up.weight[:, 4:]
    each = torch.einsum("btef,ecf->btec", F.silu(torch.einsum("btc,efc->btef", x, gate))
                        * torch.einsum("btc,efc->btef", x, up), part.down.weight)  # fmt: skip

    torch.testing.assert_close(part(x), (each * weights[..., None]).sum(dim=2), atol=1e-5, rtol=0)


def test_only_some_layers_have_experts() -> None:
    mixed = config(n_experts=2, n_experts_used=1, expert_d_ff=4, dense_layers=(0,))

    assert isinstance(make_feed_forward(mixed, 0), FeedForward)
    assert isinstance(make_feed_forward(mixed, 1), MixtureOfExperts)


def test_rms_norm_divides_by_the_root_of_the_mean_square() -> None:
    norm = make_norm(config(norm_eps=1e-3))
    x = states(4, 6)
    torch.nn.init.normal_(norm.weight)

    torch.testing.assert_close(norm(x), x / (x.pow(2).mean(-1, keepdim=True) + 1e-3).sqrt() * norm.weight)
    assert isinstance(norm, RMSNorm)


def test_layer_norm_takes_the_mean_off_too() -> None:
    norm = make_norm(config(norm="layer", norm_eps=1e-3))
    assert isinstance(norm, LayerNorm)
    x = states(4, 6)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)

    centred = x - x.mean(-1, keepdim=True)
    expected = centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-3).sqrt() * norm.weight + norm.bias

    torch.testing.assert_close(norm(x), expected)


@pytest.mark.parametrize("kind", [RMSNorm, LayerNorm])
def test_norms_stay_exact_in_a_model_of_16_bits(kind: type[RMSNorm]) -> None:
    norm = kind(4, 1e-5).bfloat16()
    keep_norms_exact(norm)
    with torch.no_grad():
        norm.weight.fill_(1.003)  # bf16 would make 1.0 of it
    x = torch.tensor([[2.0, -2.0, 2.0, -2.0]])

    assert norm(x.bfloat16()).dtype == torch.bfloat16
    torch.testing.assert_close(norm(x), x.sign() * 1.003, atol=1e-4, rtol=0)


@pytest.mark.parametrize("biased", [True, False])
def test_one_vector_of_16_bits_gets_the_product_that_many_get(biased: bool) -> None:
    """The kernel for one vector is another one; its sums are the same."""
    layer = filled(Linear(600, 70, bias=biased)).bfloat16()
    x = states(1, 1, 600).bfloat16()

    torch.testing.assert_close(layer(x), F.linear(x, layer.weight, layer.bias), atol=0.2, rtol=0)
    assert layer(x).shape == (1, 1, 70)
