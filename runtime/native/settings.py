"""How settings of loading are carried out here: what has no counterpart is replaced, with a note. Knows no files.

The settings are llama.cpp's and ours alike. A number format of its caches becomes the nearest of ours that is no worse;
what decides nothing here (memory maps, flash attention, which the fused kernels always are) is passed over.
"""

from __future__ import annotations

from typing import Any

import torch

from runtime import memory, number_formats
from runtime.config import ModelConfig
from runtime.errors import UserError
from runtime.memory import DEFAULT_CONTEXT
from runtime.native.kv_cache import cache_bytes
from runtime.params import LoadParams
from runtime.settings import changed
from runtime.text import _

_LEAST_CONTEXT, _STEP = 512, 256
_OURS = {"q8_0": "int8", "q5_1": "int8", "q5_0": "int8", "q4_1": "int8", "q4_0": "int4", "iq4_nl": "int4"}
_ALIKE = ("q8_0", "q4_0")  # whose counterparts take as many bits
_PASSED_OVER = {"mlock", "split_mode", "tensor_split", "main_gpu", "experts_on_cpu"}


class NoRoomForModel(UserError):
    """The weights are larger than the memory that is free."""

    code = "no_room_for_model"

    def __init__(self, needed: int, free: int, dtype: str) -> None:
        super().__init__(
            _("There is not enough memory for this model."),
            _("Its weights take about {needed} GB as {dtype}; {free} GB are free.").format(
                needed=f"{needed / 1e9:.1f}", free=f"{free / 1e9:.1f}", dtype=dtype
            ),
            _("Choose a smaller number format or a smaller model, or use llama.cpp with a quantized GGUF file."),
        )


def workable(params: LoadParams, config: ModelConfig, notes: list[str]) -> LoadParams:
    """Returns the settings with everything decided, for a model that has not been loaded; adds sentences to `notes`."""
    dtype = number_formats.decided(params.dtype, on_card=device_of(params, []) != "cpu")
    if params.dtype == "auto" and config.form == "encoder":
        dtype = "f32"  # vectors are compared with each other, and encoders are small
    changes: dict[str, Any] = {"dtype": dtype}
    for name in ("kv_type_k", "kv_type_v"):
        changes[name] = _workable_cache_type(getattr(params, name), dtype, notes)
    if changes["kv_type_v"] in _OURS and params.flash_attention == "off":
        changes["flash_attention"] = "auto"
    passed_over = sorted(_PASSED_OVER & changed(params).keys())
    if passed_over:
        notes.append(_("Settings without effect in this engine: {names}.").format(names=", ".join(passed_over)))
    decided = params.replace(**changes)
    return decided.replace(context_length=_context_length(decided, config, notes))


def _workable_cache_type(kind: str, dtype: str, notes: list[str]) -> str:
    """Returns a cache type that exists here, by llama.cpp's name for it.

    f16, the default, stands for the 16 bits in which the model computes: another format would be converted anew for
    every token. A model in f32 keeps f32.
    """
    if kind == "f16":
        return {"f32": "f32", "f16": "f16"}.get(dtype, "bf16")
    if kind in _OURS and kind not in _ALIKE:
        note = _("Cache type {kind} is llama.cpp's own; {ours} is used.")
        notes.append(note.format(kind=kind, ours=_OURS[kind]))
        return {"int8": "q8_0", "int4": "q4_0"}[_OURS[kind]]
    return kind


def cache_type(kind: str) -> str:
    """Returns our name of a cache type."""
    return _OURS.get(kind, kind)


def _context_length(params: LoadParams, config: ModelConfig, notes: list[str]) -> int:
    """Returns the context length: as asked for, else the model's own, at most 4,096, and what fits into memory."""
    most = config.context_length if config.position == "learned" else 0
    if not params.context_length:
        return _fitting(params, config)
    if most and params.context_length > most:
        note = _("This model has a table of {most} positions, so its context has {most} tokens instead of {n}.")
        notes.append(note.format(most=f"{most:,}", n=f"{params.context_length:,}"))
        return most
    if params.context_length > config.context_length:
        note = _("The model was trained for {trained} tokens; beyond that it may lose the thread.")
        notes.append(note.format(trained=f"{config.context_length:,}"))
    return params.context_length


def _fitting(params: LoadParams, config: ModelConfig) -> int:
    length = wanted = max(1, min(config.context_length, DEFAULT_CONTEXT))
    free = memory.free_memory() - weight_bytes(config, params.dtype)
    while length > min(wanted, _LEAST_CONTEXT) and full_cache_bytes(config, length, params) > free:
        length = max(min(wanted, _LEAST_CONTEXT), (length - 1) // _STEP * _STEP)
    return length


def full_cache_bytes(config: ModelConfig, length: int, params: LoadParams) -> int:
    """Returns the memory of a cache of `length` positions in the types that the parameters ask for."""
    return cache_bytes(
        config, length, full=params.swa_full, k_type=cache_type(params.kv_type_k), v_type=cache_type(params.kv_type_v)
    )


def weight_bytes(config: ModelConfig, dtype: str) -> int:
    """Returns about how much memory the weights of a model will take."""
    C, D = config.d_model, config.head_dim
    attention = C * D * (2 * config.n_heads + 2 * config.n_kv_heads)
    matrices = 3 if config.gated else 2
    total = config.vocab_size * C * (1 if config.tied else 2)
    for layer in range(config.n_layers):
        wide = config.n_experts * config.expert_d_ff if config.has_experts(layer) else config.d_ff
        total += attention + matrices * C * wide
    if config.form == "encoder-decoder":
        total += config.n_layers * attention  # on the source
        total += config.n_encoder_layers * (attention + matrices * C * config.d_ff)
    return number_formats.weight_bytes(total, dtype)


def require_room(params: LoadParams, config: ModelConfig) -> None:
    """Raises `NoRoomForModel` where the weights cannot fit into this computer's free memory."""
    if device_of(params, []) != "cpu":
        return
    needed, free = weight_bytes(config, params.dtype), memory.free_memory()
    if needed > free:
        raise NoRoomForModel(needed, free, params.dtype)


def device_of(params: LoadParams, notes: list[str]) -> str:
    """Returns torch's name of the device: a graphics card where there is one and the settings allow it.

    What cannot be had as it was asked for is told in `notes`.
    """
    named = [name.lower() for name in params.devices]
    if params.gpu_layers == 0 or "cpu" in named:
        return "cpu"
    if not (torch.cuda.is_available() or torch.backends.mps.is_available()):
        if params.gpu_layers > 0 or set(named) - {"auto"}:
            notes.append(_("PyTorch finds no graphics card that it can use: the model runs on the processor."))
        return "cpu"
    if params.gpu_layers > 0:
        notes.append(_("This engine puts all layers on one device: all are on the graphics card."))
    return _card(named, notes) if torch.cuda.is_available() else "mps"


def _card(named: list[str], notes: list[str]) -> str:
    """Returns torch's name of the first card that is named and there, of the first of all otherwise."""
    wanted = [name for name in named if name.startswith("cuda") and name[4:].isdigit()]
    found = [name for name in wanted if int(name[4:]) < torch.cuda.device_count()]
    if wanted and not found:
        notes.append(_("There is no graphics card {name}: the first one is used.").format(name=wanted[0]))
    return f"cuda:{found[0][4:]}" if found else "cuda:0"
