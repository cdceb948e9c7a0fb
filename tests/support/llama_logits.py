"""What llama.cpp makes of a GGUF file: logits at every position, the oracle of the native Transformer.

Knows its C functions only through runtime/llama/library.py. Everything is in f32: cache too, flash attention off.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from runtime.llama.library import load_library
from runtime.llama.lora import LoadedAdapters
from runtime.lora_files import LoraAdapter

_F32, _OFF = 0, 0


def llama_logits(
    path: Path, ids: Sequence[int], *, n_ctx: int = 512, adapters: Mapping[Path, float] | None = None,
    gpu_layers: int = 0,
) -> np.ndarray:  # fmt: skip
    """Returns the logits (T, V) after each of the ids, read whole from an empty cache, with LoRA adapters by scale.

    On the processor, unless a graphics card is to have some layers.
    """
    with _opened(path, n_ctx, adapters or {}, gpu_layers=gpu_layers) as (library, model, context):
        with _batch(library, ids) as batch:
            assert library.llama_decode(context, batch) == 0
        size = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))
        rows = [library.llama_get_logits_ith(context, at)[:size] for at in range(len(ids))]
        return np.array(rows, np.float32)


def llama_states(path: Path, ids: Sequence[int], *, n_ctx: int = 64) -> np.ndarray:
    """Returns the last states (T, C) that an encoder such as BERT makes of the ids."""
    with _opened(path, n_ctx, {}, embeddings=True, pooling_type=0) as (library, model, context):
        with _batch(library, ids) as batch:
            assert library.llama_decode(context, batch) == 0
        size = library.llama_model_n_embd(model)
        return np.array([library.llama_get_embeddings_ith(context, at)[:size] for at in range(len(ids))], np.float32)


def llama_target_logits(path: Path, source: Sequence[int], target: Sequence[int], *, n_ctx: int = 64) -> np.ndarray:
    """Returns the logits (T, V) after each token of the target that an encoder-decoder such as T5 writes."""
    with _opened(path, n_ctx, {}) as (library, model, context):
        with _batch(library, source) as batch:
            assert library.llama_encode(context, batch) == 0
        with _batch(library, target) as batch:
            assert library.llama_decode(context, batch) == 0
        size = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))
        return np.array([library.llama_get_logits_ith(context, at)[:size] for at in range(len(target))], np.float32)


@contextmanager
def _batch(library: Any, ids: Sequence[int]) -> Iterator[Any]:
    batch = library.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for at, token in enumerate(ids):
        batch.token[at], batch.pos[at], batch.logits[at] = token, at, 1
        batch.n_seq_id[at], batch.seq_id[at][0] = 1, 0
    try:
        yield batch
    finally:
        library.llama_batch_free(batch)


def llama_tokens(path: Path, text: str) -> list[int]:
    """Returns the ids of a text, with what the model wants before it."""
    with _opened(path, 64, {}) as (library, model, _):
        data = text.encode()
        ids = (ctypes.c_int32 * (len(data) + 2))()
        vocabulary = library.llama_model_get_vocab(model)
        return list(ids[: library.llama_tokenize(vocabulary, data, len(data), ids, len(ids), True, False)])


@contextmanager
def _opened(
    path: Path, n_ctx: int, adapters: Mapping[Path, float], *, gpu_layers: int = 0, **options: object
) -> Iterator[tuple[Any, Any, Any]]:
    library = load_library()
    wanted = library.llama_model_default_params()
    wanted.n_gpu_layers = gpu_layers
    model = library.llama_model_load_from_file(os.fsencode(path), wanted)
    assert model, f"llama.cpp refuses {path.name}"
    checked = [LoraAdapter(file, scale, 0, (0, 0)) for file, scale in adapters.items()]
    loaded = LoadedAdapters(library, model, checked)
    params = library.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = n_ctx
    params.type_k = params.type_v = _F32
    params.flash_attn_type = _OFF
    for name, value in options.items():
        setattr(params, name, value)
    params.n_threads = params.n_threads_batch = 1
    context = library.llama_init_from_model(model, params)
    try:
        assert context, f"llama.cpp makes no context for {path.name}"
        loaded.apply(context)
        yield library, model, context
    finally:
        if context:
            library.llama_free(context)
        library.llama_model_free(model)
