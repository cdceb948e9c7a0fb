"""Matrices of a model, and how its modules are found."""

from __future__ import annotations

import torch
from torch import nn

from runtime.native.linear import Linear, project, shorten_look_ups


def test_a_vector_alone_is_projected_as_among_others() -> None:
    torch.manual_seed(1)
    x, weight, bias = torch.randn(1, 3, 64).bfloat16(), torch.randn(32, 64).bfloat16(), torch.randn(32).bfloat16()

    alone = torch.cat([project(row, weight, bias) for row in x.split(1, dim=1)], dim=1)

    torch.testing.assert_close(alone, project(x, weight, bias), atol=2**-4, rtol=2**-7)


def test_a_module_that_is_exchanged_later_is_the_one_that_is_found() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = Linear(2, 2, bias=False)

    pair = Pair()
    shorten_look_ups(pair)
    assert vars(pair)["first"] is pair.first

    pair.first = other = Linear(2, 3, bias=False)

    assert pair.first is other
    assert dict(pair.named_modules())["first"] is other
