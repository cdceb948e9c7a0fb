"""Writes a planned file: reads, packs and writes block by block, and can be stopped between any two. Checks nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from convert.gguf_file import ALIGNMENT
from convert.packing import packed
from convert.plan import Plan
from convert.safe_file import SafeFiles
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.text import _


class ConversionStopped(UserError):
    """The person ended the conversion."""

    code = "conversion_stopped"

    def __init__(self) -> None:
        super().__init__(_("The conversion was stopped; nothing was written."))


class WriteProgress(msgspec.Struct, frozen=True, kw_only=True):
    """`done` of `total` bytes are written; `tensor` is the one at work."""

    done: int
    total: int
    tensor: str


def write(
    plan: Plan, target: Path, stop: StopFlag, *, threads: int
) -> Iterator[WriteProgress]:
    """Writes the file beside its target and puts it there when it is whole.

    Raises `ConversionStopped`, `WrongNumbers` and `NotWritten`; then the target is as it was.
    """
    total = plan.layout.size
    with SafeFiles([target]) as files:
        files.write(plan.layout.header)
        done = len(plan.layout.header)
        for choice, product, placed in zip(plan.choices, plan.products, plan.layout.tensors, strict=True):
            assert done == placed.offset
            weights = plan.weights_of(choice)
            for piece in packed(choice, product, importance=weights, threads=threads):
                if stop.is_set():
                    raise ConversionStopped
                files.write(piece)
                done += piece.nbytes
                yield WriteProgress(done=done, total=total, tensor=choice.tensor.name)
            product.release()
            assert done == placed.offset + placed.entry.n_bytes
            files.write(bytes(-done % ALIGNMENT))
            done += -done % ALIGNMENT
