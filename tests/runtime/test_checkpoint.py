"""Folders and GGUF files as one thing: what they give out, what is refused, and how much memory it takes."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

import tiny_gguf
from runtime.checkpoint import Checkpoint, open_checkpoint
from runtime.errors import UserError
from runtime.folder_checkpoint import AdapterNotModel, NoConfig, NoWeights, ShardMissing
from runtime.model_errors import DamagedModel, ModelMissing, ModelUnreadable, UnsupportedModel
from runtime.torch_file import UnsafePickle

Arrays = Mapping[str, np.ndarray]
_CONFIG = {"model_type": "llama", "hidden_size": 8, "tie_word_embeddings": False}


def _arrays(*names: str, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((6, 8), np.float32) for name in names or ("a.weight", "b.weight")}


def _folder(path: Path, files: Mapping[str, Arrays], *, config: Mapping[str, Any] = _CONFIG,
            index: Mapping[str, str] | None = None) -> Path:  # fmt: skip
    """Writes a folder of safetensors files, with an index where there is more than one."""
    path.mkdir(parents=True, exist_ok=True)
    for name, arrays in files.items():
        save_file(dict(arrays), path / name)
    if config:
        (path / "config.json").write_text(json.dumps(config))
    names = {tensor: name for name, arrays in files.items() for tensor in arrays}
    if index is not None or len(files) > 1:
        text = json.dumps({"weight_map": names if index is None else dict(index)})
        (path / "model.safetensors.index.json").write_text(text)
    return path


def _raw(path: Path, header: object, data: bytes = b"", *, length: int | None = None) -> Path:
    """Writes a folder whose one file has this header, which may be bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(_CONFIG))
    packed = struct.pack("<Q", len(text) if length is None else length)
    (path / "model.safetensors").write_bytes(packed + text + data)
    return path


# --- what they give out -----------------------------------------------------------------------------------------


def test_a_folder_gives_out_its_tensors(tmp_path: Path) -> None:
    arrays = _arrays()
    with open_checkpoint(_folder(tmp_path, {"model.safetensors": arrays})) as checkpoint:
        assert (checkpoint.kind, checkpoint.names, checkpoint.notes) == ("folder", ("a.weight", "b.weight"), ())
        assert checkpoint.config["model_type"] == "llama"
        info = checkpoint.info("b.weight")
        assert (info.shape, info.dtype) == ((6, 8), "f32")
        np.testing.assert_array_equal(checkpoint.read("b.weight"), arrays["b.weight"])
        np.testing.assert_array_equal(checkpoint.rows("b.weight", 2, 5), arrays["b.weight"][2:5])
        np.testing.assert_array_equal(checkpoint.raw("b.weight"), arrays["b.weight"].view(np.uint8).reshape(-1))
        assert not checkpoint.raw("b.weight").flags.writeable


@pytest.mark.parametrize("dtype", [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.int64,
    torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
])  # fmt: skip
def test_every_plain_type_becomes_f32_as_torch_converts_it(dtype: torch.dtype, tmp_path: Path) -> None:
    codes = torch.arange(65536, dtype=torch.int32).to(torch.uint16)  # for 16 bits and less, all that there are
    stored = (codes.view(torch.uint8) % 2).bool() if dtype is torch.bool else codes.view(torch.uint8).view(dtype)
    _folder(tmp_path, {})
    save_torch({"x": stored, "bin": stored[:1].clone()}, tmp_path / "model.safetensors")

    with open_checkpoint(tmp_path) as checkpoint, np.errstate(all="ignore"):
        np.testing.assert_array_equal(checkpoint.read("x"), stored.float().numpy())


def test_tensors_without_axes_and_without_numbers_can_be_read(tmp_path: Path) -> None:
    _folder(tmp_path, {"model.safetensors": {"one": np.array(3, np.float32), "none": np.zeros((0, 4), np.float32)}})

    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.read("one") == 3
        assert checkpoint.read("none").shape == checkpoint.rows("none", 0, 0).shape == (0, 4)


