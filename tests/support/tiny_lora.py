"""Writes small LoRA adapters as GGUF for tests, and says what they add to a model's weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

ATTENTION = ("blk.0.attn_q.weight", "blk.1.attn_v.weight", "blk.1.ffn_down.weight")
# Outputs and inputs of the matrices of `tiny_gguf.write_tiny`
SHAPES = {
    "attn_q": (256, 256), "attn_k": (64, 256), "attn_v": (64, 256), "attn_output": (256, 256),
    "ffn_gate": (512, 256), "ffn_up": (512, 256), "ffn_down": (256, 512),
}  # fmt: skip


@dataclass(frozen=True)
class TinyLora:
    """A written adapter and its matrices: A (rank, inputs) and B (outputs, rank) for each changed weight."""

    path: Path
    pairs: Mapping[str, tuple[np.ndarray, np.ndarray]]
    alpha: float

    def changes(self, scale: float = 1.0) -> dict[str, np.ndarray]:
        """Returns scale × alpha / rank × B·A for each weight, as (outputs, inputs)."""
        return {name: scale * self.alpha / len(a) * (b @ a) for name, (a, b) in self.pairs.items()}


def write_lora(
    path: Path, *, seed: int = 0, rank: int = 4, alpha: float = 8.0, names: Sequence[str] = ATTENTION,
    architecture: str = "llama",
) -> TinyLora:  # fmt: skip
    """Writes a random adapter for `tiny_gguf.write_tiny` that changes the named weights clearly."""
    rng = np.random.default_rng(100 + seed)
    pairs = {name: _pair(rng, SHAPES[name.split(".")[2]], rank) for name in names}
    tensors = {f"{name}.lora_{letter}": part for name, pair in pairs.items() for letter, part in zip("ab", pair)}  # noqa: B905
    write_adapter(path, tensors, architecture=architecture, metadata={"adapter.lora.alpha": alpha})
    return TinyLora(path, pairs, alpha)


def write_adapter(
    path: Path, tensors: Mapping[str, np.ndarray], *, architecture: str = "llama", kind: str = "adapter",
    adapter_type: str = "lora", metadata: Mapping[str, Any] | None = None,
) -> Path:  # fmt: skip
    """Writes tensors as an adapter, whether or not they make one."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type(kind)
    if adapter_type:
        writer.add_string("adapter.type", adapter_type)
    for key, value in (metadata or {}).items():
        {float: writer.add_float32, int: writer.add_uint32, str: writer.add_string, list: writer.add_array}[
            type(value)](key, value)  # fmt: skip
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _pair(rng: np.random.Generator, shape: tuple[int, int], rank: int) -> tuple[np.ndarray, np.ndarray]:
    n_out, n_in = shape
    a = rng.standard_normal((rank, n_in), np.float32) / np.float32(n_in**0.5)
    b = rng.standard_normal((n_out, rank), np.float32) / np.float32(rank)
    return a, b
