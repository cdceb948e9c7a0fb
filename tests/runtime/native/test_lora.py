"""LoRA adapters on the native model: against weights changed by hand, and against llama.cpp with the same adapter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import hf_models
import tiny_gguf
from llama_logits import llama_logits
from memory_checkpoint import MemoryCheckpoint
from runtime.adapter_weights import UnsupportedAdapter, read_adapter_weights
from runtime.architectures.reading import identify
from runtime.checkpoint import open_checkpoint
from runtime.lora_files import AdapterMismatch
from runtime.native.load import load_model
from runtime.native.lora import BoundAdapter, SideAdapter, bind_adapter, merge
from runtime.native.transformer import Transformer
from tiny_lora import SHAPES, write_adapter, write_lora
from tiny_native import tiny_checkpoint

RANK, ALPHA = 3, 12.0
IDS = torch.tensor([[5, 1, 17, 3, 3, 20, 9]])
Arrays = Mapping[str, np.ndarray]


def _pair(shape: tuple[int, ...], seed: int = 0, rank: int = RANK) -> tuple[np.ndarray, np.ndarray]:
    """Returns A (rank, inputs) and B (outputs, rank) for a weight (outputs, inputs)."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rank, shape[1]), np.float32), rng.standard_normal((shape[0], rank), np.float32)


def _write(folder: Path, tensors: Arrays, **config: Any) -> Path:
    folder.mkdir(exist_ok=True)
    said = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "use_dora": False, "bias": "none"} | config
    (folder / "adapter_config.json").write_text(json.dumps(said))
    save_file({name: np.ascontiguousarray(values) for name, values in tensors.items()},
              folder / "adapter_model.safetensors")  # fmt: skip
    return folder


def _peft(folder: Path, pairs: Mapping[str, tuple[np.ndarray, np.ndarray]], more: Arrays | None = None,
          **config: Any) -> Path:  # fmt: skip
    """Writes a PEFT folder that changes these modules."""
    tensors = dict(more or {})
    for module, (a, b) in pairs.items():
        tensors[f"base_model.model.{module}.lora_A.weight"] = a
        tensors[f"base_model.model.{module}.lora_B.weight"] = b
    return _write(folder, tensors, **config)


def _changed(checkpoint: MemoryCheckpoint, changes: Arrays) -> MemoryCheckpoint:
    tensors = dict(checkpoint.tensors)
    for name, change in changes.items():
        tensors[name] = tensors[name] + change
    return MemoryCheckpoint(checkpoint.kind, tensors, config=checkpoint.config)


def _bound(path: Path, checkpoint: Any) -> BoundAdapter:
    return bind_adapter(read_adapter_weights(path), *identify(checkpoint))


def _merged(checkpoint: Any, path: Path, scale: float = 1.0) -> Transformer:
    model = load_model(checkpoint)
    merge(model, _bound(path, checkpoint), scale=scale)
    return model


def _on_the_side(checkpoint: Any, path: Path, scale: float = 1.0) -> Transformer:
    model = load_model(checkpoint)
    SideAdapter(model, _bound(path, checkpoint), scale=scale)
    return model


WAYS = pytest.mark.parametrize("way", [_merged, _on_the_side])
Way = Callable[..., Transformer]


@torch.inference_mode()
def _logits(model: Transformer, ids: torch.Tensor = IDS) -> np.ndarray:
    return model(ids).numpy()


def _check_equal(model: Transformer, expected: MemoryCheckpoint, plain: MemoryCheckpoint) -> None:
    wanted, found = _logits(load_model(expected)), _logits(model)
    assert np.abs(wanted - _logits(load_model(plain))).max() > 0.1  # the adapter does something
    np.testing.assert_allclose(found, wanted, atol=2e-4 * max(1, np.abs(wanted).max()))


# --- PEFT folders -----------------------------------------------------------------------------------------------

_MODULES = ("model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.v_proj", "model.layers.0.self_attn.o_proj",
            "model.layers.1.mlp.gate_proj", "model.layers.0.mlp.up_proj", "model.layers.1.mlp.down_proj",
            "lm_head")  # fmt: skip


