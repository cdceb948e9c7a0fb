"""Large pages: tensors that lie close together, keep their values, and are there even where no large pages are."""

from __future__ import annotations

import mmap

import pytest
import torch
from torch import nn

from runtime.native import large_pages
from runtime.native.large_pages import LargePages

SHAPES = [(3, 5), (1000, 7), (64, 64), (1, 1)]


@pytest.mark.parametrize("chunk", [1 << 20, 4096, 64])
def test_tensors_do_not_overlap(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_pages, "_CHUNK", chunk)
    pages = LargePages()

    made = [pages.empty(shape, torch.float32).fill_(number) for number, shape in enumerate(SHAPES * 3)]

    for number, tensor in enumerate(made):
        assert tensor.shape == SHAPES[number % len(SHAPES)]
        assert tensor.is_contiguous()
        assert tensor.data_ptr() % 64 == 0
        assert (tensor == number).all()


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system gives no large pages")
def test_a_tensor_begins_with_a_large_page_and_its_neighbour_follows() -> None:
    pages = LargePages()

    first, second = (pages.empty((1000,), torch.bfloat16) for _ in range(2))

    assert first.data_ptr() % (2 << 20) == 0
    assert 0 < second.data_ptr() - first.data_ptr() - first.nbytes < 64


@pytest.mark.parametrize("values", [True, False])
def test_a_moved_module_works_as_before_and_shared_matrices_stay_shared(
    values: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_pages, "_LEAST", 64)
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).requires_grad_(False)
    model[1].weight = model[0].weight
    places, x = {tensor.data_ptr() for tensor in model.parameters()}, torch.ones(1, 8)
    before = model(x)

    LargePages().move(model, values=values)

    assert model[1].weight.data_ptr() == model[0].weight.data_ptr()
    assert model[0].weight.data_ptr() not in places
    assert model[0].bias.data_ptr() in places  # too small to be worth it
    assert torch.equal(model(x), before) == values


def test_without_large_pages_torch_gives_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)

    assert LargePages().empty((2, 3), torch.float32).fill_(1).sum() == 6


def test_memory_that_the_system_refuses_is_asked_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise OSError("no memory")

    monkeypatch.setattr(mmap, "mmap", refuse)

    assert LargePages().empty((2, 3), torch.float32).fill_(1).sum() == 6
