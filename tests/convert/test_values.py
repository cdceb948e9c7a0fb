"""Weights that are no numbers, or too large for their type, are found and named; whatever is finite stays as it is."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import tiny_gguf
from broken_checkpoints import write_sound
from convert.options import ConvertOptions
from convert.pipeline import convert
from convert.preflight import Planned
from convert.values import CheckProgress, NotNumbers, ValuesChecked, WrongNumbers, WrongValues, require_stored_numbers
from runtime import ggml
from runtime.checkpoint import open_checkpoint
from runtime.engine import StopFlag

TENSOR = "blk.1.ffn_up.weight"


def source_with(value: float, path: Path, type: str = "F32") -> Path:
    change = np.zeros((512, 256), np.float32)
    change[3, 4] = value
    with np.errstate(over="ignore"):
        return tiny_gguf.write_tiny(path, changes={TENSOR: change}, type=type)


def run(source: Path, target: Path, recipe: str, **more: object) -> list[object]:
    options = ConvertOptions(source=source, target=target, recipe=recipe, threads=1, agreed=True, **more)  # type: ignore[arg-type]
    return list(convert(options, StopFlag()))


@pytest.mark.parametrize(
    ("stored", "value", "recipe"),
    [("F32", math.nan, "F32"), ("F16", -math.inf, "F16"), ("BF16", math.inf, "BF16"), ("BF16", math.nan, "F16"),
     ("F16", math.nan, "BF16"), ("F32", math.inf, "Q8_0"), ("F32", -math.inf, "F32"), ("F16", math.nan, "Q4_K_M")],
)  # fmt: skip
def test_what_is_no_number_is_never_written(tmp_path: Path, stored: str, value: float, recipe: str) -> None:
    source = source_with(value, tmp_path / "odd.gguf", stored)
    with pytest.raises(NotNumbers, match="ffn_up"):
        run(source, tmp_path / "out.gguf", recipe)
    assert [path.name for path in tmp_path.iterdir()] == ["odd.gguf"]


@pytest.mark.parametrize(("value", "recipe"), [(70000.0, "F16"), (-1e6, "Q4_0"), (1e6, "Q4_K_M"), (3.4e38, "BF16")])
def test_what_is_too_large_for_the_type_is_refused_with_its_limit(tmp_path: Path, value: float, recipe: str) -> None:
    source = source_with(value, tmp_path / "odd.gguf")
    with pytest.raises(WrongNumbers, match="ffn_up") as refused:
        run(source, tmp_path / "out.gguf", recipe)
    assert "end at" in refused.value.info.message
    assert [path.name for path in tmp_path.iterdir()] == ["odd.gguf"]
    run(source, tmp_path / "out.gguf", "F32")


def test_packed_blocks_that_are_taken_over_are_looked_at_too() -> None:
    packed = ggml.quantize(np.ones((1, 64), np.float32), "Q8_0").reshape(-1)
    require_stored_numbers(packed, "sound", "Q8_0")
    packed[34:36] = np.array([0x7C00], "<u2").view(np.uint8)  # the scale of the second block becomes infinite
    with pytest.raises(NotNumbers, match="odd"):
        require_stored_numbers(packed, "odd", "Q8_0")


@pytest.mark.parametrize(("kind", "least"), [("F16", 0x7C00), ("BF16", 0x7F80)])
def test_every_pattern_is_told_from_a_number_rightly(kind: str, least: int) -> None:
    for code in range(0, 1 << 16, 7):
        raw = np.array([0, code, 0], "<u2").view(np.uint8)
        finite = code & 0x7FFF < least
        if finite:
            require_stored_numbers(raw, "x", kind)
        else:
            with pytest.raises(NotNumbers):
                require_stored_numbers(raw, "x", kind)


def test_a_source_is_looked_at_before_anything_is_written_where_that_is_asked(tmp_path: Path) -> None:
    change = np.zeros((512, 256), np.float32)
    change[3, 4], change[5, 6], change[7, 8] = math.nan, -math.inf, 1e9
    large = np.zeros((512, 256), np.float32)
    large[0, 0] = 1e9
    changes = {TENSOR: change, "blk.0.ffn_gate.weight": large}
    source = tiny_gguf.write_tiny(tmp_path / "odd.gguf", changes=changes)
    with pytest.raises(WrongValues) as refused:
        run(source, tmp_path / "out.gguf", "F16", check_values=True, dry_run=True)
    info = refused.value.info
    assert info.title == "2 tensors cannot be written."
    assert "“blk.1.ffn_up.weight” holds 2 values that are NaN or infinite." in info.message
    assert "“blk.0.ffn_gate.weight” holds 1 value that is too large for F16." in info.message
    assert [path.name for path in tmp_path.iterdir()] == ["odd.gguf"]


def test_a_sound_source_passes_and_a_dry_run_ends_there(tmp_path: Path) -> None:
    source = tiny_gguf.write_tiny(tmp_path / "sound.gguf")
    events = run(source, tmp_path / "out.gguf", "Q8_0", check_values=True, dry_run=True)
    planned, last = events[0], events[-1]
    assert isinstance(planned, Planned)
    assert last == ValuesChecked(values=planned.n_params)
    assert any(isinstance(event, CheckProgress) and event.done < event.total for event in events)
    assert [path.name for path in tmp_path.iterdir()] == ["sound.gguf"]


def test_every_finite_number_of_sixteen_bits_stays_bit_for_bit(tmp_path: Path) -> None:
    folder = write_sound(tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()}
    name = "lm_head.weight"
    codes = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    finite = codes[codes.isfinite()]
    room = tensors[name].numel()
    rows = tensors[name].shape[0]
    for number, start in enumerate(range(0, len(finite), room)):
        piece = finite[start : start + room]
        piece = torch.cat([piece, piece[:1].repeat(room - len(piece))]).reshape(rows, -1)
        save_file({**tensors, name: piece}, folder / "model.safetensors")
        target = tmp_path / f"{number}.gguf"
        run(folder, target, "BF16")
        with open_checkpoint(target) as written:
            stored = written.raw("output.weight").tobytes()
        assert stored == piece.contiguous().view(torch.int16).numpy().tobytes()
