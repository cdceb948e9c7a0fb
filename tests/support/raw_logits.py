"""The logits of a loaded model at every position of some tokens, read straight from llama.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from runtime.llama.batch import Batch


def logits(engine: Any, ids: Sequence[int], positions: Sequence[int] | None = None) -> np.ndarray:
    """Returns the logits (T, V) after each of `ids`, which stand at 0, 1, 2 … or at `positions`."""
    model = engine._model
    library, context, size = model.library, model.context, model.vocabulary.size
    library.llama_memory_clear(library.llama_get_memory(context), False)
    with Batch(library, len(ids)) as batch:
        for token, position in zip(ids, positions or range(len(ids)), strict=True):
            batch.add(token, position)
        batch.evaluate(context)
    return np.array([library.llama_get_logits_ith(context, at)[:size] for at in range(len(ids))], np.float32)
