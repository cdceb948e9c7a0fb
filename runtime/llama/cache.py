"""The tokens that a context has evaluated, and how a new prompt makes use of them. Knows nothing about text.

The cache remembers the ids it holds and how they came there (`runtime.schedule`). A new prompt keeps the longest common
beginning, cut back to where an evaluated piece begins, so that what is evaluated again is evaluated in the same pieces:
quantized models give slightly different logits for other pieces, and "again" with the same seed shall give the same
text. At least one token is always evaluated, since the logits come from it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

from runtime.errors import UserError
from runtime.evaluation import CacheRecord, Stopped, common_prefix
from runtime.llama import library as llama_library
from runtime.llama.model import LlamaModel
from runtime.schedule import LEAST_SHIFT, EvaluationLog, Schedule
from runtime.text import _

_ABORTED = 2  # llama_decode: the abort callback said stop
_NO_SLOT = 1  # llama_decode: no place for the batch in the cache
_SEQUENCE = 0
_MOST_EVALUATED = 32  # contexts full of tokens that a schedule may tell of, for caches whose cuts have to be remembered


class EvaluationFailed(UserError):
    """llama.cpp could not evaluate tokens."""

    code = "evaluation_failed"

    def __init__(self, status: int, log: str) -> None:
        super().__init__(
            _("The model could not go on: llama.cpp reported error {status}.").format(status=status),
            _("The text so far is kept."),
            _("Send the message again; if it happens again, load the model with a shorter context."),
            details=log,
        )


class TokenCache:
    """The evaluated tokens of one context, with prefix reuse. Implements `runtime.evaluation.Cache`."""

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self._library = model.library
        self._memory = self._library.llama_get_memory(model.context)
        self.ids: list[int] = []
        self._log = EvaluationLog(forgets_cuts=model.keeps_everything)
        self._restored = False  # filled from a file, of which only a complete cache is laid out as it was
        self._moved_from: int | None = None  # from here on, tokens were read after others that were shifted out since
        self._shift_pending = False

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def longest_piece(self) -> int:
        """How many tokens are evaluated at once at most."""
        return self._model.micro_batch

    def mark(self) -> int:
        """Returns the place between what has been done with the cache so far and what comes."""
        return len(self._log)

    def schedules(self, mark: int) -> tuple[Schedule, Schedule] | None:
        """Returns how an empty cache is brought to where it was at the mark, and what has been done with it since.

        None where the same steps would not lay the tokens out as they lie.
        """
        return None if self._restored else (self._log.schedule(0, mark), self._log.schedule(mark))

    def reusable(self, prompt: Sequence[int]) -> int:
        """Returns how many of its first tokens `prompt` could use, if the model can go back so far."""
        common = common_prefix(self.ids, prompt)
        if self._moved_from is not None:
            common = min(common, self._moved_from)
        return self._piece_start(min(common, len(prompt) - 1))

    def keep_common(self, prompt: Sequence[int]) -> tuple[int, str]:
        """Cuts the cache back to what `prompt` can use of it.

        Returns how many tokens are kept (fewer than the prompt has) and, where more were equal but could not be
        kept, the reason in words.
        """
        remembers_cuts = not self._model.keeps_everything
        if remembers_cuts and self._log.evaluated > _MOST_EVALUATED * self._model.context_length:
            self.clear()
            return 0, _("So much was taken back that the conversation was read again.")
        kept = self.reusable(prompt)
        if kept and not self._reaches(kept):
            self.clear()
            return 0, self._why_not_reached()
        if not self._cut(kept):
            self.clear()
            return 0, _("This kind of model cannot go back, so the conversation was read again.")
        return kept, ""

    def evaluate(self, ids: Sequence[int]) -> Iterator[int]:
        """Evaluates tokens in pieces of the micro-batch; yields the number done after each piece.

        Raises `Stopped` when the model's stop flag is set, and `EvaluationFailed`.
        """
        step = self.longest_piece
        for start in range(0, len(ids), step):
            piece = ids[start : start + step]
            self._decode(piece)
            yield start + len(piece)

    def append(self, token: int) -> None:
        """Evaluates one token of an answer. Raises `Stopped` and `EvaluationFailed`."""
        self._decode((token,))

    def append_draft(self, ids: Sequence[int]) -> None:
        """Evaluates tokens at once and keeps the logits after each of them. Raises `Stopped` and `EvaluationFailed`."""
        self._decode(ids, draft=True)

    def settle(self) -> None:
        """Waits until what was evaluated is computed."""
        self._library.llama_synchronize(self._model.context)

    def take_back(self, length: int) -> bool:
        """Cuts the cache back to its first `length` tokens; False, and then it is empty, where that cannot be done."""
        if self._cut(length):
            return True
        self.clear()
        return False

    def shift(self, keep: int) -> int:
        """Takes the older half of what follows the first `keep` tokens out, and moves the rest up.

        Returns how many tokens were taken out; 0, with nothing changed, where the model cannot do it or the beginning
        leaves too little for it to be worth while. What was moved had been read together with what is gone, so no
        later prompt makes use of it.
        """
        taken = (len(self.ids) - keep) // 2
        if not self._model.can_shift or taken * LEAST_SHIFT < len(self.ids):
            return 0
        gone = keep + taken
        if not self._library.llama_memory_seq_rm(self._memory, _SEQUENCE, keep, gone):
            return 0
        self._library.llama_memory_seq_add(self._memory, _SEQUENCE, gone, -1, -taken)
        self._shift_pending = True
        del self.ids[keep:gone]
        self._log.shift(keep, taken)
        self._moved_from = keep if self._moved_from is None else min(keep, self._moved_from)
        return taken

    def save(self, path: Path) -> CacheRecord | None:
        """Writes what the context holds to a file of llama.cpp's; returns what has to be kept with it.

        None where it could not be written. What was moved by a shift is left out: no later prompt makes use of it.
        """
        usable = len(self.ids) if self._moved_from is None else self._moved_from
        record = CacheRecord(tuple(self.ids[:usable]), self._log.before(usable).schedule())
        tokens = (ctypes.c_int32 * usable)(*record.ids)
        written = self._library.llama_state_seq_save_file(
            self._model.context, os.fsencode(path), _SEQUENCE, tokens, usable
        )
        return record if written else None

    def load(self, path: Path, record: CacheRecord) -> bool:
        """Fills the context from a file that `save` made with this record; where it cannot, the cache is empty."""
        self.clear()
        count, room = ctypes.c_size_t(0), len(record.ids)
        tokens = (ctypes.c_int32 * max(room, 1))()
        read = self._library.llama_state_seq_load_file(
            self._model.context, os.fsencode(path), _SEQUENCE, tokens, room, ctypes.byref(count)
        )
        usable = read and tuple(tokens[: count.value]) == record.ids and record.adds_up and self._ends_at(room)
        if not usable:
            self.clear()
            return False
        self.ids = list(record.ids)
        self._log.repeat(record.schedule)
        self._restored = not self._model.keeps_everything
        return True

    def _ends_at(self, length: int) -> bool:
        """Cuts off what a loaded file holds beyond `length` tokens; returns whether it then ends there."""
        if self._last_position() >= length:
            self._library.llama_memory_seq_rm(self._memory, _SEQUENCE, length, -1)
        return self._last_position() == length - 1

    def _last_position(self) -> int:
        return int(self._library.llama_memory_seq_pos_max(self._memory, _SEQUENCE))

    def clear(self) -> None:
        self._library.llama_memory_clear(self._memory, False)
        self.ids.clear()
        self._log.clear()
        self._restored = False
        self._moved_from = None
        self._shift_pending = False

    def _decode(self, piece: Sequence[int], *, draft: bool = False) -> None:
        tokens = (ctypes.c_int32 * len(piece))(*piece)
        batch = self._library.llama_batch_get_one(tokens, len(piece))
        wanted = (ctypes.c_int8 * len(piece))(*[1] * len(piece))
        if draft:
            batch.logits = wanted
        # llama.cpp moves shifted keys at the start of the next evaluation; stopped in between, some would be lost.
        with self._model.undisturbed() if self._shift_pending else nullcontext():
            status = self._library.llama_decode(self._model.context, batch)
        self._shift_pending = False
        if status in (0, _ABORTED):
            self._log.evaluate(piece, "draft" if draft else "read")
        if status == 0:
            self.ids.extend(piece)
            return
        self._cut_to_valid()
        if status == _ABORTED or self._model.stopped:
            raise Stopped
        raise EvaluationFailed(status, llama_library.log_tail())

    def _cut_to_valid(self) -> None:
        """After a failed or aborted evaluation: drops what the context may hold beyond the finished pieces."""
        if not self._library.llama_memory_seq_rm(self._memory, _SEQUENCE, len(self.ids), -1):
            self.clear()
        else:
            self._log.cut(len(self.ids))

    def _cut(self, length: int) -> bool:
        if length == len(self.ids):
            return True
        if length == 0:
            self.clear()
            return True
        if not self._library.llama_memory_seq_rm(self._memory, _SEQUENCE, length, -1):
            return False
        del self.ids[length:]
        self._log.cut(length)
        if self._moved_from is not None and length <= self._moved_from:
            self._moved_from = None
        return True

    def _piece_start(self, length: int) -> int:
        """Returns the last place at or before `length` where an evaluated piece begins."""
        return len(self.ids) if length >= len(self.ids) else self._log.start_at_or_before(length)

    def _reaches(self, length: int) -> bool:
        """Whether a windowed or recurrent cache still holds what a token at `length` looks back at."""
        oldest = self._library.llama_memory_seq_pos_min(self._memory, _SEQUENCE)
        return bool(oldest <= max(0, length - self._model.sliding_window))

    def _why_not_reached(self) -> str:
        window = self._model.sliding_window
        if not window:
            return _("This kind of model cannot go back, so the conversation was read again.")
        return _(
            "The model keeps only the last {n} tokens of some layers, and the change lies further back, "
            "so the conversation was read again."
        ).format(n=f"{window:,}")
