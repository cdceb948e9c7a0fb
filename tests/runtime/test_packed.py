"""Packed checkpoints against slow loops that follow each format's description number by number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from runtime import packed_layouts
from runtime.checkpoint import Checkpoint, open_checkpoint
from runtime.model_errors import DamagedModel, UnsupportedModel

INPUTS, OUTPUTS, GROUP = 64, 24, 16
_AWQ_PLACES = [0, 2, 4, 6, 1, 3, 5, 7]  # the output that the i-th four bits of a word belong to
Numbers = np.ndarray


def _open(folder: Path, tensors: Mapping[str, torch.Tensor], quantization: Mapping[str, Any] | None) -> Checkpoint:
    folder.mkdir(exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    config = {"model_type": "llama"} | ({"quantization_config": dict(quantization)} if quantization else {})
    (folder / "config.json").write_text(json.dumps(config))
    return open_checkpoint(folder)


def _words(values: list[list[int]]) -> torch.Tensor:
    """Returns 32-bit words as safetensors holds them, signed."""
    return torch.from_numpy(np.array(values, np.uint32).view(np.int32))


def _codes(shape: tuple[int, int], bits: int, seed: int = 0) -> Numbers:
    return np.random.default_rng(seed).integers(0, 1 << bits, shape)


def _scales(shape: tuple[int, int]) -> Numbers:
    return np.random.default_rng(5).uniform(0.01, 0.1, shape).astype(np.float16)


def _check(checkpoint: Checkpoint, expected: Numbers, *, tolerance: float = 1e-6) -> None:
    name = "layer.weight"
    assert sorted(checkpoint.names) == [name, "norm.weight"]
    assert checkpoint.info(name).shape == expected.shape
    np.testing.assert_allclose(checkpoint.read(name), expected, rtol=tolerance, atol=1e-7)
    for start, stop in [(0, 1), (3, 11), (7, 8), (len(expected) - 5, len(expected)), (4, 4)]:
        np.testing.assert_allclose(checkpoint.rows(name, start, stop), expected[start:stop], rtol=tolerance, atol=1e-7)
    with pytest.raises(ValueError, match="joined"):
        checkpoint.raw(name)
    with pytest.raises(ValueError, match="rows"):
        checkpoint.rows(name, 0, len(expected) + 1)
    checkpoint.release(name)


_NORM = {"norm.weight": torch.ones(4)}


# --- GPTQ -------------------------------------------------------------------------------------------------------


def _gptq(codes: Numbers, zeros: Numbers, *, bits: int, zero_offset: int) -> dict[str, torch.Tensor]:
    """Packs codes (I, O) and zero points (G, O), stored less `zero_offset`."""
    per_word = 32 // bits
    words = [[0] * codes.shape[1] for _n in range(len(codes) // per_word)]
    for i, j in np.ndindex(codes.shape):
        words[i // per_word][j] |= int(codes[i, j]) << (bits * (i % per_word))
    zero_words = [[0] * (zeros.shape[1] // per_word) for _n in range(len(zeros))]
    for g, j in np.ndindex(zeros.shape):
        zero_words[g][j // per_word] |= int(zeros[g, j] - zero_offset) << (bits * (j % per_word))
    return {"layer.qweight": _words(words), "layer.qzeros": _words(zero_words), **_NORM}


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("version", "offset"), [("gptq", 1), ("gptq_v2", 0)])
@pytest.mark.parametrize("order", ["ordered", "by activation", "none"])
def test_gptq(bits: int, version: str, offset: int, order: str, tmp_path: Path) -> None:
    codes, scales = _codes((INPUTS, OUTPUTS + 8), bits), _scales((INPUTS // GROUP, OUTPUTS + 8))
    zeros = np.random.default_rng(3).integers(offset, 1 << bits, scales.shape)
    group = np.arange(INPUTS) // GROUP
    if order == "by activation":
        group = np.random.default_rng(4).permutation(group)
    tensors = _gptq(codes, zeros, bits=bits, zero_offset=offset) | {"layer.scales": torch.from_numpy(scales)}
    if order != "none":
        tensors["layer.g_idx"] = torch.from_numpy(group.astype(np.int32))
    quantization = {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "checkpoint_format": version}

    expected = np.zeros((OUTPUTS + 8, INPUTS), np.float32)
    for i, j in np.ndindex(codes.shape):
        expected[j, i] = float(scales[group[i], j]) * (int(codes[i, j]) - int(zeros[group[i], j]))

    with _open(tmp_path, tensors, quantization) as checkpoint:
        _check(checkpoint, expected)


def test_gptq_symmetric_weights_have_the_middle_as_zero(tmp_path: Path) -> None:
    codes, scales = _codes((INPUTS, OUTPUTS), 4), _scales((1, OUTPUTS))
    tensors = _gptq(codes, np.full((1, OUTPUTS), 8), bits=4, zero_offset=1)
    tensors |= {"layer.scales": torch.from_numpy(scales), "layer.bias": torch.ones(OUTPUTS)}

    with _open(tmp_path, tensors, {"quant_method": "gptq", "bits": 4, "group_size": -1, "sym": True}) as checkpoint:
        np.testing.assert_allclose(checkpoint.read("layer.weight"), ((codes - 8) * scales.astype(np.float32)).T)
        assert checkpoint.read("layer.bias").tolist() == [1] * OUTPUTS


@pytest.mark.parametrize("bits", [2, 8])
def test_gptq_matrices_may_have_bits_of_their_own(bits: int, tmp_path: Path) -> None:
    codes, scales = _codes((INPUTS, OUTPUTS + 8), bits), _scales((1, OUTPUTS + 8))
    middle = 1 << (bits - 1)
    tensors = _gptq(codes, np.full((1, OUTPUTS + 8), middle), bits=bits, zero_offset=1)
    said = {"quant_method": "gptq", "bits": 4, "group_size": -1, "dynamic": {"+:layer": {"bits": bits}}}

    with _open(tmp_path, tensors | {"layer.scales": torch.from_numpy(scales)}, said) as checkpoint:
        _check(checkpoint, ((codes - middle) * scales.astype(np.float32)).T)


def test_gptq_settings_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    tensors = _gptq(_codes((INPUTS, OUTPUTS), 4), np.full((4, OUTPUTS), 8), bits=4, zero_offset=1)
    (tmp_path / "quantize_config.json").write_text(json.dumps({"bits": 4, "group_size": GROUP}))

    with _open(tmp_path, tensors | {"layer.scales": torch.ones(4, OUTPUTS)}, None) as checkpoint:
        assert "layer.weight" in checkpoint.names


def test_a_large_matrix_is_unpacked_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = _codes((INPUTS, OUTPUTS), 4)
    tensors = _gptq(codes, np.full((1, OUTPUTS), 8), bits=4, zero_offset=1) | {"layer.scales": torch.ones(1, OUTPUTS)}
    monkeypatch.setattr(packed_layouts, "_STEP", INPUTS * 8)

    with _open(tmp_path, tensors, {"quant_method": "gptq", "bits": 4, "group_size": -1}) as checkpoint:
        _check(checkpoint, (codes - 8).T.astype(np.float32))


# --- AWQ --------------------------------------------------------------------------------------------------------


def _awq_words(codes: Numbers) -> torch.Tensor:
    words = [[0] * (codes.shape[1] // 8) for _n in range(len(codes))]
    for row, word in np.ndindex(len(codes), codes.shape[1] // 8):
        for place, output in enumerate(_AWQ_PLACES):
            words[row][word] |= int(codes[row, 8 * word + output]) << (4 * place)
    return _words(words)


def test_awq(tmp_path: Path) -> None:
    codes, zeros = _codes((INPUTS, OUTPUTS), 4), _codes((INPUTS // GROUP, OUTPUTS), 4, seed=1)
    scales = _scales(zeros.shape)
    tensors = {"layer.qweight": _awq_words(codes), "layer.qzeros": _awq_words(zeros),
               "layer.scales": torch.from_numpy(scales), **_NORM}  # fmt: skip

    expected = np.zeros((OUTPUTS, INPUTS), np.float32)
    for i, j in np.ndindex(codes.shape):
        expected[j, i] = (int(codes[i, j]) - int(zeros[i // GROUP, j])) * float(scales[i // GROUP, j])

    with _open(tmp_path, tensors, {"quant_method": "awq", "bits": 4, "group_size": GROUP}) as checkpoint:
        _check(checkpoint, expected)


# --- f8 and int8 with scales ------------------------------------------------------------------------------------


def _f8(dtype: torch.dtype, shape: tuple[int, int] = (OUTPUTS, INPUTS)) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (OUTPUTS,), (OUTPUTS, 1)])
def test_f8_with_a_scale_for_all_or_for_each_row(dtype: torch.dtype, shape: tuple[int, ...], tmp_path: Path) -> None:
    weight, scale = _f8(dtype), torch.rand(shape) + 0.5
    tensors = {"layer.weight": weight, "layer.weight_scale": scale, "layer.input_scale": torch.ones(1), **_NORM}

    expected = weight.float().numpy().copy()
    for row in range(OUTPUTS):
        expected[row] *= float(scale.reshape(-1)[row if scale.numel() > 1 else 0])

    with _open(tmp_path, tensors, {"quant_method": "fp8"}) as checkpoint:
        _check(checkpoint, expected)
        assert checkpoint.notes == ()


def test_f8_with_the_scales_of_another_program(tmp_path: Path) -> None:
    weight = _f8(torch.float8_e4m3fn)
    tensors = {"layer.weight": weight, "layer.weight_scale": torch.tensor(0.25), "layer.input_scale": torch.tensor(2.0)}

    with _open(tmp_path, tensors | _NORM, {"quant_method": "modelopt", "quant_algo": "FP8"}) as checkpoint:
        _check(checkpoint, weight.float().numpy() * 0.25)


def test_f8_where_nothing_has_a_scale_is_taken_as_it_is_and_told(tmp_path: Path) -> None:
    weight = _f8(torch.float8_e4m3fn)
    with _open(tmp_path, {"layer.weight": weight, **_NORM}, {}) as checkpoint:
        np.testing.assert_array_equal(checkpoint.read("layer.weight"), weight.float().numpy())
        assert "without scales" in " ".join(checkpoint.notes)


@pytest.mark.parametrize("block", [(8, 16), (10, 24), (128, 128)])
def test_f8_with_a_scale_for_each_block(block: tuple[int, int], tmp_path: Path) -> None:
    weight, (rows, columns) = _f8(torch.float8_e4m3fn), block
    scale = torch.rand(-(-OUTPUTS // rows), -(-INPUTS // columns)) + 0.5
    quantization = {"quant_method": "fp8", "weight_block_size": list(block)}

    expected = weight.float().numpy().copy()
    for i, j in np.ndindex(expected.shape):
        expected[i, j] *= float(scale[i // rows, j // columns])

    tensors = {"layer.weight": weight, "layer.weight_scale_inv": scale, **_NORM}
    with _open(tmp_path, tensors, quantization) as checkpoint:
        _check(checkpoint, expected)


def test_scales_that_are_powers_of_two_in_one_byte(tmp_path: Path) -> None:
    scale = torch.tensor([[2.0], [0.5]]).to(torch.float8_e8m0fnu)
    tensors = {"layer.weight": torch.ones(8, 8).to(torch.float8_e4m3fn), "layer.weight_scale_inv": scale, **_NORM}

    with _open(tmp_path, tensors, {"quant_method": "fp8", "weight_block_size": [4, 8]}) as checkpoint:
        assert checkpoint.read("layer.weight")[:, 0].tolist() == [2] * 4 + [0.5] * 4


def test_int8_with_scales(tmp_path: Path) -> None:
    weight, scale = torch.arange(-12, 12, dtype=torch.int8).repeat(2, 1).T, torch.rand(24, 1)
    tensors = {"layer.weight": weight, "layer.weight_scale": scale, **_NORM}

    with _open(tmp_path, tensors, {"quant_method": "compressed-tensors", "format": "int-quantized"}) as checkpoint:
        _check(checkpoint, weight.numpy() * scale.numpy())


def test_f8_without_any_scale_is_a_plain_type_where_no_config_speaks_of_packing(tmp_path: Path) -> None:
    with _open(tmp_path, {"layer.weight": _f8(torch.float8_e5m2), **_NORM}, None) as checkpoint:
        assert checkpoint.info("layer.weight").dtype == "f8_e5m2"
        np.testing.assert_array_equal(checkpoint.read("layer.weight"), _f8(torch.float8_e5m2).float().numpy())


@pytest.mark.parametrize("quantization", [None, {"quant_method": "fp8"}])
def test_an_f8_weight_that_lost_its_scale_is_refused(quantization: dict[str, Any] | None, tmp_path: Path) -> None:
    tensors = {"a.weight": _f8(torch.float8_e4m3fn), "b.weight": _f8(torch.float8_e4m3fn).clone(),
               "b.weight_scale": torch.ones(1)}  # fmt: skip

    with pytest.raises(DamagedModel, match=r"“a\.weight”.*no scale"):
        _open(tmp_path, tensors, quantization)


# --- compressed-tensors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("inputs", [INPUTS, INPUTS - 4])
def test_compressed_tensors_packed_numbers(has_zeros: bool, inputs: int, tmp_path: Path) -> None:
    groups = 4
    signed = _codes((OUTPUTS, inputs), 4) - 8
    zeros = _codes((OUTPUTS, groups), 4, seed=2) - 8 if has_zeros else np.zeros((OUTPUTS, groups), int)
    scales = _scales((OUTPUTS, groups))
    words = [[0] * (INPUTS // 8) for _n in range(OUTPUTS)]
    for i, j in np.ndindex(signed.shape):
        words[i][j // 8] |= int(signed[i, j] + 8) << (4 * (j % 8))
    tensors = {"layer.weight_packed": _words(words), "layer.weight_scale": torch.from_numpy(scales),
               "layer.weight_shape": torch.tensor([OUTPUTS, inputs]), **_NORM}  # fmt: skip
    if has_zeros:
        zero_words = [[0] * groups for _n in range(OUTPUTS // 8)]
        for i, g in np.ndindex(zeros.shape):
            zero_words[i // 8][g] |= int(zeros[i, g] + 8) << (4 * (i % 8))
        tensors["layer.weight_zero_point"] = _words(zero_words)

    expected = np.zeros(signed.shape, np.float32)
    for i, j in np.ndindex(signed.shape):
        g = j // (inputs // groups)
        expected[i, j] = (int(signed[i, j]) - int(zeros[i, g])) * float(scales[i, g])

    config = {"quant_method": "compressed-tensors", "format": "pack-quantized",
              "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": inputs // groups}}}}  # fmt: skip
    with _open(tmp_path, tensors, config) as checkpoint:
        _check(checkpoint, expected)


_WORDS = torch.zeros(8, 4, dtype=torch.int32)

# --- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("quantization", "words"), [
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes"),
    ({"quant_method": "mxfp4"}, "mxfp4"),
    ({"quant_method": "gptq", "bits": 3}, "3 bits"),
    ({"quant_method": "gptq", "bits": "four"}, "four bits"),
    ({"quant_method": "awq", "bits": 8}, "8 bits"),
    ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "“marlin”"),
    ({"quant_method": "gptq", "bits": 4, "is_marlin_format": True}, "“marlin”"),
    ({"quant_method": "gptq", "bits": 4, "pack_dtype": "int16"}, "“int16”"),
    ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "gemv"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "“NVFP4”"),
    ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}, "“nvfp4-pack-quantized”"),
    ({"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": {
        "group_0": {"format": "float-quantized"}, "group_1": {"format": "mxfp4-pack-quantized"}}}, "mxfp4"),
    ({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-bitmask"}}, "sparse-bitmask"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused_in_words(quantization: dict[str, Any], words: str, tmp_path: Path) -> None:
    tensors = _gptq(_codes((INPUTS, OUTPUTS), 4), np.full((4, OUTPUTS), 8), bits=4, zero_offset=1)

    with pytest.raises(UnsupportedModel, match=words):
        _open(tmp_path, tensors | {"layer.scales": torch.ones(4, OUTPUTS)}, quantization)


@pytest.mark.parametrize(("method", "change"), [
    ("gptq", {"layer.scales": torch.ones(4, OUTPUTS - 8)}),
    ("gptq", {"layer.scales": torch.ones(3, OUTPUTS)}),
    ("gptq", {"layer.qzeros": torch.zeros(4, OUTPUTS // 8, dtype=torch.int64)}),
    ("gptq", {"layer.qzeros": torch.zeros(4, 1, dtype=torch.int32)}),
    ("gptq", {"layer.qweight": torch.zeros(8, dtype=torch.int32)}),
    ("gptq", {"layer.g_idx": torch.full((INPUTS,), 4, dtype=torch.int32)}),
    ("gptq", {"layer.g_idx": torch.full((INPUTS,), -1, dtype=torch.int32)}),
    ("gptq", {"layer.g_idx": torch.zeros(3, dtype=torch.int32)}),
    ("awq", {}),  # GPTQ's shapes
    ("fp8", {"x.weight": _f8(torch.float8_e4m3fn), "x.weight_scale": torch.ones(3, 3)}),
    ("compressed-tensors", {"x.weight_packed": _WORDS, "x.weight_scale": torch.ones(7, 1)}),
    ("compressed-tensors", {"x.weight_packed": _WORDS, "x.weight_scale": torch.ones(8, 1),
                            "x.weight_shape": torch.tensor([8, 1 << 40])}),
])  # fmt: skip
def test_tensors_that_do_not_fit_together_are_refused(
    method: str, change: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    tensors = _gptq(_codes((INPUTS, OUTPUTS), 4), np.full((4, OUTPUTS), 8), bits=4, zero_offset=1)
    tensors |= {"layer.scales": torch.ones(4, OUTPUTS), **change}

    with pytest.raises(DamagedModel, match="do not fit together"):
        _open(tmp_path, tensors, {"quant_method": method, "bits": 4, "group_size": GROUP})


def test_a_missing_part_is_refused(tmp_path: Path) -> None:
    tensors = _gptq(_codes((INPUTS, OUTPUTS), 4), np.full((4, OUTPUTS), 8), bits=4, zero_offset=1)

    with pytest.raises(DamagedModel, match="layer"):
        _open(tmp_path, tensors, {"quant_method": "gptq", "bits": 4, "group_size": GROUP})
