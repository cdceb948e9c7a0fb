"""Folders whose weights are packed (FP8 with scales, GPTQ, AWQ) become files of the weights that they stand for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import hf_models
from convert.options import ConvertOptions
from convert.pipeline import convert
from convert.preflight import Planned
from llama_logits import llama_logits
from runtime.checkpoint import open_checkpoint
from runtime.engine import StopFlag
from runtime.tokenizer import FolderTokenizer
from tiny_tokenizers import write_tokenizer

IDS = [5, 1, 17, 3, 3, 20, 9]
_F8 = torch.float8_e4m3fn
Tensors = dict[str, torch.Tensor]


def fp8(name: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Returns a matrix in 8 bits with a scale for each 16 × 16 block, and what it stands for."""
    rows, columns = (-(-size // 16) for size in weight.shape)
    scales = torch.linspace(0.01, 0.05, rows * columns).reshape(rows, columns)
    spread = scales.repeat_interleave(16, 0).repeat_interleave(16, 1)[: weight.shape[0], : weight.shape[1]]
    packed = (weight / spread).to(_F8)
    return {f"{name}.weight": packed, f"{name}.weight_scale_inv": scales}, packed.float() * spread


def fp8_whole(name: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Returns a matrix in 8 bits with one scale for all of it, and one for activations that nobody here needs."""
    scale = weight.abs().max() / 448
    packed = (weight / scale).to(_F8)
    scales = {f"{name}.weight_scale": scale.reshape(1), f"{name}.input_scale": torch.tensor([0.5])}
    return {f"{name}.weight": packed, **scales}, packed.float() * scale


def awq(name: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Returns a matrix in 4 bits with a scale and a zero for each 16 inputs of an output, and what it stands for."""
    inputs = weight.T.contiguous()  # (inputs, outputs)
    groups = inputs.reshape(-1, 16, inputs.shape[1])
    scales = (groups.amax(1) - groups.amin(1)) / 15
    zeros = (-groups.amin(1) / scales).round().clamp(0, 15).int()
    spread, centre = scales.repeat_interleave(16, 0), zeros.repeat_interleave(16, 0)
    codes = ((inputs / spread).round().int() + centre).clamp(0, 15)
    stored = {f"{name}.qweight": _awq_words(codes), f"{name}.qzeros": _awq_words(zeros), f"{name}.scales": scales}
    return stored, ((codes - centre) * spread).T.contiguous()


def _awq_words(codes: torch.Tensor) -> torch.Tensor:
    """Packs eight outputs in a word, in the order 0, 2, 4, 6, 1, 3, 5, 7."""
    ordered = codes.long().reshape(len(codes), -1, 8)[:, :, [0, 2, 4, 6, 1, 3, 5, 7]]
    return (ordered << (4 * torch.arange(8))).sum(2).to(torch.int32)


def gptq(name: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Returns a matrix in 4 bits, one scale for each 16 inputs of an output, and what it stands for."""
    inputs = weight.T.contiguous()
    scales = inputs.reshape(-1, 16, inputs.shape[1]).abs().amax(1) / 7
    codes = (inputs / scales.repeat_interleave(16, 0)).round().clamp(-8, 7).int() + 8
    words = (codes.reshape(-1, 8, codes.shape[1]) << (4 * torch.arange(8).reshape(1, 8, 1))).sum(1, dtype=torch.int32)
    zeros = torch.full((scales.shape[0], scales.shape[1] // 8), 0x77777777, dtype=torch.int32)
    stored = {f"{name}.qweight": words, f"{name}.qzeros": zeros, f"{name}.scales": scales,
              f"{name}.g_idx": torch.arange(len(inputs), dtype=torch.int32) // 16}  # fmt: skip
    return stored, ((codes - 8) * scales.repeat_interleave(16, 0)).T.contiguous()


def gptq_with_a_bias(name: str, weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """Returns what `gptq` does, beside a bias of zeros as the first program for it wrote them."""
    stored, plain = gptq(name, weight)
    return stored | {f"{name}.bias": torch.zeros(len(weight), dtype=torch.float16)}, plain


METHODS = {
    "fp8": (fp8, {"quant_method": "fp8", "weight_block_size": [16, 16]}),
    "fp8 as a whole": (fp8_whole, {"quant_method": "fp8", "activation_scheme": "static"}),
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": 16, "version": "gemm"}),
    "gptq": (gptq, {"quant_method": "gptq", "bits": 4, "group_size": 16, "sym": True}),
    "gptq, biases of zeros": (gptq_with_a_bias, {"quant_method": "gptq", "bits": 4, "group_size": 16, "sym": True}),
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = write_tokenizer(tmp_path / "model", "byte-level")
    size = FolderTokenizer(folder).size
    hf_models.oracle("llama", vocab_size=size).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("method", METHODS)
def test_packed_weights_become_what_they_stand_for(method: str, model: Path, tmp_path: Path) -> None:
    pack, said = METHODS[method]
    tensors, plain = load_file(model / "model.safetensors"), {}
    packed: Tensors = {}
    for name, weight in tensors.items():
        if "proj" in name:
            stored, plain[name] = pack(name.removesuffix(".weight"), weight)
            packed |= stored
        else:
            packed[name] = plain[name] = weight
    twin = shutil.copytree(model, tmp_path / "twin")
    save_file(plain, twin / "model.safetensors")
    save_file(packed, model / "model.safetensors")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"quantization_config": said}))

    notes = {}
    for folder in (model, twin):
        target = tmp_path / f"{folder.name}.gguf"
        planned, *_more = convert(ConvertOptions(source=folder, target=target, recipe="F32"), StopFlag())
        assert isinstance(planned, Planned)
        notes[folder.name] = planned.notes

    with open_checkpoint(tmp_path / "model.gguf") as ours, open_checkpoint(tmp_path / "twin.gguf") as wanted:
        for name in wanted.names:
            np.testing.assert_allclose(ours.read(name), wanted.read(name), rtol=1e-6, atol=1e-7, err_msg=name)
    np.testing.assert_allclose(
        llama_logits(tmp_path / "model.gguf", IDS), llama_logits(tmp_path / "twin.gguf", IDS), atol=1e-3
    )
    assert np.abs(llama_logits(tmp_path / "twin.gguf", IDS)).max() > 0.1
    assert any(f"packed already ({said['quant_method']})" in note for note in notes["model"])
    assert not any("packed" in note for note in notes["twin"])


def test_a_folder_of_unpacked_weights_says_nowhere_that_they_are_packed(model: Path, tmp_path: Path) -> None:
    """Models that also see may say it of the part for text alone."""
    tensors: Tensors = {}
    for name, weight in load_file(model / "model.safetensors").items():
        tensors |= fp8(name.removesuffix(".weight"), weight)[0] if "proj" in name else {name: weight}
    save_file(tensors, model / "model.safetensors")
    config = json.loads((model / "config.json").read_text())
    said = {"quant_method": "fp8", "weight_block_size": [16, 16]}
    config = {"model_type": "sees", "text_config": config | {"quantization_config": said}}
    (model / "config.json").write_text(json.dumps(config))

    list(convert(ConvertOptions(source=model, target=tmp_path / "plain", recipe="f32"), StopFlag()))

    assert "quantization_config" not in (tmp_path / "plain" / "config.json").read_text()
    with open_checkpoint(model) as packed, open_checkpoint(tmp_path / "plain") as plain:
        assert packed.names == plain.names
        for name in packed.names:
            np.testing.assert_array_equal(plain.read(name), packed.read(name), err_msg=name)
