"""Number formats of a cache that cannot work on a model, and what takes their place. Knows no library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.params import QUANTIZED_KV_TYPES, LoadParams
from runtime.text import N_, _

_BLOCK = 32  # values in a block of every quantized cache type
_PLAIN = "f16"


def workable(
    params: LoadParams, *, head_k: int, head_v: int, reads_source: bool
) -> tuple[LoadParams, list[str]]:
    """Returns the parameters with what cannot work replaced, and a note for each.

    Quantized types have to divide the heads' sizes, and a model that reads a source text cannot quantize its values.
    """
    changes: dict[str, Any] = {}
    notes = []
    for name, head in (("kv_type_k", head_k), ("kv_type_v", head_v)):
        kind = getattr(params, name)
        if kind in QUANTIZED_KV_TYPES and head % _BLOCK:
            changes[name] = _PLAIN
            note = _("Cache type {kind} needs a head size divisible by {block}; here it is {head}. f16 is used.")
            notes.append(note.format(kind=kind, block=_BLOCK, head=head))
    if reads_source and params.kv_type_v in QUANTIZED_KV_TYPES and "kv_type_v" not in changes:
        changes["kv_type_v"] = _PLAIN  # llama.cpp transposes it for attention with a bias, and dies
        note = _("This kind of model cannot keep its values as {kind}. f16 is used.")
        notes.append(note.format(kind=params.kv_type_v))
    return params.replace(**changes) if changes else params, notes


def after_refusal(params: LoadParams, log: str) -> tuple[LoadParams, str] | None:
    """Returns parameters to try next and a note, where llama.cpp's log says that it refused a cache type.

    These are the cases that show only when a context is made: they depend on the family and on the device.
    """
    for words, changes_of, note in _REFUSALS:
        changes = changes_of(params) if words in log else {}
        if any(getattr(params, name) != kind for name, kind in changes.items()):
            kinds = {"k": params.kv_type_k, "v": params.kv_type_v}
            return params.replace(**changes), _(note).format(**kinds)
    return None


def _plain_where_quantized(params: LoadParams) -> dict[str, str]:
    names = ("kv_type_k", "kv_type_v")
    return {name: _PLAIN for name in names if getattr(params, name) in QUANTIZED_KV_TYPES}


# Words of llama.cpp's log, the types to try then, and the note
_REFUSALS: tuple[tuple[str, Callable[[LoadParams], dict[str, str]], str], ...] = (
    (
        "quantized V cache", lambda params: {"kv_type_v": _PLAIN},
        N_("V cache type {v} needs flash attention, which this model does not have here. f16 is used."),
    ),
    (
        "does not support different K", lambda params: {"kv_type_v": params.kv_type_k},
        N_("This model keeps keys and values in one cache. {k} is used for both."),
    ),
    (
        "does not divide n_embd_head", _plain_where_quantized,
        N_("Some of the model's heads are too small for cache types {k} and {v}. f16 is used."),
    ),
)  # fmt: skip