def test_rows_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with open_checkpoint(_folder(tmp_path, {"model.safetensors": _arrays()})) as checkpoint:
        for start, stop in [(0, 7), (-1, 2), (4, 3)]:
            with pytest.raises(ValueError, match="rows"):
                checkpoint.rows("a.weight", start, stop)
        with pytest.raises(KeyError):
            checkpoint.read("c.weight")


def test_numbers_at_an_odd_address_are_copied_to_an_even_one(tmp_path: Path) -> None:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [1, 9]}
    header = {"odd": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "x": entry}
    _raw(tmp_path, header, b"\1" + struct.pack("<2f", 1.5, -2))

    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.raw("x").ctypes.data % 4 == 0
        assert checkpoint.read("x").tolist() == [1.5, -2]


def test_an_array_that_was_given_out_survives_release_and_close(tmp_path: Path) -> None:
    arrays = _arrays()
    checkpoint = open_checkpoint(_folder(tmp_path, {"model.safetensors": arrays}))
    raw = checkpoint.raw("a.weight")

    checkpoint.release("a.weight")
    checkpoint.close()

    np.testing.assert_array_equal(raw.view(np.float32).reshape(6, 8), arrays["a.weight"])
    with pytest.raises(DamagedModel):
        checkpoint.read("a.weight")


# --- several files ----------------------------------------------------------------------------------------------


def test_shards_are_one_set(tmp_path: Path) -> None:
    first, second = _arrays("a", "b"), _arrays("c", seed=1)
    _folder(tmp_path, {"x-1.safetensors": first, "x-2.safetensors": second})

    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.names == ("a", "b", "c")
        np.testing.assert_array_equal(checkpoint.read("c"), second["c"])