@WAYS
def test_a_peft_folder_adds_its_product_to_each_matrix(way: Way, tmp_path: Path) -> None:
    base = tiny_checkpoint()
    pairs = {module: _pair(base.tensors[f"{module}.weight"].shape, seed) for seed, module in enumerate(_MODULES)}
    expected = _changed(base, {f"{module}.weight": 0.5 * ALPHA / RANK * b @ a for module, (a, b) in pairs.items()})

    _check_equal(way(base, _peft(tmp_path, pairs), scale=0.5), expected, base)


@WAYS
@pytest.mark.parametrize(("family", "module"), [
    ("gpt2", "transformer.h.1.attn.c_attn"), ("gpt2", "transformer.h.0.mlp.c_fc"),
    ("gpt2", "transformer.h.0.mlp.c_proj"),
    ("phi3", "model.layers.0.self_attn.qkv_proj"), ("phi3", "model.layers.1.mlp.gate_up_proj"),
    ("gpt_neox", "gpt_neox.layers.0.attention.query_key_value"), ("qwen3", "model.layers.0.self_attn.k_proj"),
])  # fmt: skip
def test_matrices_that_files_keep_fused_or_flipped_are_changed_in_our_order(
    way: Way, family: str, module: str, tmp_path: Path
) -> None:
    base = hf_models.checkpoint_of(hf_models.oracle(family))
    stored = base.tensors[f"{module}.weight"].shape
    flipped = family == "gpt2"  # whose matrices are (inputs, outputs) in its files
    a, b = _pair(stored[::-1] if flipped else stored)
    change = ALPHA / RANK * (b @ a)
    expected = _changed(base, {f"{module}.weight": change.T if flipped else change})

    _check_equal(way(base, _peft(tmp_path, {module: (a, b)}, fan_in_fan_out=flipped)), expected, base)


@WAYS
def test_an_embedding_has_its_pair_the_other_way_round(way: Way, tmp_path: Path) -> None:
    base = tiny_checkpoint()
    a, b = _pair((16, 24))  # A (rank, tokens), B (width, rank)
    name = "base_model.model.model.embed_tokens.lora_embedding_"
    folder = _write(tmp_path, {f"{name}A": a, f"{name}B": b})

    expected = _changed(base, {"model.embed_tokens.weight": ALPHA / RANK * (b @ a).T})

    _check_equal(way(base, folder), expected, base)


@WAYS
def test_ranks_and_alphas_by_pattern_and_rslora(way: Way, tmp_path: Path) -> None:
    base = tiny_checkpoint()
    first, second, third = _MODULES[:3]
    pairs = {module: _pair(base.tensors[f"{module}.weight"].shape, seed, rank)
             for seed, (module, rank) in enumerate([(first, 2), (second, 3), (third, 5)])}  # fmt: skip
    patterns = {"layers.1.self_attn.v_proj": 6, "^model.layers.0.self_attn.o_proj": 10, "v_proj": 99}
    folder = _peft(tmp_path, pairs, use_rslora=True, alpha_pattern=patterns, rank_pattern={"q_proj": 2, "o_proj": 5})

    scales = {first: ALPHA / 2**0.5, second: 6 / 3**0.5, third: 10 / 5**0.5}
    expected = _changed(base, {f"{module}.weight": scales[module] * b @ a for module, (a, b) in pairs.items()})

    _check_equal(way(base, folder), expected, base)


@WAYS
@pytest.mark.parametrize("middle", ["", ".modules_to_save", ".modules_to_save.default"])
def test_modules_that_were_trained_whole_are_replaced(way: Way, middle: str, tmp_path: Path) -> None:
    base = tiny_checkpoint()
    head = np.random.default_rng(4).standard_normal((24, 16), np.float32)
    folder = _peft(tmp_path, {_MODULES[0]: _pair((16, 16))}, {f"base_model.model.lm_head{middle}.weight": head},
                   modules_to_save=["lm_head"])  # fmt: skip
    a, b = _pair((16, 16))

    expected = _changed(base, {f"{_MODULES[0]}.weight": ALPHA / RANK * b @ a})
    expected.tensors["lm_head.weight"] = head

    _check_equal(way(base, folder), expected, base)


