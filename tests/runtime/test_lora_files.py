"""Adapters that are missing, lie, or belong to another model are refused before native code sees them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import raw_gguf
import tiny_gguf
import tiny_lora
from runtime.errors import UserError
from runtime.gguf_header import GgufHeader, read_header
from runtime.lora_files import AdapterMismatch, AdapterMissing, NotAnAdapter, adapter_bytes, read_adapters

Q = "blk.0.attn_q.weight"
GOOD = (np.ones((4, 256), np.float32), np.ones((256, 4), np.float32))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> GgufHeader:
    return read_header(tiny_gguf.write_tiny(tmp_path_factory.mktemp("base") / "base.gguf"))


def pair(a: np.ndarray, b: np.ndarray, name: str = Q) -> dict[str, np.ndarray]:
    return {f"{name}.lora_a": a, f"{name}.lora_b": b}


def refused(path: Path, model: GgufHeader, error: type[UserError], why: str) -> None:
    with pytest.raises(error) as caught:
        read_adapters((str(path),), model)
    assert why in caught.value.info.message
    assert path.name in caught.value.info.title


def test_a_sound_adapter_is_taken_with_its_size_and_scale(model: GgufHeader, tmp_path: Path) -> None:
    path = tiny_lora.write_lora(tmp_path / "style.gguf").path
    (adapter,) = read_adapters((f"{path}=0.5",), model)
    assert (adapter.path, adapter.scale, adapter.notes) == (path, 0.5, ())
    assert adapter.stamp == (path.stat().st_size, path.stat().st_mtime_ns)
    assert adapter.n_bytes == 4 * 4 * (256 + 256 + 256 + 64 + 512 + 256)


def test_only_readable_adapters_that_act_count_for_memory(model: GgufHeader, tmp_path: Path) -> None:
    path = tiny_lora.write_lora(tmp_path / "style.gguf").path
    (adapter,) = read_adapters((str(path),), model)
    assert adapter_bytes((str(path), f"{path}=0.5")) == 2 * adapter.n_bytes
    assert adapter_bytes((f"{path}=0", str(tmp_path / "none.gguf"))) == 0


def test_a_missing_file_is_named(model: GgufHeader, tmp_path: Path) -> None:
    refused(tmp_path / "gone.gguf", model, AdapterMissing, "Nothing is at")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_text("{}"), ""),
        (lambda path: path.mkdir(), "folder"),
        (lambda path: tiny_gguf.write_tiny(path), "whole model"),
        (lambda path: tiny_lora.write_adapter(path, pair(*GOOD), adapter_type="control_vector"), "control_vector"),
        (lambda path: tiny_lora.write_adapter(path, pair(*GOOD), adapter_type=""), "kind"),
        (lambda path: tiny_lora.write_adapter(path, pair(*GOOD), kind="mmproj"), "mmproj"),
        (lambda path: tiny_lora.write_adapter(path, {}), "no weights"),
        (lambda path: tiny_lora.write_adapter(path, {f"{Q}.lora_a": GOOD[0]}), "only one"),
        (lambda path: tiny_lora.write_adapter(path, {**pair(*GOOD), "extra.weight": GOOD[0]}), "extra.weight"),
        (lambda path: tiny_lora.write_adapter(path, pair(*GOOD, name=f"{Q}.lora_a")), "lora_a"),
        (lambda path: tiny_lora.write_adapter(path, pair(*(part.astype(np.int32) for part in GOOD))), "I32"),
        (lambda path: tiny_lora.write_adapter(path, pair(*GOOD), metadata={"adapter.lora.alpha": 8}), "32-bit"),
        (lambda path: tiny_lora.write_adapter(
            path, pair(*GOOD), metadata={"adapter.lora.alpha": float("nan")}), "no number"),
        (lambda path: tiny_lora.write_adapter(
            path, pair(*GOOD), metadata={"adapter.alora.invocation_tokens": [1, 2]}), "certain words"),
    ],
)  # fmt: skip
def test_what_is_no_adapter_is_refused(
    model: GgufHeader, tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    make(tmp_path / "style.gguf")
    refused(tmp_path / "style.gguf", model, NotAnAdapter, why)


@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        (pair(np.ones((4, 128), np.float32), GOOD[1]), "128 × 4"),
        (pair(GOOD[0], np.ones((128, 4), np.float32)), "4 × 128"),
        (pair(GOOD[0], np.ones((256, 8), np.float32)), "8 × 256"),
        (pair(np.ones((2, 4, 256), np.float32), GOOD[1]), "256 × 4 × 2"),
        (pair(GOOD[0], np.ones((2, 256, 4), np.float32)), "4 × 256 × 2"),
        (pair(np.ones((2, 4, 256), np.float32), np.ones((2, 256, 4), np.float32)), "256 × 4 × 2"),
        (pair(*GOOD, name="blk.9.attn_q.weight"), "blk.9"),
        (pair(np.ones((4, 256), np.float32), np.ones((1, 4), np.float32), name="output_norm.weight"), "output_norm"),
        (pair(np.ones((512, 4), np.float32), np.ones((256, 8), np.float32), name="token_embd.weight"), "token_embd"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(
    model: GgufHeader, tmp_path: Path, tensors: dict[str, np.ndarray], why: str
) -> None:
    refused(tiny_lora.write_adapter(tmp_path / "style.gguf", tensors), model, AdapterMismatch, why)


def test_an_adapter_for_another_architecture_is_refused_with_both_names(model: GgufHeader, tmp_path: Path) -> None:
    path = tiny_lora.write_lora(tmp_path / "style.gguf", architecture="qwen2").path
    refused(path, model, AdapterMismatch, "“qwen2”; this one is “llama”")


def test_a_changed_embedding_is_refused_where_it_is_the_head_too(tmp_path: Path) -> None:
    flipped = pair(np.ones((512, 4), np.float32), np.ones((256, 4), np.float32), name="token_embd.weight")
    path = tiny_lora.write_adapter(tmp_path / "style.gguf", flipped)
    tied = read_header(tiny_gguf.write_tiny(tmp_path / "tied.gguf", tied=True))
    refused(path, tied, AdapterMismatch, "shares with its head")
    assert read_adapters((str(path),), read_header(tiny_gguf.write_tiny(tmp_path / "untied.gguf")))


def test_norm_vectors_are_said_to_be_left_out(model: GgufHeader, tmp_path: Path) -> None:
    tensors = {**pair(*GOOD), "blk.0.attn_norm.weight": np.ones(256, np.float32)}
    (adapter,) = read_adapters((str(tiny_lora.write_adapter(tmp_path / "style.gguf", tensors)),), model)
    assert len(adapter.notes) == 1
    assert "norm" in adapter.notes[0]


def test_lying_headers_are_refused(model: GgufHeader, tmp_path: Path) -> None:
    keys = (("general.architecture", raw_gguf.STRING, "llama"), ("general.type", raw_gguf.STRING, "adapter"),
            ("adapter.type", raw_gguf.STRING, "lora"))  # fmt: skip
    tensors = ((f"{Q}.lora_a", (256, 1), 0, 0), (f"{Q}.lora_b", (1, 256), 0, 1024))
    path = tmp_path / "style.gguf"
    path.write_bytes(raw_gguf.pack(keys, tensors, bytes(2048)))
    assert read_adapters((str(path),), model)
    for lie in (
        raw_gguf.pack(keys, tensors, bytes(2047)),
        raw_gguf.pack((*keys, ("adapter.lora.alpha", raw_gguf.F64, 8.0)), tensors, bytes(2048)),
        raw_gguf.pack((*keys[:2], ("adapter.type", raw_gguf.U32, 1)), tensors, bytes(2048)),
        raw_gguf.pack((keys[0], ("general.type", raw_gguf.U32, 1), keys[2]), tensors, bytes(2048)),
        raw_gguf.pack(keys, tensors, bytes(2048), n_tensors=1 << 40),
        raw_gguf.pack(keys, ((f"{Q}.lora_a", (256, 1), 0, 0), (f"{Q}.lora_b", (1, 256), 0, 0)), bytes(2048)),
    ):
        path.write_bytes(lie)
        with pytest.raises(NotAnAdapter):
            read_adapters((str(path),), model)


def test_no_damage_leads_to_anything_but_a_refusal(model: GgufHeader, tmp_path: Path) -> None:
    path = tiny_lora.write_lora(tmp_path / "style.gguf", names=(Q,), rank=1).path
    data, draw = path.read_bytes(), random.Random(0)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[draw.randrange(600)] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged[: draw.choice((len(data), len(data), draw.randrange(len(data))))])
        with contextlib.suppress(NotAnAdapter, AdapterMismatch):
            (adapter,) = read_adapters((str(path),), model)
            assert 0 < adapter.n_bytes <= 4 * 512
