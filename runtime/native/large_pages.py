"""Memory for weights in large pages, where the system has them. Knows no model.

A token reads every weight once. In pages of 4 kB the processor has to look up where each 4 kB lies, in a virtual
machine twice over; in pages of 2 MB it does so once for 500 of them. Linux gives large pages to whoever asks.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from math import prod

import torch
from torch import Tensor, nn

_PAGE = 2 << 20
_CHUNK = 64 << 20  # bytes that are reserved at a time; what nobody writes to takes no memory
_ALIGNED = 64  # bytes: a cache line, and the widest vector
_LEAST = 64 << 10  # bytes; smaller tensors gain nothing


class LargePages:
    """Hands out tensors that lie close together in large pages; a piece of memory goes when its last tensor does."""

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def empty(self, shape: Iterable[int], dtype: torch.dtype) -> Tensor:
        """Returns a tensor without values: in large pages, or wherever torch puts it if there are none."""
        shape = tuple(shape)
        size = prod(shape) * dtype.itemsize
        if self._used + size > len(self._chunk):
            self._chunk, self._used = _reserved(max(size, _CHUNK)), 0
        if size > len(self._chunk):
            return torch.empty(shape, dtype=dtype)
        start, self._used = self._used, -(-(self._used + size) // _ALIGNED) * _ALIGNED
        return self._chunk[start : start + size].view(dtype).view(shape)

    def move(self, model: nn.Module, *, values: bool = True) -> None:
        """Puts a module's matrices, those of its parts included, into large pages; without `values` they lose theirs.

        Only what lies in the processor's memory is moved.
        """
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_cpu and tensor.nbytes >= _LEAST:
                place = self.empty(tensor.shape, tensor.dtype)
                tensor.data = place.copy_(tensor.detach()) if values else place


def _reserved(size: int) -> Tensor:
    """Returns bytes that begin with a large page, or none where the system has no large pages to give."""
    advice: int | None = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux
    if advice is None:
        return torch.empty(0, dtype=torch.uint8)
    try:
        memory = mmap.mmap(-1, size + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(advice)
    except OSError:
        return torch.empty(0, dtype=torch.uint8)
    whole = torch.frombuffer(memory, dtype=torch.uint8)  # keeps the memory as long as it is used
    start = -whole.data_ptr() % _PAGE
    return whole[start : start + size]
