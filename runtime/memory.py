"""How much memory a model will need, from its header alone, and how much there is. Loads no engine.

The sizes follow llama.cpp: caches are padded to 256 cells, layers with a sliding window keep the window and one
micro-batch, and the buffer for computing is as large as the largest of its phases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from runtime import devices, number_formats
from runtime.draft_file import draft_params
from runtime.gguf_architectures import (
    ATTENTION_PERIODS,
    RECURRENT_ARCHITECTURES,
    TRANSLATION_ARCHITECTURES,
    WINDOW_PERIODS,
)
from runtime.gguf_header import GgufHeader
from runtime.gguf_types import TYPE_BY_NAME, TensorType
from runtime.lora_files import adapter_bytes
from runtime.params import LoadParams

DEFAULT_CONTEXT = 4096
_CELL_STEP = 256
_LEAST_CONTEXT = 512
_F32 = 4
_SCORES_WITH_BIAS = 3  # rows of scores alive in T5: as they are, the bias, and their sum
_ROWS_AT_LOGITS = 2  # rows of d_model numbers alive beside the scores of the next token
_LOGITS_BYTES = 16 * 1024 * 1024  # room for the scores of several next tokens at once
# llama.cpp multiplies tokens in groups of at most so many; what is left over goes another way, which rounds otherwise,
# and a quantized model makes tenths of a logit of the last bit. A text that is measured is read in whole groups.
LOGIT_GROUP = 64


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes that a loaded model takes: weights with adapters, the context's cache, and the buffer for computing.

    `draft` is all that a draft model beside it takes. `other` is what the engine holds beside all these, the vocabulary
    above all; it is known only where it was measured.
    """

    context_length: int
    weights: int
    cache: int
    compute: int
    draft: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.compute + self.draft + self.other


