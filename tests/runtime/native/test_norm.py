"""Norms of one vector and of many."""

from __future__ import annotations

import pytest
import torch

from runtime.native.norm import RMSNorm


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 2**-7)], ids=str)
@pytest.mark.parametrize("size", [1.0, 1e-6, 1e6])
def test_a_vector_alone_is_normed_as_among_others(dtype: torch.dtype, tolerance: float, size: float) -> None:
    torch.manual_seed(1)
    norm = RMSNorm(48, eps=1e-5).requires_grad_(False)
    norm.weight.normal_()
    x = (torch.randn(1, 7, 48) * size).to(dtype)

    alone = torch.cat([norm(row) for row in x.split(1, dim=1)], dim=1)

    assert alone.dtype == dtype
    torch.testing.assert_close(alone, norm(x), atol=1e-7, rtol=tolerance)
    exact = x.double() / torch.sqrt(x.double().square().mean(-1, keepdim=True) + 1e-5) * norm.weight.double()
    torch.testing.assert_close(alone.double(), exact, atol=1e-7, rtol=tolerance)
