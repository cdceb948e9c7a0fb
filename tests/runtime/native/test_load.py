"""Loading: every weight in its place and type, in blocks, once each; and what stops it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from memory_checkpoint import MemoryCheckpoint
from native_gguf import write_native
from runtime.architectures.shapes import WrongShape
from runtime.checkpoint import open_checkpoint
from runtime.engine import StopFlag
from runtime.model_errors import LoadStopped
from runtime.native import load
from runtime.native.load import load_model
from runtime.native.mapped import DTYPES
from tiny_native import tiny_checkpoint

IDS = torch.tensor([[1, 5, 9, 2]])


def test_weights_lie_where_the_table_says() -> None:
    checkpoint = tiny_checkpoint()

    slots = load_model(checkpoint).slots()

    named = checkpoint.tensors["model.layers.1.self_attn.k_proj.weight"]
    assert slots["decoder.layers.1.attention.k.weight"].tensor.tolist() == named.tolist()


@pytest.mark.parametrize("block", [1, 100, 1 << 20])
def test_large_tensors_go_in_blocks_without_a_difference(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_model(tiny_checkpoint())
    monkeypatch.setattr(load, "_BLOCK", block)

    parts = load_model(tiny_checkpoint())

    assert torch.equal(parts(IDS), whole(IDS))


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_matrices_get_the_wanted_type_and_norms_stay_f32(dtype: str) -> None:
    model = load_model(tiny_checkpoint(), dtype=dtype)

    kinds = {name: slot.tensor.dtype for name, slot in model.slots().items()}
    assert {kind for name, kind in kinds.items() if "norm" in name} == {torch.float32}
    assert {kind for name, kind in kinds.items() if "norm" not in name} == {DTYPES[dtype]}
    assert model(IDS).isfinite().all()


@pytest.mark.parametrize("stored", [np.float16, np.float32])
def test_a_file_of_another_type_is_converted(stored: Any) -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.tensors = {name: tensor.astype(stored) for name, tensor in checkpoint.tensors.items()}

    loaded = load_model(checkpoint).slots()["embedding.weight"].tensor

    assert torch.equal(loaded, torch.from_numpy(checkpoint.tensors["model.embed_tokens.weight"].astype(np.float32)))


def test_a_model_may_outlive_its_checkpoint() -> None:
    checkpoint = tiny_checkpoint()
    model = load_model(checkpoint)
    before = model(IDS)

    for tensor in checkpoint.tensors.values():
        tensor[...] = 0

    assert torch.equal(model(IDS), before)


class Joined(MemoryCheckpoint):
    """Tensors that lie in no file as they are."""

    def raw(self, name: str) -> np.ndarray:
        raise ValueError(name)


def test_tensors_joined_from_several_are_read_converted() -> None:
    checkpoint = tiny_checkpoint()
    joined = Joined("folder", checkpoint.tensors, config=checkpoint.config)

    assert torch.equal(load_model(joined)(IDS), load_model(checkpoint)(IDS))


def test_what_was_read_is_let_go() -> None:
    checkpoint = tiny_checkpoint()

    load_model(checkpoint)

    assert sorted(checkpoint.released) == sorted(checkpoint.names)


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.layers.0.mlp.down_proj.weight"])
def test_a_tensor_of_the_wrong_size_is_named_with_both_sizes(name: str) -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.tensors[name] = checkpoint.tensors[name][:-1]

    with pytest.raises(WrongShape) as raised:
        load_model(checkpoint)

    rows, columns = checkpoint.tensors[name].shape
    assert name in raised.value.info.message
    assert f"{rows} × {columns}" in raised.value.info.message
    assert f"{rows + 1} × {columns}" in raised.value.info.message


def test_a_fused_tensor_that_cannot_be_cut_is_named() -> None:
    sizes = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 5, "n_positions": 6}
    checkpoint = MemoryCheckpoint("folder", {}, config={"model_type": "gpt2", **sizes})
    shapes = {"attn.c_attn.weight": (8, 25), "attn.c_attn.bias": (24,), "attn.c_proj.weight": (8, 8),
              "mlp.c_fc.weight": (8, 32), "mlp.c_fc.bias": (32,), "mlp.c_proj.weight": (32, 8)}  # fmt: skip
    checkpoint.tensors = {"wte.weight": np.zeros((5, 8), np.float32), "wpe.weight": np.zeros((6, 8), np.float32)}
    checkpoint.tensors |= {f"ln_f.{kind}": np.zeros(8, np.float32) for kind in ("weight", "bias")}
    for part in ("ln_1", "ln_2", "attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
        for kind in ("weight", "bias"):
            checkpoint.tensors[f"h.0.{part}.{kind}"] = np.zeros(shapes.get(f"{part}.{kind}", (8,)), np.float32)

    with pytest.raises(WrongShape, match=r"h\.0\.attn\.c_attn\.weight"):
        load_model(checkpoint)


def test_the_listener_hears_how_far_it_is_and_may_end_it() -> None:
    heard: list[float] = []

    def listener(fraction: float) -> bool:
        heard.append(fraction)
        return len(heard) < 5

    with pytest.raises(LoadStopped):
        load_model(tiny_checkpoint(), listener=listener)

    assert len(heard) == 5
    assert heard == sorted(heard)


def test_a_set_flag_ends_loading() -> None:
    stop = StopFlag()
    stop.set()

    with pytest.raises(LoadStopped):
        load_model(tiny_checkpoint(), stop=stop)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16])
def test_a_folder_on_the_disk_is_read_as_it_was_saved(stored: torch.dtype, tmp_path: Path) -> None:
    checkpoint = tiny_checkpoint()
    saved = {name: torch.from_numpy(tensor).to(stored) for name, tensor in checkpoint.tensors.items()}
    save_file(saved, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(dict(checkpoint.config)), encoding="utf-8")

    with open_checkpoint(tmp_path) as opened:
        model = load_model(opened)

    embedding = model.slots()["embedding.weight"].tensor
    assert torch.equal(embedding, saved["model.embed_tokens.weight"].float())
    checkpoint.tensors = {name: tensor.float().numpy() for name, tensor in saved.items()}
    assert torch.equal(model(IDS), load_model(checkpoint)(IDS))


def test_a_gguf_file_on_the_disk_is_read_as_it_was_written(tmp_path: Path) -> None:
    model = load_model(tiny_checkpoint())
    path = write_native(tmp_path / "model.gguf", model)

    with open_checkpoint(path) as opened:
        back = load_model(opened)

    torch.testing.assert_close(back(IDS), model(IDS), atol=1e-6, rtol=0)
    assert back.config.family == "llama"
