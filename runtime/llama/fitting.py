"""How many layers of a model the graphics cards have room for. Loads nothing.

llama.cpp gives cards the last layers, the output first; several cards share them by their free memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from runtime import memory
from runtime.gguf_header import GgufHeader
from runtime.llama import library as llama_library
from runtime.llama.library import Device
from runtime.llama.placement import cards_for
from runtime.params import LoadParams
from runtime.text import _

ALL = -1
_RESERVED = 300 * 1024 * 1024  # for each card: what its driver and the desktop on it take meanwhile
_BLOCK = re.compile(r"blk\.(\d+)\.")


def fitted(params: LoadParams, header: GgufHeader, context_length: int) -> tuple[LoadParams, list[str]]:
    """Returns the parameters with as many layers as the cards hold, and a note where those are not all.

    Settings that name a number of layers, or one that leaves the cards out, stay as they are.
    """
    cards = cards_for(params, llama_library.devices())
    if not cards or params.gpu_layers != ALL:
        return params, []
    free = _free(cards)
    layers = layers_that_fit(header, params, context_length, room=free - _RESERVED * len(cards))
    if layers is None:
        return params, []
    note = _("{n} of {all} layers fit in the graphics cards' free memory ({free:.1f} GB); the processor has the rest.")
    total = len(_layer_bytes(header)) + 1
    return params.replace(gpu_layers=layers), [note.format(n=layers, all=total, free=free / 1e9)]


def layers_that_fit(header: GgufHeader, params: LoadParams, context_length: int, *, room: int) -> int | None:
    """Returns how many layers, the output among them, go into `room` bytes; None where all of them do."""
    needed = memory.estimate(header, params, context_length=context_length)
    blocks = _layer_bytes(header)
    cache = needed.cache // max(len(blocks), 1) if params.kv_on_gpu else 0
    output = sum(tensor.n_bytes for tensor in header.tensors if tensor.name.startswith("output"))
    left = room - needed.compute
    sizes = [output, *(size + cache for size in reversed(blocks))]
    for count, size in enumerate(sizes):
        left -= size
        if left < 0:
            return count
    return None


def _layer_bytes(header: GgufHeader) -> list[int]:
    """Returns the weights of each layer, in order."""
    sizes: Counter[int] = Counter()
    for tensor in header.tensors:
        if found := _BLOCK.match(tensor.name):
            sizes[int(found[1])] += tensor.n_bytes
    return [sizes[layer] for layer in sorted(sizes)]


def _free(cards: Sequence[Device]) -> int:
    return sum(llama_library.device_memory(card)[0] for card in cards)
