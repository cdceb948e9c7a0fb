"""Positions: added, rotated and relative ones, against their definitions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from runtime.config import ModelConfig, Rope, RopeLayout
from runtime.native.positions import (
    AlibiBias,
    LearnedPositions,
    RelativeBias,
    RotaryTable,
    SinusoidalPositions,
    alibi_slopes,
    rotate,
)

LIKE = torch.zeros(1)


def config(**more: object) -> ModelConfig:
    sizes: dict[str, object] = {"vocab_size": 10, "d_model": 16, "n_layers": 1, "n_heads": 4, "n_kv_heads": 4,
                                "head_dim": 4, "d_ff": 8, "context_length": 64}  # fmt: skip
    return ModelConfig(family="test", **sizes | more)  # type: ignore[arg-type]


def turned(x: Tensor, rope: Rope, start: int, *, length: int = 0) -> Tensor:
    """Rotates x (T, D) from position `start` on."""
    T, D = x.shape
    cos, sin = RotaryTable(rope, D).at(slice(start, start + T), length or start + T, like=x)
    return rotate(x[None, None], (cos, sin), rope)[0, 0]


def test_sinusoidal_positions_are_those_of_the_paper() -> None:
    table = SinusoidalPositions(8)(torch.arange(50))

    assert table.shape == (50, 8)
    assert table[0].tolist() == [0, 1] * 4
    torch.testing.assert_close(table[7, 4].item(), math.sin(7 / 10000 ** (4 / 8)), atol=1e-6, rtol=0)
    torch.testing.assert_close(table[7, 5].item(), math.cos(7 / 10000 ** (4 / 8)), atol=1e-6, rtol=0)


def test_learned_positions_leave_rows_free_before_the_first() -> None:
    positions = LearnedPositions(4, 3, offset=2)
    torch.nn.init.normal_(positions.weight)

    assert positions(torch.tensor([0, 1])).tolist() == positions.weight[2:4].tolist()


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotation_keeps_lengths_and_depends_on_distance_alone(layout: RopeLayout) -> None:
    rope = Rope(layout=layout)
    q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))

    near = turned(q[None], rope, 5)[0] @ turned(k[None], rope, 3)[0]
    far = turned(q[None], rope, 105)[0] @ turned(k[None], rope, 103)[0]

    torch.testing.assert_close(near, far, atol=1e-5, rtol=0)
    torch.testing.assert_close(turned(q[None], rope, 90).norm(), q.norm())


def test_the_first_pair_turns_by_one_radian_a_position() -> None:
    result = turned(torch.tensor([[1.0, 0.0]]), Rope(), 1)[0].tolist()

    assert result == pytest.approx([math.cos(1), math.sin(1)])


def test_both_layouts_turn_the_same_pairs() -> None:
    """Entry j and j + D/2 of one are neighbours 2j and 2j + 1 of the other."""
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    interleaved = x.view(3, 2, 4).transpose(1, 2).reshape(3, 8)

    halves = turned(x, Rope(), 4).view(3, 2, 4).transpose(1, 2).reshape(3, 8)

    torch.testing.assert_close(turned(interleaved, Rope(layout="interleaved"), 4), halves)


def test_a_part_of_the_head_passes_unturned() -> None:
    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(2))

    result = turned(x, Rope(dim=4), 9)

    assert result[:, 4:].tolist() == x[:, 4:].tolist()
    torch.testing.assert_close(result[:, :4], turned(x[:, :4], Rope(), 9))


def test_a_table_grows_with_the_text_and_keeps_its_values() -> None:
    table = RotaryTable(Rope(), 8)

    first = table.at(slice(0, 4), 4, like=LIKE)[0].clone()
    table.at(slice(999, 1000), 1000, like=LIKE)

    assert table.at(slice(0, 4), 4, like=LIKE)[0].tolist() == first.tolist()


def test_a_planned_length_decides_the_scaling_from_the_beginning() -> None:
    rope = Rope(scaling="longrope", factors=(1.0, 1.0), long_factors=(2.0, 2.0), original_context=8)
    table = RotaryTable(rope, 4)

    short = table.at(slice(0, 4), 4, like=LIKE)[1]
    planned = table.at(slice(0, 4), 4, planned=100, like=LIKE)[1]
    long = table.at(slice(0, 4), 100, like=LIKE)[1]

    assert planned.tolist() == long.tolist() != short.tolist()


def test_positions_may_come_as_a_table_of_rows() -> None:
    table = RotaryTable(Rope(), 4)

    rows = table.at(torch.tensor([[0, 1], [1, 2]]), 3, like=LIKE)[0]

    assert rows.shape == (2, 2, 4)
    assert rows[1].tolist() == table.at(slice(1, 3), 3, like=LIKE)[0].tolist()


def test_alibi_falls_with_the_distance_by_each_heads_slope() -> None:
    bias = AlibiBias(8)(torch.tensor([3]), torch.tensor([0, 1, 2, 3]))

    assert alibi_slopes(8) == [2.0**-exponent for exponent in range(1, 9)]
    assert bias.shape == (1, 8, 1, 4)
    assert bias[0, 0, 0].tolist() == [-1.5, -1.0, -0.5, 0.0]


def test_alibi_fills_up_between_powers_of_two() -> None:
    assert alibi_slopes(6) == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]


@pytest.mark.parametrize("both_ways", [True, False])
def test_relative_buckets_are_those_of_t5(both_ways: bool) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    bias = RelativeBias(config(relative_buckets=32, relative_max_distance=128), both_ways=both_ways)
    with torch.no_grad():
        bias.weight[:] = torch.arange(32)[:, None].float()
    queries, keys = torch.arange(300), torch.arange(300)

    expected = T5Attention._relative_position_bucket(keys[None] - queries[:, None], both_ways, 32, 128)

    assert torch.equal(bias(queries, keys)[0, 0].long(), expected)