def test_links_to_files_elsewhere_are_followed(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    save_file(_arrays(), blobs / "0123")
    folder = _folder(tmp_path / "snapshot", {})
    (folder / "model.safetensors").symlink_to(blobs / "0123")

    with open_checkpoint(folder) as checkpoint:
        assert len(checkpoint.names) == 2


def test_a_missing_shard_is_named_with_the_number_of_its_tensors(tmp_path: Path) -> None:
    _folder(tmp_path, {"x-1.safetensors": _arrays("a"), "x-2.safetensors": _arrays("b", "c")})
    (tmp_path / "x-2.safetensors").unlink()

    with pytest.raises(ShardMissing, match=r"x-2\.safetensors \(2\)"):
        open_checkpoint(tmp_path)


def test_an_empty_shard_is_refused_by_name(tmp_path: Path) -> None:
    _folder(tmp_path, {"x-1.safetensors": _arrays("a"), "x-2.safetensors": _arrays("b")})
    (tmp_path / "x-2.safetensors").write_bytes(b"")

    with pytest.raises(DamagedModel, match=r"x-2\.safetensors[^\n]*\n.*0 bytes"):
        open_checkpoint(tmp_path)


def test_shards_without_an_index_are_found_by_their_numbers(tmp_path: Path) -> None:
    files = {f"model-{n:05}-of-00002.safetensors": _arrays(f"t{n}") for n in (1, 2)}
    _folder(tmp_path, files)
    (tmp_path / "model.safetensors.index.json").unlink()

    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.names == ("t1", "t2")
    (tmp_path / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(ShardMissing, match="model-00001-of-00002"):
        open_checkpoint(tmp_path)


def test_a_tensor_that_only_the_index_has_is_an_error(tmp_path: Path) -> None:
    arrays = _arrays("model.embed_tokens.weight")
    index = {name: "model.safetensors" for name in (*arrays, "lm_head.weight")}
    _folder(tmp_path, {"model.safetensors": arrays}, index=index)

    with pytest.raises(DamagedModel, match=r"lm_head\.weight"):
        open_checkpoint(tmp_path)


def test_a_tied_head_that_only_the_index_has_is_noted(tmp_path: Path) -> None:
    arrays = _arrays("model.embed_tokens.weight")
    index = {name: "model.safetensors" for name in (*arrays, "lm_head.weight")}
    _folder(tmp_path, {"model.safetensors": arrays}, index=index, config={**_CONFIG, "tie_word_embeddings": True})

    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.names == ("model.embed_tokens.weight",)
        assert "lm_head.weight" in checkpoint.notes[0]


def test_the_files_of_the_index_win_over_a_stray_one(tmp_path: Path) -> None:
    _folder(tmp_path, {"x-1.safetensors": _arrays("a"), "x-2.safetensors": _arrays("b")})
    save_file(_arrays("a", seed=9), tmp_path / "model.safetensors")

    with open_checkpoint(tmp_path) as checkpoint:
        np.testing.assert_array_equal(checkpoint.read("a"), _arrays("a")["a"])
        assert "model.safetensors" in checkpoint.notes[0]


def test_the_same_tensor_in_two_files_is_fine_and_two_different_ones_are_not(tmp_path: Path) -> None:
    _folder(tmp_path, {"x-1.safetensors": _arrays("a"), "x-2.safetensors": _arrays("a", "b")})
    index = {"weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))

    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.names == ("a", "b")
    save_file(_arrays("a", "b", seed=5), tmp_path / "x-2.safetensors")
    with pytest.raises(DamagedModel, match=r"x-1\.safetensors and x-2\.safetensors"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("name", [
    "../other/model.safetensors", "/etc/passwd", "C:\\model.safetensors", "..\\model.safetensors", "C:x.safetensors",
    "x\0.safetensors", "./x.safetensors", "a//x.safetensors", "..", "", "config.json", "\\\\host\\x.safetensors",
])  # fmt: skip
def test_an_index_cannot_name_files_outside_its_folder(name: str, tmp_path: Path) -> None:
    _folder(tmp_path / "other", {"model.safetensors": _arrays()})
    folder = _folder(tmp_path / "model", {}, index={"a": name})

    with pytest.raises(DamagedModel, match="no name of a file of weights"):
        open_checkpoint(folder)


def test_an_index_may_name_files_in_a_folder_inside(tmp_path: Path) -> None:
    _folder(tmp_path / "sub", {"x.safetensors": _arrays("a")}, config={})
    _folder(tmp_path, {}, index={"a": "sub/x.safetensors"})

    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.names == ("a",)


@pytest.mark.parametrize("index", [b"{", b"[]", b'{"weight_map": {}}', b'{"weight_map": {"a": 3}}', b"[" * 100_000])
def test_a_broken_index_is_refused(index: bytes, tmp_path: Path) -> None:
    _folder(tmp_path, {"model.safetensors": _arrays()})
    (tmp_path / "model.safetensors.index.json").write_bytes(index)

    with pytest.raises(DamagedModel, match=r"index\.json"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "base_model.model."])
def test_names_are_freed_of_what_training_programs_put_before_them(prefix: str, tmp_path: Path) -> None:
    arrays = {f"{prefix}{name}": values for name, values in _arrays().items()}

    with open_checkpoint(_folder(tmp_path, {"model.safetensors": arrays})) as checkpoint:
        assert checkpoint.names == ("a.weight", "b.weight")
        assert prefix in checkpoint.notes[0]
        np.testing.assert_array_equal(checkpoint.read("a.weight"), _arrays()["a.weight"])


# --- headers that lie -------------------------------------------------------------------------------------------

_FLOATS = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(("header", "data", "length"), [
    ({"x": _FLOATS}, b"\0" * 7, None),  # cut off
    ({"x": _FLOATS}, b"\0" * 9, None),  # something behind
    ({"x": _FLOATS, "y": _FLOATS}, b"\0" * 8, None),  # the same bytes twice
    ({"x": _FLOATS, "y": {**_FLOATS, "data_offsets": [4, 12]}}, b"\0" * 12, None),  # overlap
    ({"x": _FLOATS, "y": {**_FLOATS, "data_offsets": [12, 20]}}, b"\0" * 20, None),  # a hole
    ({"x": _FLOATS, "y": {**_FLOATS, "data_offsets": [4, 12]}, "z": {**_FLOATS, "data_offsets": [12, 20]}},
     b"\0" * 24, None),  # an overlap that a rest at the end makes up for
    ({"x": {**_FLOATS, "data_offsets": [0, 4]}}, b"\0" * 4, None),  # too few for the shape
    ({"x": {**_FLOATS, "data_offsets": [8, 0]}}, b"\0" * 8, None),
    ({"x": {**_FLOATS, "data_offsets": [-8, 0]}}, b"\0" * 8, None),
    ({"x": {**_FLOATS, "data_offsets": [0, 1 << 70], "shape": [1 << 68]}}, b"", None),
    ({"x": {**_FLOATS, "shape": [-2]}}, b"\0" * 8, None),
    ({"x": {**_FLOATS, "shape": [1 << 40, 1 << 40]}}, b"\0" * 8, None),
    ({"x": {**_FLOATS, "shape": ["2"]}}, b"\0" * 8, None),
    ({"x": {**_FLOATS, "shape": [2.0]}}, b"\0" * 8, None),
    ({"x": {**_FLOATS, "shape": [True, 2]}}, b"\0" * 8, None),
    ({"x": {"dtype": "F32", "shape": [2]}}, b"\0" * 8, None),
    ({"x": [1]}, b"", None),
    (b'{"x": ' + json.dumps(_FLOATS).encode() + b', "x": ' + json.dumps(_FLOATS).encode() + b"}", b"\0" * 8, None),
    (b"[]", b"", None),
    (b"{", b"", None),
    (b'{"a":' + b"[" * 100_000, b"", None),
    (b"\xff\xfe", b"", None),
    (b"{}", b"", 1 << 62),
    (b"{}", b"", 0),
    (b"{}", b"", 3),
])  # fmt: skip
def test_a_header_that_cannot_be_true_is_refused_in_words(
    header: object, data: bytes, length: int | None, tmp_path: Path
) -> None:
    _raw(tmp_path, header, data, length=length)

    with pytest.raises(DamagedModel, match=r"model\.safetensors"):
        open_checkpoint(tmp_path)


def test_a_huge_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    _raw(tmp_path, b"{}", length=1 << 30)
    os.truncate(tmp_path / "model.safetensors", (1 << 30) + 64)  # a sparse file

    with pytest.raises(DamagedModel, match="more than any model"):
        open_checkpoint(tmp_path)


def test_a_type_that_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    _raw(tmp_path, {"x": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}, b"\0" * 8)

    with pytest.raises(UnsupportedModel, match="“x” holds numbers of type C64"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize(("data", "words"), [
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 134\n", "Git LFS"),
    (b"<!DOCTYPE html><html>", "web page"),
    (b"\0" * 64, "zeros"),
    (b"", "0 bytes"),
    (pickle.dumps({"x": [1, 2, 3]}), "pickle"),
    (b"GGUF\3\0\0\0", "header"),
])  # fmt: skip
def test_a_file_that_is_something_else_is_called_by_its_name(data: bytes, words: str, tmp_path: Path) -> None:
    _raw(tmp_path, {})
    (tmp_path / "model.safetensors").write_bytes(data)

    with pytest.raises(DamagedModel, match=words):
        open_checkpoint(tmp_path)


def test_a_file_that_shrinks_while_it_is_open_is_an_error_and_no_bus_error(tmp_path: Path) -> None:
    _folder(tmp_path, {"model.safetensors": {"x": np.zeros((1 << 20,), np.float32)}})
    with open_checkpoint(tmp_path) as checkpoint:
        os.truncate(tmp_path / "model.safetensors", 4096)

        with pytest.raises(DamagedModel, match="shorter"):
            checkpoint.read("x")


def test_folders_without_weights_say_what_they_lack(tmp_path: Path) -> None:
    with pytest.raises(NoWeights):
        open_checkpoint(tmp_path)
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "someone/model"}')
    with pytest.raises(AdapterNotModel, match="someone/model"):
        open_checkpoint(tmp_path)
    save_file(_arrays(), tmp_path / "model.safetensors")
    with pytest.raises(NoConfig):
        open_checkpoint(tmp_path)
    with pytest.raises(ModelMissing):
        open_checkpoint(tmp_path / "nothing")


def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    _folder(tmp_path, {})
    os.mkfifo(tmp_path / "model.safetensors")

    with pytest.raises(ModelUnreadable):
        open_checkpoint(tmp_path)


# --- .bin -------------------------------------------------------------------------------------------------------


def _bin(path: Path, tensors: object, **options: Any) -> Path:
    _folder(path, {})
    torch.save(tensors, path / "pytorch_model.bin", **options)
    return path


@pytest.mark.parametrize("zipped", [True, False])
def test_a_torch_file_gives_out_its_tensors(zipped: bool, tmp_path: Path) -> None:
    tensors = {"a": torch.randn(3, 4), "b": torch.randn(4, 3).T.bfloat16(), "c": torch.tensor([True, False])}
    _bin(tmp_path, tensors, _use_new_zipfile_serialization=zipped)

    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.names == ("a", "b", "c")
        assert checkpoint.info("b").dtype == "bf16"
        for name, tensor in tensors.items():
            np.testing.assert_array_equal(checkpoint.read(name), tensor.float().numpy())
        np.testing.assert_array_equal(checkpoint.rows("b", 1, 3), tensors["b"].float().numpy()[1:3])
        assert not checkpoint.raw("a").flags.writeable


def test_a_training_programs_wrapper_is_opened(tmp_path: Path) -> None:
    _bin(tmp_path, {"state_dict": {"a": torch.ones(2)}, "epoch": 3})

    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.read("a").tolist() == [1, 1]


class _Marker:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (os.system, (f"touch {self.path}",))


@pytest.mark.parametrize("zipped", [True, False])
def test_a_hostile_pickle_is_refused_and_runs_nothing(zipped: bool, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    _bin(tmp_path / "model", {"a": _Marker(marker)}, _use_new_zipfile_serialization=zipped)

    with pytest.raises(UnsafePickle, match="safetensors"):
        open_checkpoint(tmp_path / "model")
    assert not marker.exists()


def test_safetensors_are_preferred_to_a_hostile_pickle_beside_them(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    folder = _bin(tmp_path / "model", {"a": _Marker(marker)})
    save_file(_arrays(), folder / "model.safetensors")

    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.names == ("a.weight", "b.weight")
    assert not marker.exists()


@pytest.mark.parametrize("data", [
    b"", b"PK\3\4", b"\x80\2.", b"nonsense", pickle.dumps([1, 2]), pickle.dumps({"a": 1}),
])  # fmt: skip
def test_a_torch_file_that_is_none_is_refused_in_words(data: bytes, tmp_path: Path) -> None:
    _folder(tmp_path, {})
    (tmp_path / "pytorch_model.bin").write_bytes(data)

    with pytest.raises(UserError, match=r"pytorch_model\.bin"):
        open_checkpoint(tmp_path)


def test_a_torch_file_cannot_claim_more_than_it_holds(tmp_path: Path) -> None:
    _bin(tmp_path, {"a": torch.zeros(1).expand(1 << 20, 1 << 20)})
    with pytest.raises(DamagedModel, match="more numbers than"):
        open_checkpoint(tmp_path)


@pytest.mark.filterwarnings("ignore:.*quantize_per:UserWarning")
def test_what_lies_otherwise_in_a_torch_file_is_no_weight(tmp_path: Path) -> None:
    matrix = torch.eye(3)
    quantized = torch.quantize_per_tensor(matrix, 0.01, 0, torch.qint8)
    _bin(tmp_path, {"a": matrix, "b": matrix.to("meta"), "c": matrix.to_sparse(), "d": quantized})
    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.names == ("a",)


# --- configs ----------------------------------------------------------------------------------------------------


def test_code_that_configs_name_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    auto = {"auto_map": {"AutoModel": "modeling_x.Model"}, "_attn_implementation": "someone/kernels"}
    _folder(tmp_path, {"model.safetensors": _arrays()}, config={**_CONFIG, **auto})
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2], **auto}))
    (tmp_path / "modeling_x.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)

    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.generation_config["eos_token_id"] == [1, 2]
        assert "modeling_x" not in sys.modules


def test_a_config_may_hold_infinity(tmp_path: Path) -> None:
    _folder(tmp_path, {"model.safetensors": _arrays()})
    (tmp_path / "config.json").write_text('{"model_type": "mamba", "time_step_limit": [0.0, Infinity]}')

    with open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.config["time_step_limit"] == [0, float("inf")]


def test_a_broken_config_is_refused_with_the_line(tmp_path: Path) -> None:
    _folder(tmp_path, {"model.safetensors": _arrays()})
    (tmp_path / "config.json").write_text('{"a": 1,\n "b": }')

    with pytest.raises(DamagedModel, match="line 2"):
        open_checkpoint(tmp_path)


# --- GGUF -------------------------------------------------------------------------------------------------------


def _expected(path: Path) -> dict[str, np.ndarray]:
    tensors = gguf.GGUFReader(path).tensors
    return {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in tensors}


@pytest.mark.parametrize("type", ["F32", "F16", "BF16", "Q8_0", "Q4_0"])
def test_a_gguf_file_gives_out_its_tensors_row_major(type: str, tmp_path: Path) -> None:
    path = tiny_gguf.write_tiny(tmp_path / "x.gguf", type=type)

    with open_checkpoint(path) as checkpoint:
        expected = _expected(path)
        assert checkpoint.kind == "gguf"
        assert checkpoint.metadata["general.architecture"] == "llama"
        assert checkpoint.info("blk.0.ffn_down.weight").shape == (256, 512)
        assert checkpoint.info("blk.0.ffn_down.weight").dtype == type.lower()
        assert sorted(checkpoint.names) == sorted(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(checkpoint.read(name), values)
            np.testing.assert_array_equal(checkpoint.rows(name, 3, 9), values[3:9])


def test_any_part_of_a_split_gguf_opens_the_set(tmp_path: Path) -> None:
    whole = tiny_gguf.write_tiny(tmp_path / "x.gguf", type="Q8_0")
    first = tiny_gguf.write_tiny(tmp_path / "y.gguf", type="Q8_0", tensors_per_file=6)
    last = sorted(tmp_path.glob("y-*.gguf"))[-1]

    with open_checkpoint(last) as checkpoint:
        assert checkpoint.path == first
        for name, values in _expected(whole).items():
            np.testing.assert_array_equal(checkpoint.read(name), values)
            checkpoint.release(name)


# --- memory -----------------------------------------------------------------------------------------------------

_PEAK = """
import resource, sys
from pathlib import Path
from runtime.checkpoint import open_checkpoint

def anonymous() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))

checkpoint = open_checkpoint(Path(sys.argv[1]), threads=1)
before = anonymous()
for name in checkpoint.names:
    for start in range(0, checkpoint.info(name).shape[0], 256):
        checkpoint.rows(name, start, start + 256)
    checkpoint.release(name)
print(anonymous() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize("kind", ["folder", "gguf"])
def test_reading_by_rows_and_releasing_takes_the_memory_of_one_tensor(kind: str, tmp_path: Path) -> None:
    tensors = {f"t{n}": np.zeros((4096, 2048), np.float16) for n in range(12)}  # 16 MiB each
    path = _folder(tmp_path, {"model.safetensors": tensors}) if kind == "folder" else _gguf(tmp_path / "x", tensors)

    done = subprocess.run([sys.executable, "-c", _PEAK, path], check=True, capture_output=True, text=True)

    assert int(done.stdout) < 40 << 10  # KiB, of 192 MiB


def _gguf(path: Path, tensors: Arrays) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_opening_a_folder_does_not_import_torch(tmp_path: Path) -> None:
    _folder(tmp_path, {"model.safetensors": _arrays()})
    code = (
        "import sys; from pathlib import Path; from runtime.checkpoint import open_checkpoint; "
        "open_checkpoint(Path(sys.argv[1])); sys.exit('torch' in sys.modules or 'llama_cpp' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code, tmp_path], check=False).returncode == 0


def test_a_checkpoint_is_closed_at_the_end_of_its_block(tmp_path: Path) -> None:
    with open_checkpoint(_folder(tmp_path, {"model.safetensors": _arrays()})) as checkpoint:
        assert isinstance(checkpoint, Checkpoint)
    with pytest.raises(DamagedModel):
        checkpoint.raw("a.weight")
