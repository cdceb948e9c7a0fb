"""GGUF files with a model's header and tensor names and no weights: the file is a hole of the right size."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raw_gguf import F32, STRING, U32, Key, Tensor, pack
from runtime.llama import library as llama_library

D, FF, VOCAB = 512, 1024, 256


@dataclass(frozen=True)
class Skeleton:
    """A model's outline. `row` is the width of the model, which not every block size divides."""

    architecture: str = "llama"
    n_layers: int = 2
    n_heads: int = 8
    n_kv_heads: int = 2
    n_experts: int = 0
    tied: bool = False
    row: int = D

    def tensors(self) -> list[tuple[str, tuple[int, ...]]]:
        """Returns (name, shape) in an order that is not llama.cpp's."""
        outer = [("token_embd.weight", (VOCAB, self.row)), ("output_norm.weight", (self.row,))]
        if not self.tied:
            outer.append(("output.weight", (VOCAB, self.row)))
        if self.architecture in ("gpt2", "bert"):
            outer.append(("position_embd.weight", (64, self.row)))
        if self.architecture == "bert":
            outer += [("token_types.weight", (2, self.row)), ("token_embd_norm.weight", (self.row,))]
        if self.architecture == "t5":
            outer = [row for row in outer if row[0] != "output_norm.weight"] + [("enc.output_norm.weight", (self.row,))]
        return [*(each for layer in reversed(range(self.n_layers)) for each in self._layer(layer)), *outer]

    def _layer(self, layer: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        for side in ("enc.", "dec.") if self.architecture == "t5" else ("",):
            blk = f"{side}blk.{layer}."
            kv = max(self.row * self.n_kv_heads // self.n_heads, 1)
            if self.architecture in ("gpt2", "gptneox", "phi3"):
                yield blk + "attn_qkv.weight", (self.row + 2 * kv, self.row)
                yield blk + "attn_qkv.bias", (self.row + 2 * kv,)
            else:
                yield from ((blk + f"attn_{x}.weight", (self.row if x == "q" else kv, self.row)) for x in "kqv")
            yield blk + "attn_output.weight", (self.row, self.row)
            yield blk + "attn_norm.weight", (self.row,)
            yield blk + "attn_q_norm.weight", (2, 64)
            if side:
                yield blk + "attn_rel_b.weight", (32, self.n_heads)
            yield from self._feed_forward(blk)

    def _feed_forward(self, blk: str) -> Iterator[tuple[str, tuple[int, ...]]]:
        if self.n_experts:
            yield blk + "ffn_gate_inp.weight", (self.n_experts, self.row)
            yield from ((blk + f"ffn_{x}_exps.weight", (self.n_experts, FF, self.row)) for x in ("up", "gate"))
            yield blk + "ffn_down_exps.weight", (self.n_experts, self.row, FF)
            return
        yield from ((blk + f"ffn_{x}.weight", (FF, self.row)) for x in ("up", "gate"))
        yield blk + "ffn_down.weight", (self.row, FF)
        yield blk + "ffn_down.bias", (self.row,)

    def keys(self) -> list[Key]:
        """Returns what llama.cpp wants to know before it looks at tensors."""
        a = self.architecture
        return [
            ("general.architecture", STRING, a),
            (f"{a}.block_count", U32, self.n_layers), (f"{a}.context_length", U32, 128),
            (f"{a}.embedding_length", U32, self.row), (f"{a}.feed_forward_length", U32, FF),
            (f"{a}.attention.head_count", U32, self.n_heads), (f"{a}.attention.head_count_kv", U32, self.n_kv_heads),
            (f"{a}.attention.layer_norm_rms_epsilon", F32, 1e-5), (f"{a}.attention.layer_norm_epsilon", F32, 1e-5),
            (f"{a}.attention.sliding_window", U32, 64), (f"{a}.vocab_size", U32, VOCAB),
            (f"{a}.expert_count", U32, self.n_experts), (f"{a}.expert_used_count", U32, min(self.n_experts, 2)),
            (f"{a}.rope.dimension_count", U32, self.row // self.n_heads), (f"{a}.use_parallel_residual", 7, 1),
            (f"{a}.attention.causal", 7, 0), (f"{a}.attention.relative_buckets_count", U32, 32),
            (f"{a}.rope.scaling.original_context_length", U32, 128),
            ("tokenizer.ggml.model", STRING, "no_vocab"),
        ]  # fmt: skip

    def write(self, path: Path) -> Path:
        """Writes the header, and a hole for the weights."""
        described: list[Tensor] = []
        at = 0
        for name, shape in self.tensors():
            described.append((name, tuple(reversed(shape)), 0, at))
            size = 4
            for n in shape:
                size *= n
            at += size + -size % 32
        header = pack(self.keys(), described, b"")
        with path.open("wb") as file:
            file.write(header)
            file.truncate(len(header) + at)
        return path

    def but(self, **changes: Any) -> Skeleton:
        """Returns the same outline with something changed."""
        return replace(self, **changes)


def planned_by_llama(path: Path, file_type: int, **settings: Any) -> dict[str, str]:
    """Returns each tensor's type as `llama_model_quantize` would choose it, read from what its dry run logs."""
    library = llama_library.load_library()
    params = library.llama_model_quantize_default_params()
    params.ftype, params.dry_run, params.nthread, params.allow_requantize = file_type, True, 1, True
    for name, value in settings.items():
        setattr(params, name, value)
    with _listening(library) as lines:
        status = library.llama_model_quantize(str(path).encode(), str(path.with_suffix(".out")).encode(), params)
    log = "".join(lines)
    assert status == 0, log[-500:]
    found = re.findall(
        r"^\[ *\d+/ *\d+\] +(\S+) +- \[[^\]]*\], type = +(\w+), (?:(?!^\[).)*?"
        r"size = +[\d.]+ MiB(?: -> +[\d.]+ MiB \((\w+)\))?",
        log, re.MULTILINE | re.DOTALL,
    )  # fmt: skip
    return {name: (new or old).upper() for name, old, new in found}


def importance() -> Any:
    """Returns an importance matrix that names no tensor of a model: for the choice it only counts that there is one."""
    kind = llama_library.load_library().llama_model_imatrix_data
    values = (ctypes.c_float * 1)(1.0)
    entries = (kind * 2)(kind(b"none", ctypes.cast(values, ctypes.POINTER(ctypes.c_float)), 1))  # the second ends it
    entries.values = values  # as long as the list lives
    return entries


@contextmanager
def _listening(library: Any) -> Iterator[list[str]]:
    lines: list[str] = []
    callback = library.llama_log_callback(lambda level, text, data: lines.append(text.decode("utf-8", "replace")))
    library.llama_log_set(callback, ctypes.c_void_p(0))
    try:
        yield lines
    finally:
        library.llama_log_set(llama_library._log_callback(library), ctypes.c_void_p(0))
