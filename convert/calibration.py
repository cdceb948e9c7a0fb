"""Makes an importance matrix: reads a text with our own Transformer and keeps how large the inputs of its matrices are.

The text is read in chunks of 512 tokens, each from an empty memory, as llama.cpp's imatrix tool does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from convert.compare import TextTooShort, chunks_of
from convert.importance import Importance, Measured
from runtime.engine import LoadListener, StopFlag
from runtime.installation import require_torch
from runtime.params import LoadParams
from runtime.reading import ReadingStopped, ReadProgress
from runtime.text import _

_CONTEXT = 512
_LEAST = 32  # tokens


def measure(
    path: Path, text: str, stop: StopFlag, *, name: str, params: LoadParams, most_chunks: int = 0,
    listener: LoadListener | None = None,
) -> Iterator[ReadProgress | Importance]:  # fmt: skip
    """Yields progress, and the `Importance` last; `name` is what the text is called in it.

    Raises `TextTooShort`, `ReadingStopped`, and what loading a model raises.
    """
    require_torch(_("Measuring an importance matrix"))
    from runtime.native.input_squares import SquareReader  # torch takes seconds

    params = params.replace(engine="native", context_length=params.context_length or _CONTEXT)
    reader = SquareReader(path, params, listener=listener, stop=stop)
    try:
        ids = reader.tokenize(text)
        if len(ids) < _LEAST:
            raise TextTooShort(len(ids))
        chunks = chunks_of(ids, reader.begin_marks())
        chunks = chunks[:most_chunks] if most_chunks else chunks
        total = sum(len(chunk.ids) for chunk in chunks)
        yield ReadProgress(done=0, total=total)
        for number, chunk in enumerate(chunks, 1):
            if stop.is_set():
                raise ReadingStopped
            reader.read(chunk.ids)
            yield ReadProgress(done=number * len(chunk.ids), total=total)
        measured = {
            tensor: Measured(squares.sums.astype(np.float32), squares.counts)
            for tensor, squares in reader.squares().items()
        }
    finally:
        reader.close()
    yield Importance(measured, (name,), len(chunks), len(chunks[0].ids))
