"""Asks llama.cpp what a model would take, without reading its weights. Runs in a child: see `exact_memory.py`.

The library lays out weights, cache and graph as for a real load and allocates none of them. The sizes are in its log
only: its C functions have none for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import psutil

from runtime import gguf_header, lora_files, runnable
from runtime.child_limits import limit_memory
from runtime.exact_memory import MemoryUnknown
from runtime.llama import library
from runtime.llama.model import LlamaModel, NoRoomForContext
from runtime.memory import MemoryEstimate
from runtime.params import LoadParams
from runtime.text import _

MEMORY_LIMIT = 400_000_000  # bytes beyond what the process holds; the largest vocabulary takes some 200 MB
_CACHE = re.compile(r"kv_cache\w*: size =\s*([\d.]+) MiB \(|(?:RS|state) buffer size\s*=\s*([\d.]+) MiB")
_COMPUTE = re.compile(r"(?:compute|output) buffer size\s*=\s*([\d.]+) MiB")


def measure(path: Path, params: LoadParams, context_length: int) -> MemoryEstimate:
    """Returns the sizes in bytes. Raises `UserError` where the model could not be loaded, `MemoryUnknown` too."""
    header = gguf_header.read_header(path)
    runnable.require_runnable(header)
    if not library.load_library().llama_supports_gpu_offload():  # the drivers of GPUs reserve any amount of addresses
        limit_memory(MEMORY_LIMIT)
    before = psutil.Process().memory_info().rss
    try:
        model = LlamaModel(header.path, params, context_length=context_length, threads=1, allocate=False)
    except NoRoomForContext as error:  # the lists of cells alone fill what this process may take
        reason = _("A context of {n} tokens is too long to be measured.").format(n=f"{context_length:,}")
        raise MemoryUnknown(reason) from error
    weights, log = model.size_bytes, model.context_log
    other = psutil.Process().memory_info().rss - before  # of weights, cache and graph nothing was allocated
    model.close()
    return MemoryEstimate(
        context_length=context_length,
        weights=weights + lora_files.adapter_bytes(params.lora),
        cache=_sum(_CACHE, log),
        compute=_sum(_COMPUTE, log),
        other=max(0, other),
    )


def _sum(pattern: re.Pattern[str], log: Iterable[str]) -> int:
    found = (number for line in log for number in pattern.findall(line))
    sizes = (number if isinstance(number, str) else number[0] or number[1] for number in found)
    return int(sum(map(float, sizes)) * 1024 * 1024)
