"""Decodes tokens: reads them through the Transformer into a cache, and keeps the scores behind them.

Remembers which tokens the cache holds and how they came there, so that a prompt is read only from where it differs.
Knows nothing about text or chat. Implements `runtime.evaluation.Cache`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from runtime.engine import StopFlag
from runtime.evaluation import LAST, CacheRecord, Stopped, common_prefix
from runtime.native.candidates import Scores
from runtime.native.kv_cache import KVCache
from runtime.native.model import NativeModel
from runtime.native.room import raise_for_memory
from runtime.native.stopping import stoppable
from runtime.schedule import LEAST_SHIFT, EvaluationLog, Schedule
from runtime.text import _

_MOST_SCORES = 1 << 24  # numbers: 64 MB


class TokenCache:
    """The evaluated tokens of one model, with prefix reuse.

    The same tokens in other pieces give slightly other numbers, so what is kept of a prompt ends where a piece began.
    """

    def __init__(self, model: NativeModel) -> None:
        self._model = model
        self._kv = model.new_cache()
        self._log = EvaluationLog()
        self._stop = StopFlag()
        self._encoded: Tensor | None = None  # (1, S, C): what an encoder made of a source, until it has been looked at
        self._scores: Scores = np.zeros((0, model.vocabulary.size), np.float32)  # (T, V) of what was read last

    @property
    def ids(self) -> list[int]:
        return self._kv.ids

    @property
    def kv(self) -> KVCache:
        """The keys and values."""
        return self._kv

    def record(self) -> CacheRecord:
        """Returns what the cache remembers of itself."""
        return CacheRecord(tuple(self.ids), self._log.schedule())

    def take(self, kv: KVCache, record: CacheRecord) -> None:
        """Goes on with keys and values that were filled by other means."""
        self._kv = kv
        self._log.clear()
        self._log.repeat(record.schedule)

    @property
    def bytes(self) -> int:
        """The memory that the cache takes."""
        return self._kv.bytes

    def __len__(self) -> int:
        return self._kv.length

    def watch(self, stop: StopFlag) -> None:
        """Makes evaluations end when this flag is set."""
        self._stop = stop

    def scores(self, row: int = LAST) -> Scores:
        """Returns the scores (V,) after the last token, or after one of the last draft."""
        scores: Scores = self._scores[row]
        return scores

    def step(self, ids: Tensor) -> Tensor:
        """Reads one more token (B,) of each of the texts that the keys and values were copied for.

        Returns the scores (B, V). `leave_beams` makes one text of them again.
        """
        with torch.inference_mode():
            logits = self._forward(ids[:, None].to(self._kv.device), last_only=True)
        self._kv.advance(1)
        return logits[:, 0, : self._model.vocabulary.size].cpu()

    def leave_beams(self, length: int) -> None:
        """Goes back to the one text of `length` tokens that was there before the keys and values were copied."""
        self._kv.reorder(torch.zeros(1, dtype=torch.long))
        self._kv.truncate(length)

    @property
    def longest_piece(self) -> int:
        """How many tokens are read at once at most."""
        return self._model.micro_batch

    def mark(self) -> int:
        return len(self._log)

    def schedules(self, mark: int) -> tuple[Schedule, Schedule] | None:
        return self._log.schedule(0, mark), self._log.schedule(mark)

    def reusable(self, prompt: Sequence[int]) -> int:
        """Returns how many of its first tokens `prompt` could use, if the windows of its layers reach so far."""
        common = min(common_prefix(self.ids, prompt), len(prompt) - 1)
        return len(self) if common >= len(self) else self._log.start_at_or_before(common)

    def keep_common(self, prompt: Sequence[int]) -> tuple[int, str]:
        kept = self.reusable(prompt)
        if self._kv.longest_valid(kept) < kept:
            self.clear()
            return 0, _(
                "The model keeps only the last {n} tokens of some layers, and the change lies further back, "
                "so the conversation was read again."
            ).format(n=f"{self._model.config.sliding_window:,}")
        self.take_back(kept)
        return kept, ""

    def evaluate(self, ids: Sequence[int]) -> Iterator[int]:
        """Reads tokens in pieces of the micro-batch; yields the number done after each. Raises `Stopped`."""
        step = self._model.micro_batch
        for start in range(0, len(ids), step):
            piece = ids[start : start + step]
            self._read_long(piece)
            self._log.evaluate(piece)
            yield start + len(piece)

    def append(self, token: int) -> None:
        self._read((token,))
        self._log.evaluate((token,))

    def append_draft(self, ids: Sequence[int]) -> None:
        self._read(ids, last_only=False)
        self._log.evaluate(ids, "draft")

    def rows(self, ids: Sequence[int], first: int, *, at_most: int = 0) -> Iterator[tuple[int, Scores]]:
        """Reads tokens in pieces; yields (tokens read, scores (n, V) at those from place `first` on) for each.

        `at_most` limits the size of a piece further. Raises `Stopped`.
        """
        done = 0
        for piece in self._pieces(ids, first, at_most or self._model.micro_batch):
            wanted = done >= first
            self._read_long(piece, last_only=not wanted)
            self._log.evaluate(piece)
            done += len(piece)
            yield len(piece), self._scores if wanted else self._scores[:0]

    def settle(self) -> None:
        """Nothing is left to compute: the scores have been looked at."""

    def take_back(self, length: int) -> bool:
        if length == len(self):
            return True
        if self._kv.longest_valid(length) < length:
            self.clear()
            return False
        self._kv.truncate(length)
        self._log.cut(length)
        return True

    def shift(self, keep: int) -> int:
        """Lets the older half of what follows the first `keep` tokens go, and reads the rest again in its new place.

        So the cache holds what it would hold had the text begun like that. Returns how many tokens were let go; 0
        where the beginning leaves too little for it to be worth while. Raises `Stopped`.
        """
        taken = (len(self) - keep) // 2
        if taken * LEAST_SHIFT < len(self):
            return 0
        rest = self.ids[keep + taken :]
        if self._kv.longest_valid(keep) < keep:
            rest, first = self.ids[:keep] + rest, 0
        else:
            first = keep
        self._kv.truncate(first)
        self._read_again(rest, first)
        self._log.shift(keep, taken)
        return taken

    def clear(self) -> None:
        self._kv.clear()
        self._log.clear()

    def close(self) -> None:
        """Lets its memory go. May be called twice."""
        self._kv = self._model.new_cache()  # which takes memory only for its first tokens
        self._log.clear()

    # --- reading ------------------------------------------------------------------------------------------------

    def _read(self, ids: Sequence[int], *, last_only: bool = True) -> None:
        """Reads tokens at once behind those in the cache."""
        kv = self._kv
        try:
            with torch.inference_mode():
                given = torch.tensor([ids], device=kv.device)
                logits = self._forward(given, last_only=last_only)[0]
        except RuntimeError as error:
            raise_for_memory(error)
        self._scores = self._of_tokens(logits.cpu().numpy())
        kv.advance(len(ids), ids)

    def _of_tokens(self, logits: Scores) -> Scores:
        """Returns the scores (T, size) of the tokenizer's tokens: an embedding may have more rows, or lack some."""
        size, rows = self._model.vocabulary.size, logits.shape[1]
        if rows >= size:
            return logits[:, :size]
        return np.pad(logits, ((0, 0), (0, size - rows)), constant_values=-np.inf)

    def _forward(self, ids: Tensor, *, last_only: bool) -> Tensor:
        """Returns the scores (B, T or 1, V) behind ids (B, T), which follow what is in the cache."""
        model = self._model
        with model.reading():
            if ids.numel() == 1 and self._encoded is None and model.one_token is not None:
                return model.one_token(ids, self._kv)
            logits: Tensor = model.transformer(ids, cache=self._kv, encoded=self._encoded, last_only=last_only)
            return logits

    def _read_long(self, ids: Sequence[int], *, last_only: bool = True) -> None:
        """Does what `_read` does, and ends it in the middle where the stop flag is set. Raises `Stopped`."""
        if self._stop.is_set():
            raise Stopped
        model = self._model
        with stoppable(model.transformer, self._stop), threads(model.prompt_threads, model.threads):
            self._read(ids, last_only=last_only)

    def _read_again(self, ids: Sequence[int], first: int) -> None:
        """Reads the tokens of a shift; where that is stopped, the log tells what was finished."""
        step = self._model.micro_batch
        try:
            for start in range(0, len(ids), step):
                self._read_long(ids[start : start + step])
        except Stopped:
            done = self.ids[first:]
            self._log.cut(first)
            for start in range(0, len(done), step):
                self._log.evaluate(done[start : start + step])
            raise

    def _pieces(self, ids: Sequence[int], first: int, at_most: int) -> Iterator[Sequence[int]]:
        """Yields pieces of the micro-batch, with a cut at `first`, and shorter ones of which all scores are kept."""
        most = min(self._model.micro_batch, at_most)
        rows = max(1, min(most, _MOST_SCORES // max(1, self._model.vocabulary.size)))
        for start in range(0, first, most):
            yield ids[start : min(start + most, first)]
        for start in range(first, len(ids), rows):
            yield ids[start : start + rows]


@contextmanager
def threads(now: int, usually: int) -> Iterator[None]:
    """Meanwhile torch computes with another number of threads."""
    if now != usually:
        torch.set_num_threads(now)
    try:
        yield
    finally:
        if now != usually:
            torch.set_num_threads(usually)