def test_biases_that_were_trained_are_replaced(tmp_path: Path) -> None:
    base = hf_models.checkpoint_of(hf_models.oracle("qwen2"))
    name = "model.layers.0.self_attn.q_proj.bias"
    bias = base.tensors[name] + 3
    folder = _peft(tmp_path, {}, {f"base_model.model.{name}": bias}, bias="lora_only")

    expected = _changed(base, {name: np.full_like(bias, 3)})

    _check_equal(_merged(base, folder), expected, base)


def test_an_adapter_on_the_side_can_be_taken_off(tmp_path: Path) -> None:
    base = tiny_checkpoint()
    head = np.ones((24, 16), np.float32)
    pairs = {module: _pair(base.tensors[f"{module}.weight"].shape) for module in _MODULES[:-1]}
    folder = _peft(tmp_path, pairs, {"base_model.model.lm_head.weight": head})
    model = load_model(base)
    before = _logits(model)

    adapter = SideAdapter(model, _bound(folder, base))
    changed = _logits(model)
    adapter.remove()
    adapter.remove()

    assert np.abs(changed - before).max() > 0.1
    np.testing.assert_array_equal(_logits(model), before)


def test_two_adapters_add_up(tmp_path: Path) -> None:
    base = tiny_checkpoint()
    name = _MODULES[0]
    folders = [_peft(tmp_path / str(seed), {name: _pair((16, 16), seed)}) for seed in range(2)]
    changes = [scale * ALPHA / RANK * b @ a for scale, (a, b) in zip((1, -0.5), (_pair((16, 16), n) for n in range(2)),
                                                                    strict=True)]  # fmt: skip
    model = load_model(base)

    merge(model, _bound(folders[0], base))
    SideAdapter(model, _bound(folders[1], base), scale=-0.5)

    _check_equal(model, _changed(base, {f"{name}.weight": sum(changes)}), base)


def test_an_adapter_works_on_a_model_in_bf16(tmp_path: Path) -> None:
    base = tiny_checkpoint()
    folder = _peft(tmp_path, {_MODULES[0]: _pair((16, 16))})
    model = load_model(base, dtype="bf16")
    before = _logits(model)

    SideAdapter(model, _bound(folder, base))

    assert np.abs(_logits(model) - before).max() > 0.1


# --- GGUF adapters ----------------------------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("alpha", [8.0, 0.0])
def test_a_gguf_adapter_gives_the_logits_of_llama_cpp(way: Way, alpha: float, tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "model.gguf")
    names = [f"blk.{layer}.{name}.weight" for layer, name in enumerate([*SHAPES] * 2) for layer in (layer % 2,)]
    adapter = write_lora(tmp_path / "adapter.gguf", alpha=alpha, names=list(dict.fromkeys(names)))
    ids = [1, 5, 300, 42, 7, 7, 100]

    with open_checkpoint(path) as checkpoint:
        found = _logits(way(checkpoint, adapter.path, scale=0.75), torch.tensor([ids]))[0]
        plain = _logits(load_model(checkpoint), torch.tensor([ids]))[0]

    expected = llama_logits(path, ids, adapters={adapter.path: 0.75})
    assert np.abs(expected - plain).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-3)


@WAYS
def test_a_gguf_adapter_of_an_embedding(way: Way, tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "model.gguf")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, 4), np.float32) for size in (512, 256))
    tensors = {"token_embd.weight.lora_a": a, "token_embd.weight.lora_b": b}
    adapter = write_adapter(tmp_path / "adapter.gguf", tensors, metadata={"adapter.lora.alpha": 8.0})
    ids = [1, 5, 300, 42]

    with open_checkpoint(path) as checkpoint:
        found = _logits(way(checkpoint, adapter), torch.tensor([ids]))[0]

    np.testing.assert_allclose(found, llama_logits(path, ids, adapters={adapter: 1.0}), atol=1e-3)


def test_a_gguf_adapter_of_another_architecture_is_refused(tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "model.gguf")
    adapter = write_lora(tmp_path / "adapter.gguf", architecture="qwen2")

    with open_checkpoint(path) as checkpoint, pytest.raises(AdapterMismatch, match="qwen2"):
        _bound(adapter.path, checkpoint)


