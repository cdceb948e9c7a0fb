"""Evaluates a text from an empty memory and hands out the logits at its tokens. Knows no chat and keeps no cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from runtime.llama.batch import Batch
from runtime.llama.model import LlamaModel
from runtime.memory import LOGIT_GROUP
from runtime.scoring import Logits


class ContextReader:
    """Evaluates token sequences from an empty memory, in pieces whose logits fit into a bounded room.

    Implements `runtime.scoring.Reader`.
    """

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self._n_vocab = model.vocabulary.size

    def rows(self, tokens: Sequence[int], first: int, *, at_most: int = 0) -> Iterator[tuple[int, Logits]]:
        """Yields (tokens read, logits (n, V) at those from `first` on) for each piece; valid until the next one.

        `at_most` limits how many of a piece's tokens have logits; more of those that have none are read with them.
        Pieces are whole groups where the limit allows one, so that they do not change what a text gives.
        """
        library, context = self._model.library, self._model.context
        library.llama_memory_clear(library.llama_get_memory(context), False)
        most = _in_groups(min(at_most or self._model.logit_rows, self._model.logit_rows))
        start = 0
        with Batch(library, self._model.micro_batch) as batch:
            while start < len(tokens):
                piece = tokens[start : start + min(max(first - start, 0) + most, self._model.micro_batch)]
                batch.clear()
                for position, token in enumerate(piece, start):
                    batch.add(token, position, wanted=position >= first)
                batch.evaluate(context)
                start += len(piece)
                yield len(piece), self._logits(min(max(start - first, 0), len(piece)))

    def _logits(self, count: int) -> Logits:
        if not count:
            return np.empty((0, self._n_vocab), np.float32)
        pointer = self._model.library.llama_get_logits(self._model.context)
        return np.ctypeslib.as_array(pointer, (count, self._n_vocab))


def _in_groups(count: int) -> int:
    """Returns the largest number of whole groups, so that a text gives the same in whatever pieces it is read."""
    return count - count % LOGIT_GROUP or count
