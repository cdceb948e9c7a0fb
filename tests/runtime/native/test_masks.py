"""Who may look at whom, as little tables that can be read."""

from __future__ import annotations

import torch

from runtime.native.masks import EVERYTHING, TRIANGLE, Mask, Masks

CPU = torch.device("cpu")


def drawn(mask: Mask, row: int = 0) -> list[str]:
    """Returns a mask as lines: x where a position may look."""
    assert mask.table is not None
    return ["".join("x" if seen else "." for seen in line) for line in mask.table[row, 0].tolist()]


def test_a_first_pass_is_a_plain_triangle_without_a_table() -> None:
    assert Masks(0, 4, CPU).get(None, 0, 4) is TRIANGLE


def test_one_new_token_sees_everything_without_a_table() -> None:
    masks = Masks(9, 1, CPU)

    assert masks.get(None, 0, 10) is EVERYTHING
    assert masks.get(10, 0, 10) is EVERYTHING


def test_a_later_piece_sees_what_came_before_it() -> None:
    assert drawn(Masks(2, 3, CPU).get(None, 0, 5)) == ["xxx..", "xxxx.", "xxxxx"]


def test_a_window_ends_behind_each_position() -> None:
    assert drawn(Masks(0, 4, CPU).get(2, 0, 4)) == ["x...", "xx..", ".xx.", "..xx"]


def test_a_window_that_nothing_has_left_is_none() -> None:
    assert Masks(0, 4, CPU).get(4, 0, 4) is TRIANGLE


def test_a_windowed_cache_begins_later() -> None:
    """The keys are those of positions 5 to 8."""
    assert drawn(Masks(7, 2, CPU).get(3, 5, 4)) == ["xxx.", ".xxx"]


def test_one_new_token_beyond_the_window_has_a_table() -> None:
    assert drawn(Masks(5, 1, CPU).get(3, 0, 6)) == ["...xxx"]


def test_a_prefix_is_seen_by_all_its_positions() -> None:
    assert drawn(Masks(0, 4, CPU, prefix=2).get(None, 0, 4)) == ["xx..", "xx..", "xxx.", "xxxx"]


def test_padding_on_the_left_is_hidden_from_the_tokens_and_sees_itself() -> None:
    mask = Masks(0, 3, CPU, padding=torch.tensor([0, 2])).get(None, 0, 3)

    assert drawn(mask, 0) == ["x..", "xx.", "xxx"]
    assert drawn(mask, 1) == ["x..", ".x.", "..x"]


def test_an_encoder_sees_both_ways_and_no_padding() -> None:
    keys = torch.tensor([[True, True, False]])

    assert Masks(0, 3, CPU, causal=False).get(None, 0, 3) is EVERYTHING
    assert drawn(Masks(0, 3, CPU, causal=False, keys=keys).get(None, 0, 3)) == ["xx.", "xx.", "xx."]


def test_relative_positions_are_added_where_something_is_seen() -> None:
    masks = Masks(0, 2, CPU, bias=lambda q, k: (k[None, :] - q[:, None]).float()[None, None])

    table = masks.get(None, 0, 2).table

    assert table is not None
    assert table.tolist() == [[[[0.0, float("-inf")], [-1.0, 0.0]]]]


def test_a_mask_is_made_once_for_all_layers_of_a_kind() -> None:
    masks = Masks(2, 3, CPU)

    assert masks.get(None, 0, 5).table is masks.get(None, 0, 5).table
    assert masks.get(2, 1, 4).table is masks.get(2, 1, 4).table
