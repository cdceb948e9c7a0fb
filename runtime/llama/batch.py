"""A batch of tokens for llama.cpp in which each one names its sequence and whether its result is wanted.

Evaluates the batch in a context. Knows nothing about text or what the results are for.
"""

from __future__ import annotations

from typing import Any, Self

from runtime.llama import library as llama_library
from runtime.reading import ReadingFailed, ReadingStopped

_ABORTED = 2  # llama_decode: the abort callback said stop


class Batch:
    """Room for `capacity` tokens in native memory; a context manager that frees it."""

    def __init__(self, library: Any, capacity: int) -> None:
        self._library = library
        self._native = library.llama_batch_init(capacity, 0, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._library.llama_batch_free(self._native)

    def clear(self) -> None:
        """Empties the batch."""
        self._native.n_tokens = 0

    def add(self, token: int, position: int, *, sequence: int = 0, wanted: bool = True) -> None:
        """Appends a token at a position of its sequence; `wanted` asks for its result."""
        at = self._native.n_tokens
        self._native.token[at] = token
        self._native.pos[at] = position
        self._native.n_seq_id[at] = 1
        self._native.seq_id[at][0] = sequence
        self._native.logits[at] = wanted
        self._native.n_tokens = at + 1

    def encode(self, context: Any) -> int:
        """Has the context's encoder read the tokens as a whole; returns llama.cpp's status."""
        return int(self._library.llama_encode(context, self._native))

    def evaluate(self, context: Any) -> None:
        """Evaluates the tokens. Raises `ReadingStopped` where the abort callback ended it, and `ReadingFailed`."""
        status = self._library.llama_decode(context, self._native)
        if status == _ABORTED:
            raise ReadingStopped
        if status != 0:
            raise ReadingFailed(status, llama_library.log_tail())
