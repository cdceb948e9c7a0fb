"""The equation of attention: a worked example, the fused kernel against it, and what masks, groups and caps do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from runtime.native.attention import attend, attend_fused
from runtime.native.masks import EVERYTHING, TRIANGLE, Mask, Masks


def vectors(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_the_worked_example_of_three_words() -> None:
    q = torch.tensor([[0.8, 0.2], [0.5, -0.3], [-0.2, 0.9]])
    k = torch.tensor([[0.6, 0.1], [-0.4, 0.7], [0.2, -0.5]])
    v = torch.eye(3, 2)
    scores = q @ k.T

    gathered, weights = attend(q[None, None], k[None, None], v[None, None])

    torch.testing.assert_close(scores[0], torch.tensor([0.50, -0.18, 0.06]))
    torch.testing.assert_close(weights[0, 0, 0], torch.tensor([0.425, 0.263, 0.312]), atol=5e-4, rtol=0)
    torch.testing.assert_close(gathered[0, 0, 0], weights[0, 0, 0] @ v)


def test_the_weights_of_each_position_sum_to_one() -> None:
    _, weights = attend(vectors(2, 4, 5, 8), vectors(2, 2, 7, 8), vectors(2, 2, 7, 8))

    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 4, 5))


def a_table(T: int, S: int) -> Mask:
    table = torch.rand((1, 1, T, S), generator=torch.Generator().manual_seed(5)) > 0.5
    table[..., 0] = True
    return Mask(table)


def added_numbers(T: int, S: int) -> Mask:
    return Mask(vectors(1, 4, T, S, seed=6))


@pytest.mark.parametrize("n_kv_heads", [4, 2, 1], ids=["multi-head", "grouped", "multi-query"])
@pytest.mark.parametrize(("T", "S"), [(6, 6), (3, 8), (1, 8)])
@pytest.mark.parametrize("kind", ["everything", "triangle", "table", "added"])
def test_the_fused_kernel_gathers_what_the_equation_does(n_kv_heads: int, T: int, S: int, kind: str) -> None:
    if kind == "triangle" and T != S:
        pytest.skip("a triangle is a square's")
    q, k, v = vectors(2, 4, T, 8, seed=1), vectors(2, n_kv_heads, S, 8, seed=2), vectors(2, n_kv_heads, S, 8, seed=3)
    mask = {"everything": EVERYTHING, "triangle": TRIANGLE, "table": a_table(T, S), "added": added_numbers(T, S)}[kind]

    gathered, _ = attend(q, k, v, mask=mask, scale=0.7)

    torch.testing.assert_close(attend_fused(q, k, v, mask=mask, scale=0.7), gathered, atol=1e-5, rtol=0)


def test_a_causal_mask_lets_nobody_look_ahead() -> None:
    _, weights = attend(vectors(1, 2, 5, 8), vectors(1, 2, 5, 8), vectors(1, 2, 5, 8), mask=TRIANGLE)

    assert (weights.triu(1) == 0).all()
    assert (weights.tril() > 0)[..., torch.ones(5, 5).tril().bool()].all()


def test_scores_as_large_as_floats_allow_do_not_overflow() -> None:
    q = torch.full((1, 1, 2, 4), 1e18)

    gathered, weights = attend(q, q, vectors(1, 1, 2, 4))

    assert gathered.isfinite().all()
    torch.testing.assert_close(weights, torch.full((1, 1, 2, 2), 0.5))


def test_a_cap_keeps_scores_in_bounds() -> None:
    q, k = torch.full((1, 1, 1, 1), 100.0), torch.tensor([1.0, -1.0]).view(1, 1, 2, 1)

    _, weights = attend(q, k, torch.zeros(1, 1, 2, 1), scale=1.0, softcap=2.0)

    torch.testing.assert_close(weights[0, 0, 0], torch.softmax(torch.tensor([2.0, -2.0]), dim=0))


def test_heads_of_one_group_share_their_keys_and_values() -> None:
    q, k, v = vectors(1, 4, 3, 8), vectors(1, 2, 3, 8, seed=1), vectors(1, 2, 3, 8, seed=2)

    gathered, _ = attend(q, k, v)

    for head in range(4):
        own = slice(head, head + 1), slice(head // 2, head // 2 + 1)
        torch.testing.assert_close(gathered[:, own[0]], attend(q[:, own[0]], k[:, own[1]], v[:, own[1]])[0])


def test_padding_gets_no_weight_and_makes_no_nan() -> None:
    q = vectors(2, 2, 4, 8)
    mask = Masks(0, 4, q.device, padding=torch.tensor([0, 3])).get(None, 0, 4)

    gathered, weights = attend(q, q, q, mask=mask)

    assert gathered.isfinite().all()
    assert (weights[1, :, 3, :3] == 0).all()
