"""Writes a tiny model that makes every kind of matrix product happen. For trying a back end, not for talking.

All weights are zero, so the file is a header and a hole, and every logit must come out as zero. What ends a process is
the instruction, not the number.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.gguf_types import FLOAT32, STRING, TENSOR_TYPES, UINT32

WIDTH, VOCABULARY = 256, 256  # K-quants come in blocks of 256
_HEADS, _ALIGNMENT = 4, 32
_MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
_F32 = 0
ALL_TYPES = (
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
    "IQ4_NL", "IQ4_XS", "IQ3_S", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0", "MXFP4",
)  # fmt: skip
COMMON_TYPES = ("F16", "Q4_0", "Q4_K", "Q6_K", "Q8_0")

_Tensor = tuple[str, tuple[int, ...], int]  # name, shape (first is along a row), type's number


def write_trial_model(path: Path, types: Sequence[str] = ALL_TYPES) -> None:
    """Writes the model to `path`, a megabyte long and almost empty on disk. Raises OSError."""
    numbers = {kind.name: number for number, kind in TENSOR_TYPES.items()}
    tensors = list(_tensors([numbers[name] for name in types]))
    infos, size = b"", 0
    for name, shape, kind in tensors:
        infos += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, size)
        size += _padded(math.prod(shape) // TENSOR_TYPES[kind].block * TENSOR_TYPES[kind].block_bytes)
    pairs = list(_pairs(_layers(types)))
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs)) + b"".join(pairs) + infos
    with path.open("wb") as file:
        file.write(header)
        file.truncate(_padded(len(header)) + size)


def _layers(types: Sequence[object]) -> int:
    return math.ceil(len(types) / len(_MATRICES))


def _tensors(kinds: Sequence[int]) -> Iterator[_Tensor]:
    square = (WIDTH, WIDTH)
    yield "token_embd.weight", (WIDTH, VOCABULARY), _F32
    for layer in range(_layers(kinds)):
        yield f"blk.{layer}.attn_norm.weight", (WIDTH,), _F32
        yield f"blk.{layer}.ffn_norm.weight", (WIDTH,), _F32
        for at, name in enumerate(_MATRICES, start=layer * len(_MATRICES)):
            yield f"blk.{layer}.{name}.weight", square, kinds[at % len(kinds)]
    yield "output_norm.weight", (WIDTH,), _F32
    yield "output.weight", (WIDTH, VOCABULARY), kinds[-1]


def _pairs(layers: int) -> Iterator[bytes]:
    yield _pair("general.architecture", "llama")
    yield _pair("tokenizer.ggml.model", "no_vocab")
    yield _pair("llama.vocab_size", VOCABULARY)
    yield _pair("llama.context_length", 512)
    yield _pair("llama.embedding_length", WIDTH)
    yield _pair("llama.feed_forward_length", WIDTH)
    yield _pair("llama.block_count", layers)
    yield _pair("llama.attention.head_count", _HEADS)
    yield _pair("llama.attention.layer_norm_rms_epsilon", 1e-5)


def _pair(key: str, value: str | int | float) -> bytes:
    if isinstance(value, str):
        return _string(key) + struct.pack("<I", STRING) + _string(value)
    kind, code = (UINT32, "I") if isinstance(value, int) else (FLOAT32, "f")
    return _string(key) + struct.pack(f"<I{code}", kind, value)


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
