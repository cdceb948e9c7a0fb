"""Writes a native model into a GGUF file through its family's table, so that llama.cpp can read it. No vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from memory_checkpoint import MemoryCheckpoint
from runtime.architectures import reading
from runtime.architectures.binding import placements
from runtime.native.transformer import Transformer


def gguf_checkpoint(model: Transformer) -> MemoryCheckpoint:
    """Returns settings and tensors of the GGUF file that holds this model, in memory."""
    config = model.config
    architecture = reading.by_name(config.family)
    ours = {name: slot.tensor.numpy() for name, slot in model.slots().items()}
    tensors: dict[str, np.ndarray] = {}
    for claim in placements(architecture, config, "gguf"):
        made = claim.form.to_source([ours[name] for name in claim.ours], config)
        tensors |= zip(claim.sources, made, strict=True)
    tensors |= architecture.gguf_tensors(config)
    return MemoryCheckpoint("gguf", tensors, metadata=reading.to_gguf(architecture, config))


def write_native(path: Path, model: Transformer) -> Path:
    """Writes the model in f32 and returns `path`."""
    checkpoint = gguf_checkpoint(model)
    settings = dict(checkpoint.metadata)
    writer = gguf.GGUFWriter(path, settings.pop("general.architecture"))
    for key, value in settings.items():
        _add(writer, key, value)
    writer.add_tokenizer_model("none")
    for name, array in checkpoint.tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(array, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case list():
            writer.add_array(key, value)
