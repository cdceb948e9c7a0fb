"""Forms: what a file's tensor becomes, back again, and the same for arrays and tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from runtime.architectures import forms
from runtime.config import ModelConfig

CONFIG = ModelConfig(family="test", vocab_size=10, d_model=6, n_layers=1, n_heads=4, n_kv_heads=2, head_dim=4, d_ff=5,
                     context_length=8, n_experts=3)  # fmt: skip
MANY = ModelConfig(family="test", vocab_size=10, d_model=6, n_layers=1, n_heads=4, n_kv_heads=4, head_dim=4, d_ff=5,
                   context_length=8)  # fmt: skip

SCALED = ModelConfig(family="test", vocab_size=10, d_model=6, n_layers=1, n_heads=4, n_kv_heads=4, head_dim=4, d_ff=5,
                     context_length=8, logit_scale=0.25, position_offset=2)  # fmt: skip


def numbered(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


STORED: dict[str, tuple[forms.Form, list[np.ndarray], ModelConfig]] = {
    "same": (forms.SAME, [numbered(4, 6)], CONFIG),
    "add one": (forms.ADD_ONE, [numbered(6)], CONFIG),
    "transpose": (forms.TRANSPOSE, [numbered(6, 5)], CONFIG),
    "transpose, bias": (forms.TRANSPOSE, [numbered(5)], CONFIG),
    "permuted queries": (forms.PERMUTE_ROPE, [numbered(16, 6)], CONFIG),
    "permuted keys": (forms.PERMUTE_ROPE, [numbered(8, 6)], CONFIG),
    "permuted bias": (forms.PERMUTE_ROPE, [numbered(16)], CONFIG),
    "qkv": (forms.FUSED_QKV, [numbered(32, 6)], CONFIG),
    "qkv bias": (forms.FUSED_QKV, [numbered(32)], CONFIG),
    "qkv transposed": (forms.TRANSPOSED_QKV, [numbered(6, 32)], CONFIG),
    "qkv by head": (forms.FUSED_QKV_BY_HEAD, [numbered(48, 6)], MANY),
    "qkv by head, bias": (forms.FUSED_QKV_BY_HEAD, [numbered(48)], MANY),
    "gate and up": (forms.FUSED_GATE_UP, [numbered(10, 6)], CONFIG),
    "gate and up of experts": (forms.FUSED_GATE_UP, [numbered(3, 10, 6)], CONFIG),
    "experts": (forms.STACK, [numbered(5, 6), numbered(5, 6) + 100, numbered(5, 6) + 200], CONFIG),
    "one row": (forms.ONE_ROW, [numbered(1, 6)], CONFIG),
    "scaled head": (forms.WITH_LOGIT_SCALE, [numbered(10, 6)], SCALED),
    "embedding and scaled head": (forms.ALSO_AS_HEAD, [numbered(10, 6), numbered(10, 6) / 4], SCALED),
    "positions": (forms.WITHOUT_OFFSET, [numbered(8, 6)], SCALED),
}


@pytest.mark.parametrize("name", STORED)
def test_there_and_back_changes_nothing(name: str) -> None:
    form, stored, config = STORED[name]

    back = form.to_source(form.to_ours(stored, config), config)

    assert len(back) == len(stored)
    assert all(np.array_equal(one, other) for one, other in zip(back, stored, strict=True))


@pytest.mark.parametrize("name", STORED)
def test_tensors_and_arrays_become_the_same(name: str) -> None:
    form, stored, config = STORED[name]

    arrays = form.to_ours(stored, config)
    tensors = form.to_ours([torch.from_numpy(array) for array in stored], config)

    assert all(np.array_equal(array, tensor.numpy()) for array, tensor in zip(arrays, tensors, strict=True))
    assert all(isinstance(tensor, torch.Tensor) for tensor in form.to_source(tensors, config))


@pytest.mark.parametrize("name", [name for name, (form, _, _) in STORED.items() if form.rowwise])
def test_a_rowwise_form_may_go_in_blocks(name: str) -> None:
    form, (stored,), config = STORED[name]

    blocks = [form.to_ours([stored[start : start + 2]], config)[0] for start in range(0, len(stored), 2)]

    assert np.array_equal(np.concatenate(blocks), form.to_ours([stored], config)[0])


def test_pairs_that_were_neighbours_are_half_a_head_apart() -> None:
    (ours,) = forms.PERMUTE_ROPE.to_ours([np.arange(8)], CONFIG)

    assert ours.tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_queries_keys_and_values_are_cut_by_their_heads() -> None:
    q, k, v = forms.FUSED_QKV.to_ours([np.arange(32)], CONFIG)

    assert (q.tolist(), k.tolist(), v.tolist()) == (list(range(16)), list(range(16, 24)), list(range(24, 32)))


def test_by_head_each_head_brings_its_own_three() -> None:
    q, k, v = forms.FUSED_QKV_BY_HEAD.to_ours([np.arange(48)], MANY)

    assert q.tolist()[:8] == [0, 1, 2, 3, 12, 13, 14, 15]
    assert k.tolist()[:4] == [4, 5, 6, 7]
    assert v.tolist()[-4:] == [44, 45, 46, 47]


def test_a_tensor_of_the_wrong_size_is_not_cut() -> None:
    with pytest.raises(ValueError, match="does not split"):
        forms.FUSED_QKV.to_ours([np.arange(33)], CONFIG)


def test_a_table_of_positions_gets_free_rows_before_position_0() -> None:
    [ours] = forms.WITHOUT_OFFSET.to_ours([numbered(8, 6) + 1], SCALED)

    assert ours.shape == (10, 6)
    assert not ours[:2].any()
    assert ours[2:].all()
