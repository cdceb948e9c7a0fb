"""llama.cpp's own quantizer, to hold conversions against."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from runtime.llama.library import load_library


def quantize(source: Path, target: Path, file_type: int, **settings: Any) -> Path:
    """Writes `target` with `llama_model_quantize` and returns it."""
    library = load_library()
    params = library.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.nthread = file_type, True, 1
    for name, value in settings.items():
        setattr(params, name, value)
    assert library.llama_model_quantize(str(source).encode(), str(target).encode(), params) == 0
    return target


def imatrix_of(values: Mapping[str, np.ndarray]) -> Any:
    """Returns an importance matrix as `llama_model_quantize` takes it: the setting `imatrix`."""
    kind = load_library().llama_model_imatrix_data
    arrays = {name: np.ascontiguousarray(each, np.float32).reshape(-1) for name, each in values.items()}
    pointer = ctypes.POINTER(ctypes.c_float)
    entries = (kind * (len(arrays) + 1))(*(
        kind(name.encode(), each.ctypes.data_as(pointer), each.size) for name, each in arrays.items()
    ))  # fmt: skip
    entries.arrays = arrays  # as long as the list lives
    return entries


def tensors_of(path: Path) -> dict[str, tuple[str, bytes]]:
    """Returns the type and the bytes of every tensor, in the file's order."""
    reader = gguf.GGUFReader(path)
    return {tensor.name: (tensor.tensor_type.name, tensor.data.tobytes()) for tensor in reader.tensors}


def keys_of(path: Path) -> dict[str, Any]:
    """Returns every metadata value."""
    reader = gguf.GGUFReader(path)
    return {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