def test_a_model_is_no_adapter(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedAdapter, match="no LoRA adapter"):
        read_adapter_weights(tiny_gguf.write_tiny(tmp_path / "model.gguf"))


# --- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "words"), [
    ({"use_dora": True}, "DoRA"),
    ({"peft_type": "IA3"}, "IA3"),
    ({"init_lora_weights": "pissa_niter_4"}, "pissa"),
    ({"alora_invocation_tokens": [1]}, "activated"),
    ({"lora_alpha": "much"}, "lora_alpha"),
    ({"lora_alpha": float("nan")}, "lora_alpha"),
    ({"alpha_pattern": {"(a+)+b": 3}}, "regular expression"),
])  # fmt: skip
def test_kinds_that_are_not_applied_are_refused_in_words(config: dict[str, Any], words: str, tmp_path: Path) -> None:
    folder = _peft(tmp_path, {_MODULES[0]: _pair((16, 16))}, **config)

    with pytest.raises(UnsupportedAdapter, match=words):
        read_adapter_weights(folder)


@pytest.mark.parametrize("tensors", [
    {"m.lora_A.weight": np.ones((3, 16), np.float32)},  # one half
    {"m.lora_B.weight": np.ones((16, 3), np.float32)},
    {"m.lora_A.weight": np.ones((3, 16), np.float32), "m.lora_B.weight": np.ones((16, 4), np.float32)},
    {"m.lora_A.weight": np.ones((3, 16, 1), np.float32), "m.lora_B.weight": np.ones((16, 3, 1), np.float32)},
    {"m.lora_A.weight": np.ones((0, 16), np.float32), "m.lora_B.weight": np.ones((16, 0), np.float32)},
    {"m.lora_magnitude_vector": np.ones(16, np.float32)},
    {"m.lora_A.weight": np.ones((3, 16), np.float32), "m.lora_B.weight": np.ones((16, 3), np.float32),
     "m.lora_B.bias": np.ones(16, np.float32)},
])  # fmt: skip
def test_matrices_that_make_no_pair_are_refused(tensors: Arrays, tmp_path: Path) -> None:
    folder = _write(tmp_path, {f"base_model.model.{name}": values for name, values in tensors.items()})

    with pytest.raises(UnsupportedAdapter):
        read_adapter_weights(folder)


def test_a_folder_without_its_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedAdapter, match=r"adapter_config\.json"):
        read_adapter_weights(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UnsupportedAdapter, match=r"adapter_model\.safetensors"):
        read_adapter_weights(tmp_path)


@pytest.mark.parametrize(("module", "shape"), [
    ("model.layers.9.self_attn.q_proj", (16, 16)),  # no such layer
    ("model.layers.0.self_attn.x_proj", (16, 16)),
    ("model.layers.0.self_attn.q_proj", (16, 20)),
    ("model.layers.0.self_attn.q_proj", (12, 16)),
])  # fmt: skip
def test_an_adapter_of_another_model_is_refused_before_anything_changes(
    module: str, shape: tuple[int, int], tmp_path: Path
) -> None:
    base = tiny_checkpoint()
    folder = _peft(tmp_path, {_MODULES[1]: _pair((8, 16)), module: _pair(shape)})
    model = load_model(base)
    before = _logits(model)

    for apply in (merge, SideAdapter):
        with pytest.raises(AdapterMismatch):
            apply(model, _bound(folder, base))
    np.testing.assert_array_equal(_logits(model), before)


def test_a_tied_head_is_not_changed_unasked(tmp_path: Path) -> None:
    base = tiny_checkpoint(tie_word_embeddings=True)

    with pytest.raises(AdapterMismatch, match="shares with its head"):
        _bound(_peft(tmp_path, {"model.embed_tokens": _pair((24, 16))}), base)


def test_an_adapter_of_a_mixtures_experts_is_refused(tmp_path: Path) -> None:
    base = hf_models.checkpoint_of(hf_models.oracle("mixtral"))
    name = next(name for name in base.names if "experts.0" in name).removesuffix(".weight")

    with pytest.raises(UnsupportedAdapter, match="experts"):
        _bound(_peft(tmp_path, {name: _pair(base.tensors[f"{name}.weight"].shape)}), base)
