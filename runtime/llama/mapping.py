"""Whether a model's file is mapped into memory or read into it. Loads nothing.

Mapped, llama.cpp works on the system's own copy of the file: quick to load, shared, given back when memory is short.
Read, it works on memory of its own, in large pages (`runtime.large_pages`), and nothing that happens to the file harms
it. `quern bench MODEL --mmap on,off` compares the two.
"""

from __future__ import annotations

import sys

from runtime import memory
from runtime.gguf_header import GgufHeader
from runtime.params import LoadParams
from runtime.text import _

_TENSOR_ALIGNMENT = 32  # bytes; ggml ends the process where a mapped tensor lies otherwise
_SHARE = 2  # a model is read where it takes at most one part in so many of the free memory


def resolved(
    params: LoadParams, header: GgufHeader, context_length: int, *, draft: GgufHeader | None = None
) -> tuple[LoadParams, list[str]]:
    """Returns the parameters with `mmap` on or off, and a note where the file cannot be mapped though it was asked for.

    `draft` is the header of the draft model that is loaded with it, and that follows the same choice.
    """
    if params.mmap == "auto":
        params = params.replace(mmap=_better(params, header, context_length, draft))
    return mappable(params, header)


def mappable(params: LoadParams, header: GgufHeader) -> tuple[LoadParams, list[str]]:
    """Returns the parameters without mapping, and a note, for a file whose weights llama.cpp could not use in place."""
    if params.mmap == "off" or not header.alignment % _TENSOR_ALIGNMENT:
        return params, []
    note = _("The weights lie at multiples of {n} bytes, which cannot be mapped; they are read into memory instead.")
    return params.replace(mmap="off"), [note.format(n=header.alignment)]


def _better(params: LoadParams, header: GgufHeader, context_length: int, draft: GgufHeader | None) -> str:
    if sys.platform == "darwin":  # there the graphics processor works on the mapped file itself
        return "on"
    needed = memory.estimate(header, params, context_length=context_length, draft=draft).total
    return "off" if needed * _SHARE <= memory.free_memory() else "on"
