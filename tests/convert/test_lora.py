"""Adapters: merged into their model, or files of their own that llama.cpp adds to it, with the same answers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import hf_models
import tiny_gguf
from convert.adapter import BaseNeeded, NotForAdapters, plan_adapter
from convert.options import ConvertOptions
from convert.pipeline import convert
from llama_logits import llama_logits
from runtime.adapter_weights import UnsupportedAdapter
from runtime.engine import StopFlag
from runtime.lora_files import AdapterMismatch
from runtime.tokenizer import FolderTokenizer
from tiny_lora import write_lora
from tiny_tokenizers import write_tokenizer

RANK, ALPHA = 3, 12.0
IDS = [5, 1, 17, 3, 3, 20, 9, 100, 300]
# Modules of several families: rows that move, matrices that files keep fused or flipped, parts that become one.
MODULES = {
    "llama": ("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.k_proj", "model.layers.0.mlp.down_proj"),
    "phi3": ("model.layers.0.self_attn.qkv_proj", "model.layers.1.mlp.gate_up_proj"),
    "gpt2": ("transformer.h.0.attn.c_attn", "transformer.h.1.mlp.c_fc"),
    "gpt_neox": ("gpt_neox.layers.0.attention.query_key_value",),
    "bloom": ("transformer.h.0.self_attention.query_key_value", "transformer.h.1.mlp.dense_h_to_4h"),
}


def base(name: str, folder: Path, **more: Any) -> Path:
    tokenizer = write_tokenizer(folder.parent / "tokenizer", "byte-level")
    hf_models.oracle(name, vocab_size=FolderTokenizer(tokenizer).size, **more).save_pretrained(folder)
    for file in tokenizer.iterdir():
        shutil.copy(file, folder)
    return folder


def adapter(folder: Path, model: Path, modules: tuple[str, ...], **config: Any) -> dict[str, np.ndarray]:
    """Writes a PEFT folder, and returns what it adds to each stored matrix."""
    folder.mkdir()
    stored = load_file(model / "model.safetensors")
    flipped = json.loads((model / "config.json").read_text())["model_type"] == "gpt2"
    rng, tensors, changes = np.random.default_rng(1), {}, {}
    for module in modules:
        shape = stored[f"{module}.weight"].shape
        outputs, inputs = reversed(shape) if flipped else shape
        a, b = rng.standard_normal((RANK, inputs), np.float32), rng.standard_normal((outputs, RANK), np.float32) * 0.2
        tensors |= {f"base_model.model.{module}.lora_A.weight": a, f"base_model.model.{module}.lora_B.weight": b}
        change = ALPHA / RANK * b @ a
        changes[f"{module}.weight"] = change.T if flipped else change
    said = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "base_model_name_or_path": "nobody/knows"} | config
    (folder / "adapter_config.json").write_text(json.dumps(said))
    save_file(tensors, folder / "adapter_model.safetensors")
    return changes


def by_hand(model: Path, changes: Mapping[str, np.ndarray], target: Path, scale: float = 1.0) -> Path:
    shutil.copytree(model, target)
    tensors = load_file(target / "model.safetensors")
    save_file(
        {name: np.ascontiguousarray(array + scale * changes.get(name, 0.0), np.float32)
         for name, array in tensors.items()}, target / "model.safetensors",
    )  # fmt: skip
    return target


def run(source: Path, target: Path, recipe: str = "f32", **more: Any) -> Path:
    list(convert(ConvertOptions(source=source, target=target, recipe=recipe, **more), StopFlag()))
    return target


@pytest.mark.parametrize("name", MODULES)
def test_merged_or_beside_its_model_an_adapter_does_the_same(name: str, tmp_path: Path) -> None:
    model = base(name, tmp_path / "model")
    changes = adapter(tmp_path / "style", model, MODULES[name])
    expected = llama_logits(run(by_hand(model, changes, tmp_path / "changed"), tmp_path / "changed.gguf"), IDS)
    plain = run(model, tmp_path / "plain.gguf")
    assert np.abs(expected - llama_logits(plain, IDS)).max() > 0.1

    merged = run(model, tmp_path / "merged.gguf", lora=(str(tmp_path / "style"),))
    beside = run(tmp_path / "style", tmp_path / "style.gguf", base=model)

    np.testing.assert_allclose(llama_logits(merged, IDS), expected, atol=1e-3)
    tolerance = 6e-2 if name in ("gpt2", "gpt_neox", "bloom") else 2e-3  # llama.cpp's GELU is a table of f16 values
    np.testing.assert_allclose(llama_logits(plain, IDS, adapters={beside: 1.0}), expected, atol=tolerance)


def test_a_factor_and_two_adapters_are_added_up(tmp_path: Path) -> None:
    model = base("llama", tmp_path / "model")
    first = adapter(tmp_path / "one", model, MODULES["llama"])
    second = adapter(tmp_path / "two", model, ("model.layers.0.self_attn.q_proj", "model.layers.1.mlp.up_proj"))
    changed = by_hand(by_hand(model, first, tmp_path / "half", 0.5), second, tmp_path / "both")
    merged = run(model, tmp_path / "merged.gguf", verify=True,
                 lora=(f"{tmp_path / 'one'}=0.5", str(tmp_path / "two")))  # fmt: skip
    expected = llama_logits(run(changed, tmp_path / "both.gguf"), IDS)
    np.testing.assert_allclose(llama_logits(merged, IDS), expected, atol=1e-3)


def test_an_adapter_is_merged_into_a_folder_too(tmp_path: Path) -> None:
    model = base("gpt2", tmp_path / "model")
    changes = adapter(tmp_path / "style", model, MODULES["gpt2"])
    merged = run(model, tmp_path / "merged", lora=(str(tmp_path / "style"),))
    expected = load_file(by_hand(model, changes, tmp_path / "changed") / "model.safetensors")
    found = load_file(merged / "model.safetensors")
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-6)
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (merged / file).read_bytes() == (model / file).read_bytes()
    assert json.loads((merged / "config.json").read_text())["model_type"] == "gpt2"


def test_a_gguf_adapter_is_merged_into_a_gguf_file(tmp_path: Path) -> None:
    model = tiny_gguf.write_tiny(tmp_path / "model.gguf")
    lora = write_lora(tmp_path / "style.gguf")
    merged = run(model, tmp_path / "merged.gguf", lora=(str(lora.path),))
    ids = [1, 2, 3, 4, 5]
    with_it = llama_logits(model, ids, adapters={lora.path: 1.0})
    assert np.abs(with_it - llama_logits(model, ids)).max() > 0.1
    np.testing.assert_allclose(llama_logits(merged, ids), with_it, atol=2e-3)


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    model = base("llama", tmp_path / "model")
    adapter(tmp_path / "style", model, MODULES["llama"])
    with pytest.raises(BaseNeeded, match="nobody/knows"):
        run(tmp_path / "style", tmp_path / "out.gguf")
    with pytest.raises(NotForAdapters, match="Q4_0"):
        run(tmp_path / "style", tmp_path / "out.gguf", "q4_0", base=model)
    other = base("gpt2", tmp_path / "other")
    with pytest.raises(AdapterMismatch, match="down_proj"):
        run(other, tmp_path / "out.gguf", lora=(str(tmp_path / "style"),))
    wider = base("llama", tmp_path / "wider", hidden_size=64)
    with pytest.raises(AdapterMismatch, match="other sizes"):
        run(tmp_path / "style", tmp_path / "out.gguf", base=wider)
    with pytest.raises(AdapterMismatch, match="in a folder"):
        run(model, tmp_path / "out.gguf", lora=(str(write_lora(tmp_path / "lora.gguf").path),))
    assert not (tmp_path / "out.gguf").exists()


def test_a_tensor_that_an_adapter_replaces_as_a_whole_has_no_place_in_a_gguf_adapter(tmp_path: Path) -> None:
    model = base("phi3", tmp_path / "model")
    adapter(tmp_path / "style", model, MODULES["phi3"])
    tensors = load_file(tmp_path / "style" / "adapter_model.safetensors")
    tensors["base_model.model.lm_head.weight"] = np.zeros((4, 4), np.float32)
    save_file(tensors, tmp_path / "style" / "adapter_model.safetensors")
    with pytest.raises(UnsupportedAdapter, match="as a whole"):
        plan_adapter(ConvertOptions(source=tmp_path / "style", target=tmp_path / "x.gguf", recipe="F32", base=model))