def estimate(
    header: GgufHeader, params: LoadParams | None = None, *, context_length: int = 0, draft: GgufHeader | None = None
) -> MemoryEstimate:
    """Returns what loading takes at a context length: the given one, else the parameters', else the default.

    `draft` is the header of the draft model that is loaded with it.
    """
    params = params or LoadParams()
    length = context_length or params.context_length or min(header.context_length or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
    length = min(length, header.n_positions or length)
    cells = _padded(length)
    return MemoryEstimate(
        context_length=length,
        weights=_weight_bytes(header, params) + adapter_bytes(params.lora),
        cache=_cache_bytes(header, params, cells),
        compute=_compute_bytes(header, params, length),
        draft=estimate(draft, draft_params(params), context_length=length).total if draft is not None else 0,
    )


def _weight_bytes(header: GgufHeader, params: LoadParams) -> int:
    """Returns the weights as they lie in the file, or unpacked where our own engine is to run them."""
    if params.engine == "native":
        return number_formats.weight_bytes(header.n_params, params.dtype)
    return header.tensor_bytes


def default_context(
    header: GgufHeader, free: int, params: LoadParams | None = None, *, draft: GgufHeader | None = None
) -> int:
    """Returns the context length to load with when nobody chose one: the model's, at most 4,096, less if it must fit.

    `free` is in bytes. Where even 512 tokens do not fit, the answer is still 512: the engine then says what it lacks.
    """
    params = params or LoadParams()
    free, params = free - adapter_bytes(params.lora), params.replace(lora=())
    wanted = min(header.context_length or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
    least = min(wanted, _LEAST_CONTEXT)
    length = wanted
    while length > least and estimate(header, params, context_length=length, draft=draft).total > free:
        length = max(least, (length - 1) // _CELL_STEP * _CELL_STEP)
    return length


def logit_rows(n_vocab: int, params: LoadParams) -> int:
    """Returns for how many tokens at once a context has room for scores: an answer needs one, guesses some more.

    llama.cpp would make room for a whole micro-batch: half a gigabyte for a vocabulary of 262,144 tokens.
    """
    guesses = params.draft_tokens + 1 if params.speculation != "off" else 1
    rows = max(LOGIT_GROUP, guesses, _LOGITS_BYTES // (_F32 * max(1, n_vocab)))
    return min(rows, params.micro_batch, params.batch)


def free_memory() -> int:
    """Returns the bytes that can be used without swapping, within a container's and the process's own limit."""
    available = int(psutil.virtual_memory().available)
    limits = (available, devices.memory_left_in_container(), _left_in_address_space())
    return min(limit for limit in limits if limit is not None)


def total_memory() -> int:
    """Returns the bytes that a model could have at most: this computer's memory, or a container's limit."""
    limits = (int(psutil.virtual_memory().total), devices.memory_limit_of_container())
    return min(limit for limit in limits if limit is not None)


def _left_in_address_space() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    limit, _hard = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else max(0, limit - int(psutil.Process().memory_info().vms))


# --- cache ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer's cache: numbers of keys and of values per cell, and whether it keeps only a window."""

    k_width: int
    v_width: int
    windowed: bool


def _cache_bytes(header: GgufHeader, params: LoadParams, cells: int) -> int:
    k_bytes, v_bytes = _row_bytes(header, params.kv_type_k, "key"), _row_bytes(header, params.kv_type_v, "value")
    window = _window_cells(header, params, cells)
    total = 0
    for layer in _layers(header):
        total += (window if layer.windowed else cells) * (k_bytes(layer.k_width) + v_bytes(layer.v_width))
    return total + _state_bytes(header)


def _layers(header: GgufHeader) -> list[_Layer]:
    """Returns the layers that have a cache of their own."""
    n_layers = header.number("block_count")
    heads, windowed = _cached_heads(header, n_layers), _windowed(header, n_layers)
    own = n_layers - header.number("attention.shared_kv_layers")  # the others look into an earlier layer's cache
    v_share = 0 if _has(header, "attention.key_length_mla") else 1  # latent attention makes the values of the keys
    return [
        _Layer(
            heads[layer] * _head_dim(header, "key", windowed=windowed[layer]),
            heads[layer] * _head_dim(header, "value", windowed=windowed[layer]) * v_share,
            windowed[layer],
        )
        for layer in range(min(own, len(heads)))
        if heads[layer]
    ]


def _cached_heads(header: GgufHeader, n_layers: int) -> tuple[int, ...]:
    """Returns the KV heads of each layer; 0 where a layer keeps a state instead."""
    if header.architecture in RECURRENT_ARCHITECTURES:
        return (0,) * n_layers
    key = "attention.head_count_kv" if _has(header, "attention.head_count_kv") else "attention.head_count"
    period = header.number("full_attention_interval", ATTENTION_PERIODS.get(header.architecture, 1)) or 1
    heads = header.per_layer(key, n_layers)
    return tuple(count if (layer + 1) % period == 0 else 0 for layer, count in enumerate(heads))


def _windowed(header: GgufHeader, n_layers: int) -> tuple[bool, ...]:
    """Returns for each layer whether it attends only to a window."""
    pattern = header.metadata.get(f"{header.architecture}.attention.sliding_window_pattern")
    if not header.number("attention.sliding_window"):
        return (False,) * n_layers
    if isinstance(pattern, tuple):
        return tuple(bool(flag) for flag in (*pattern, *(False,) * n_layers)[:n_layers])
    if header.architecture not in WINDOW_PERIODS:
        return (False,) * n_layers
    period, full_first = WINDOW_PERIODS[header.architecture]
    period = pattern if isinstance(pattern, int) and pattern > 0 else period
    return tuple(layer % period != (0 if full_first else period - 1) for layer in range(n_layers))


def _window_cells(header: GgufHeader, params: LoadParams, cells: int) -> int:
    if params.swa_full:
        return cells
    micro_batch = min(params.micro_batch, params.batch, cells)
    return _padded(min(cells, header.number("attention.sliding_window") + micro_batch))


def _head_dim(header: GgufHeader, part: str, *, windowed: bool = False) -> int:
    n_heads = header.number("attention.head_count")
    derived = header.number("embedding_length") // n_heads if n_heads else 0
    full = header.number(f"attention.{part}_length") or derived
    return header.number(f"attention.{part}_length_swa", full) if windowed else full


def _row_bytes(header: GgufHeader, type_name: str, part: str) -> Callable[[int], int]:
    """Returns the function from a row's numbers to its bytes; f16 where the head size is no multiple of the block."""
    kind = TYPE_BY_NAME[type_name.upper()]
    if _head_dim(header, part) % kind.block:
        kind = TYPE_BY_NAME["F16"]
    return lambda width: _packed(width, kind)


def _packed(width: int, kind: TensorType) -> int:
    return -(-width // kind.block) * kind.block_bytes


def _state_bytes(header: GgufHeader) -> int:
    """Returns the states of recurrent layers (Mamba's and RWKV's), which do not grow with the context."""
    n_layers, inner = header.number("block_count"), header.number("ssm.inner_size")
    n_layers = _cached_heads(header, n_layers).count(0) or n_layers  # some families have both in every layer
    state, groups = header.number("ssm.state_size"), header.number("ssm.group_count")
    convolution = max(0, header.number("ssm.conv_kernel") - 1) * (inner + 2 * groups * state)
    d_model, head = header.number("embedding_length"), header.number("wkv.head_size")
    rwkv = d_model * (head + header.number("token_shift_count", 2)) if head else 0
    return n_layers * _F32 * (convolution + state * inner + rwkv)


# --- computing --------------------------------------------------------------------------------------------------


def _compute_bytes(header: GgufHeader, params: LoadParams, length: int) -> int:
    """Returns the largest of three phases; the numbers alive in each were measured on llama.cpp's CPU graphs."""
    cells = _padded(length)
    has_bias = header.architecture in TRANSLATION_ARCHITECTURES  # which is added to the scores, so they are kept
    T = length if has_bias else min(params.micro_batch, params.batch, cells)  # and a source is read whole
    C, V = header.number("embedding_length"), header.n_vocab
    # One mask for each kind of cache. Flash attention reads it as f16 and keeps no scores.
    masked = cells + (_window_cells(header, params, cells) if any(layer.windowed for layer in _layers(header)) else 0)
    flash = params.flash_attention != "off"
    mask = masked // 2 if flash else masked
    kept = _SCORES_WITH_BIAS if has_bias else 0 if flash else 1
    scores = kept * cells * header.number("attention.head_count")
    rows = T if has_bias else min(T, logit_rows(V, params))  # with an encoder, llama.cpp makes room for all
    logits = rows * (V + _ROWS_AT_LOGITS * C)
    alive = max(mask + scores + _attention_numbers(header), mask + _feed_forward_numbers(header))
    return _F32 * (max(logits, T * alive) + V)


def _attention_numbers(header: GgufHeader) -> int:
    """Returns what attention holds for a token beside scores and mask: the residual, the queries, keys and values."""
    heads, kv_heads = header.number("attention.head_count"), header.number("attention.head_count_kv")
    C, D = header.number("embedding_length"), _head_dim(header, "key")
    return 3 * C + 2 * heads * D + 2 * (kv_heads or heads) * D


def _feed_forward_numbers(header: GgufHeader) -> int:
    """Returns what a gated feed-forward holds for a token; of a mixture, what its active experts hold."""
    experts = header.number("expert_feed_forward_length") * header.number("expert_used_count")
    C, F = header.number("embedding_length"), experts or header.number("feed_forward_length")
    return min(3 * F + 4 * C, 4 * F + C)


def _padded(length: int) -> int:
    return -(-length // _CELL_STEP) * _CELL_STEP


def _has(header: GgufHeader, key: str) -> bool:
    return f"{header.architecture}.{key}" in header.metadata
