"""What is packed is read back, by Quern's own reader and by the gguf library."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from convert.gguf_file import TensorEntry, array, boolean, f32, layout, string, u32
from runtime import gguf_header

KEYS = {
    "general.architecture": string("llama"),
    "llama.block_count": u32(1), "llama.context_length": u32(128), "llama.embedding_length": u32(64),
    "llama.attention.head_count": u32(4), "llama.rope.freq_base": f32(10_000.5),
    "tokenizer.ggml.add_bos_token": boolean(True),
    "tokenizer.ggml.tokens": array("string", ["a", "中文", b"\xff", ""]),
    "tokenizer.ggml.scores": array("f32", [0.5, -1.0, 0.0, 2.0]),
    "tokenizer.ggml.token_type": array("i32", [1, 1, 6, 3]),
}  # fmt: skip
TENSORS = [
    TensorEntry("token_embd.weight", (3, 64), "Q8_0"),
    TensorEntry("blk.0.attn_norm.weight", (5,), "F32"),
    TensorEntry("blk.0.ffn_up_exps.weight", (2, 3, 32), "Q4_0"),
    TensorEntry("output.weight", (3, 64), "BF16"),
]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    laid = layout(KEYS, TENSORS)
    data = bytearray(laid.header) + bytes(laid.size - len(laid.header))
    for number, placed in enumerate(laid.tensors, 1):
        data[placed.offset : placed.offset + placed.entry.n_bytes] = bytes([number]) * placed.entry.n_bytes
    path.write_bytes(data)
    return path


def test_quern_reads_every_key_and_tensor_back(written: Path) -> None:
    header = gguf_header.read_header(written)
    assert header.architecture == "llama"
    assert header.metadata["llama.rope.freq_base"] == 10_000.5
    assert header.metadata["tokenizer.ggml.add_bos_token"] is True
    assert [(t.name, t.shape[::-1], t.type) for t in header.tensors] == [tuple(entry) for entry in TENSORS]


def test_the_gguf_library_reads_the_same(written: Path) -> None:
    reader = gguf.GGUFReader(written)
    tokens = reader.fields["tokenizer.ggml.tokens"]
    assert [bytes(tokens.parts[at]) for at in tokens.data] == [b"a", "中文".encode(), b"\xff", b""]
    assert reader.fields["tokenizer.ggml.scores"].contents() == [0.5, -1.0, 0.0, 2.0]
    for number, (tensor, entry) in enumerate(zip(reader.tensors, TENSORS, strict=True), 1):
        assert (tensor.name, int(tensor.n_bytes)) == (entry.name, entry.n_bytes)
        assert np.all(tensor.data.view(np.uint8) == number)


def test_equal_input_gives_equal_bytes() -> None:
    assert layout(KEYS, TENSORS) == layout(dict(KEYS), list(TENSORS))


def test_every_tensor_begins_at_the_alignment_and_the_last_one_is_whole() -> None:
    laid = layout(KEYS, TENSORS)
    assert all(placed.offset % 32 == 0 for placed in laid.tensors)
    assert laid.tensors[0].offset == len(laid.header)
    assert laid.size >= laid.tensors[-1].offset + TENSORS[-1].n_bytes
