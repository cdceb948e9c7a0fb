"""Lets a model be read at once: its matrices stay in the mapped file while a thread moves them to their own places.

New memory is slow to get. The system clears it, and in a virtual machine the host may have to find it first: for all
weights of a model that can take longer than the rest of loading. Matrices whose form and type in the file are the
model's need none to begin with. Once moved, they are read about 1.5 times as fast: they lie in large pages, and those
that read the same input are one matrix. What a product gives is the same before and after.

Knows no family, no file format and no text. Whoever shortens a file while it is mapped ends the process.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.architectures.base import Source
from runtime.architectures.binding import Claim
from runtime.architectures.forms import FUSED_GATE_UP, FUSED_QKV, SAME
from runtime.config import ModelConfig
from runtime.native.linear import Embedding, Linear, Slot
from runtime.native.mapped import DTYPES, in_place

_CUTS = (SAME, FUSED_QKV, FUSED_GATE_UP)  # forms whose parts lie in the file as they are, one below the other
_LEAST = 64 << 10  # bytes; less is copied at once
_BLOCK = 2 << 20  # bytes that are moved at a time: a large page
_STEP_BACK = 10  # by how many of Unix' levels the thread stands back behind whoever reads tokens
_HELD = 1.0  # seconds that moving waits at most for whoever reads first


class Lender(Source, Protocol):
    """What lending needs of an opened model: see runtime/checkpoint.py. What it lent outlives its `close`."""

    def release(self, name: str) -> None: ...


class _Piece(NamedTuple):
    """Rows of a matrix in a mapped file."""

    start: int  # where they go
    rows: Tensor
    release: Callable[[], None]  # lets the file's memory go, which can still be read


class Lending:
    """The matrices of one model that lie in its files, until they are moved."""

    def __init__(self) -> None:
        self._lent: dict[Linear | Embedding, list[_Piece]] = {}
        self._stop = threading.Event()
        self._free = threading.Event()  # nobody waits for the first token
        self._free.set()
        self._was_read = False
        self._thread: threading.Thread | None = None

    def takes(self, checkpoint: Lender, claim: Claim, slots: Mapping[str, Slot], config: ModelConfig) -> bool:
        """Whether the weights of a claim can be lent: then they are left where they lie."""
        wholes = [_lying(checkpoint, name) for name in claim.sources] if claim.form in _CUTS else []
        found = [whole for whole in wholes if whole is not None]
        if not found or len(found) < len(wholes):
            return False
        parts = claim.form.to_ours(found, config)
        if not all(map(_fits, slots.values(), parts)):
            return False
        release = partial(checkpoint.release, claim.sources[0])
        for slot, part in zip(slots.values(), parts, strict=True):
            self._lent.setdefault(slot.module, []).append(_Piece(slot.start, part, release))  # type: ignore[arg-type]
        return True

    def begin(self) -> None:
        """Lets the modules work with what is lent; a matrix of which only some rows are is completed at once."""
        for module, pieces in list(self._lent.items()):
            pieces.sort(key=lambda piece: piece.start)
            if sum(len(piece.rows) for piece in pieces) == len(module.weight):
                module.lent = tuple(piece.rows for piece in pieces)
            else:
                self._move(module)

    def move(self, then: Callable[[], None]) -> None:
        """Moves everything in a thread of its own, and calls `then` from there when all of it is moved."""
        self._thread = threading.Thread(target=self._move_all, args=(then,), name="moving weights", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def read(self) -> Iterator[None]:
        """Reads tokens inside; while they are the first ones, moving waits, so that the first answer begins soon."""
        if self._was_read:
            yield
            return
        self._free.clear()
        try:
            yield
        finally:
            self._was_read = True
            self._free.set()

    def wait(self) -> None:
        """Returns when everything is moved, or moving was stopped."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Stops moving; what has not been moved stays lent. May be called twice."""
        self._stop.set()
        self._free.set()
        self.wait()
        self._lent.clear()

    def _move_all(self, then: Callable[[], None]) -> None:
        _stand_back()
        for module in sorted(self._lent, key=_place):
            if not self._free.wait(_HELD):
                self._free.set()
            if not self._move(module):
                return
        then()

    def _move(self, module: Linear | Embedding) -> bool:
        """Copies a matrix to its own place, which is read from then on. Returns False where that is stopped."""
        with module.moving if isinstance(module, Embedding) else contextlib.nullcontext():
            for start, rows, release in self._lent[module]:
                own = module.weight.detach()[start : start + len(rows)]
                for to, of in zip(_blocks(own), _blocks(rows), strict=True):
                    if self._stop.is_set():
                        return False
                    np.copyto(to, of)  # other threads go on meanwhile
                    release()
            module.lent = ()
        for piece in self._lent.pop(module):
            piece.release()  # what was read of it meanwhile
        return True


def _place(module: Linear | Embedding) -> tuple[bool, int]:
    """Sorts by place, so that a large page is filled at once; last the embedding, which nobody can read meanwhile."""
    return isinstance(module, Embedding), module.weight.data_ptr()


def _lying(checkpoint: Lender, name: str) -> Tensor | None:
    """Returns a tensor as it lies in the file; None where it is of another type, small, or nowhere as a whole."""
    info = checkpoint.info(name)
    if info.dtype not in DTYPES:
        return None
    try:
        raw = checkpoint.raw(name)
    except ValueError:  # joined from several
        return None
    if raw.flags.owndata or raw.nbytes < _LEAST:
        return None
    return in_place(raw, DTYPES[info.dtype]).view(tuple(info.shape))


def _fits(slot: Slot, part: Tensor) -> bool:
    """Whether a module can work with a part where it lies."""
    place = slot.tensor
    is_matrix = isinstance(slot.module, Linear | Embedding) and slot.parameter == "weight" and place.is_cpu
    return is_matrix and part.dtype == place.dtype and part.shape == place.shape


def _blocks(tensor: Tensor) -> list[NDArray[np.uint8]]:
    """Returns the bytes of a tensor in blocks."""
    whole = tensor.reshape(-1).view(torch.uint8).numpy()
    return [whole[at : at + _BLOCK] for at in range(0, whole.size, _BLOCK)]


def _stand_back() -> None:
    """Lowers the calling thread's priority, where threads have one: on Linux."""
    with contextlib.suppress(OSError, AttributeError):
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _STEP_BACK)
