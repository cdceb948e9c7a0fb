"""Other devices than the processor: every tensor of a pass is made on the model's, and a missing card is told.

torch's device "meta" stands for them: it works out shapes, and refuses tensors of any other device.
"""

from __future__ import annotations

import pytest
import torch

from runtime.architectures.reading import identify
from runtime.native.kv_cache import KVCache
from runtime.native.large_pages import LargePages
from runtime.native.load import empty_model
from runtime.native.mapped import DTYPES
from runtime.native.one_token import OneToken
from runtime.native.settings import device_of
from runtime.params import LoadParams
from tiny_native import tiny_checkpoint


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("kind", ["bf16", "int8", "int4"])
def test_a_pass_makes_no_tensor_elsewhere(dtype: str, kind: str) -> None:
    _architecture, config = identify(tiny_checkpoint())
    model = empty_model(config, dtype=dtype, device="meta")
    cache = KVCache(config, k_type=kind, v_type=kind, device="meta", dtype=DTYPES[dtype])
    ids = torch.zeros(1, 5, dtype=torch.long, device="meta")

    for piece in (ids, ids[:, :1]):
        logits = model(piece, cache=cache, padding=None)
        cache.advance(piece.shape[1])

    assert logits.device.type == "meta"
    assert logits.shape == (1, 1, config.vocab_size)
    assert OneToken.of(model) is None  # which is for the processor


def test_large_pages_are_for_the_processors_memory_only() -> None:
    layer = torch.nn.Linear(512, 512, device="meta").requires_grad_(False)

    LargePages().move(layer, values=False)

    assert layer.weight.device.type == "meta"


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.parametrize(("settings", "told"), [({}, 0), ({"gpu_layers": 4}, 1), ({"devices": ("CUDA0",)}, 1),
                                                ({"gpu_layers": 0}, 0), ({"devices": ("CPU",)}, 0)])  # fmt: skip
def test_without_a_card_the_processor_computes_and_whoever_asked_for_one_is_told(
    settings: dict[str, object], told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    notes: list[str] = []

    assert device_of(LoadParams(**settings), notes) == "cpu"  # type: ignore[arg-type]
    assert ["no graphics card" in note for note in notes] == [True] * told


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize(
    ("named", "device", "told"),
    [((), "cuda:0", 0), (("CUDA1",), "cuda:1", 0), (("CUDA7",), "cuda:0", 1), (("cuda7", "cuda1"), "cuda:1", 0)],
)
def test_a_card_is_chosen_by_its_name_and_one_that_is_not_there_is_told(
    named: tuple[str, ...], device: str, told: int
) -> None:
    notes: list[str] = []

    assert device_of(LoadParams(devices=named), notes) == device
    assert ["no graphics card cuda7" in note for note in notes] == [True] * told
