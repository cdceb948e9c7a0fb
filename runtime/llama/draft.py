"""A second, small model that guesses how an answer goes on. Knows nothing of the model whose answer it is.

It keeps a cache of its own, which follows the answer: what it guessed and what was not said is cut off again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime import draft_file
from runtime.draft_vocabulary import FIRST_COMPARED, DraftVocabularyDiffers, size_difference, token_difference
from runtime.drafts import Guess
from runtime.engine import LoadListener, StopFlag
from runtime.evaluation import common_prefix
from runtime.gguf_header import GgufHeader
from runtime.llama import mapping
from runtime.llama.cache import TokenCache
from runtime.llama.model import LlamaModel
from runtime.llama.vocabulary import Vocabulary
from runtime.params import LoadParams
from runtime.places import shown_path
from runtime.text import _

_GRADES = 10  # a grade for each tenth of probability


def load_drafter(
    model: LlamaModel, header: GgufHeader, params: LoadParams, *, threads: int,
    listener: LoadListener | None = None, stop: StopFlag | None = None,
) -> ModelDrafter | None:  # fmt: skip
    """Loads the draft model of a model that is loaded with `params`; None, with a note, where it cannot go back.

    Raises `DraftVocabularyDiffers`, and what loading a model raises.
    """
    draft_params, _notes = mapping.mappable(draft_file.draft_params(params), header)
    length = min(model.context_length, header.context_length or model.context_length)
    draft = LlamaModel(
        header.path, draft_params, context_length=length, threads=threads, listener=listener, stop=stop
    )  # fmt: skip
    try:
        require_same_tokens(model.library, model.vocabulary, draft.vocabulary, name=shown_path(Path(header.path.name)))
        if not draft.keeps_everything:
            model.notes.append(_("Nothing is guessed ahead: the draft model cannot take tokens back."))
            draft.close()
            return None
    except BaseException:
        draft.close()
        raise
    return ModelDrafter(draft, n_vocab=model.vocabulary.size, least_chance=params.draft_min_p)


class ModelDrafter:
    """Guesses with a model: always its likeliest token. Implements `runtime.drafts.Drafter`; owns the model."""

    def __init__(self, model: LlamaModel, *, n_vocab: int, least_chance: float) -> None:
        """Guesses only tokens below `n_vocab`, and none that it gives less than `least_chance`."""
        self._model = model
        self._cache = TokenCache(model)
        self._n_vocab = min(n_vocab, model.vocabulary.size)
        self._least_chance = least_chance
        self._ids: list[int] = []
        self._agreed = 0  # so many tokens at the beginning of the cache are those that were told

    def begin(self, ids: Sequence[int]) -> None:
        self._ids = [self._known(token) for token in ids]
        self._agreed = common_prefix(self._cache.ids, self._ids)

    def add(self, token: int) -> None:
        self._ids.append(self._known(token))

    @property
    def behind(self) -> int:
        self._agree()
        return len(self._ids) - self._agreed

    def catch_up(self) -> None:
        """Reads what was said since the last guess. Raises `Stopped` and `EvaluationFailed`."""
        if len(self._ids) > self._model.context_length:
            return
        kept = min(len(self._ids) - self.behind, len(self._ids) - 1)  # the logits come from the last token
        self._cache.take_back(kept)
        for _done in self._cache.evaluate(self._ids[kept:]):
            pass
        self._agreed = len(self._ids)

    def guesses(self) -> Iterator[Guess]:
        """Yields a token for each evaluation of the model, after `catch_up`; raises what that raises."""
        if len(self._cache) != len(self._ids):
            return  # the context of the draft is full
        while True:
            guess = self._likeliest()
            if not guess.chance >= self._least_chance:  # also where it is no number
                return
            yield guess
            if len(self._cache) >= self._model.context_length:
                return
            self._cache.append(guess.token)

    @property
    def path(self) -> Path:
        return self._model.path

    @property
    def memory_bytes(self) -> int:
        return self._model.memory_bytes

    def watch(self, stop: StopFlag) -> None:
        """Ends an evaluation when this flag is set."""
        self._model.watch(stop)

    def close(self) -> None:
        self._model.close()

    def _agree(self) -> None:
        held, told = self._cache.ids, self._ids
        while self._agreed < min(len(held), len(told)) and held[self._agreed] == told[self._agreed]:
            self._agreed += 1

    def _known(self, token: int) -> int:
        """Returns the token, or any other in place of one that the draft's vocabulary lacks: it is a guess anyway."""
        return token if token < self._model.vocabulary.size else 0

    def _likeliest(self) -> Guess:
        logits = self._logits()
        token = int(logits.argmax())
        chance = float(1 / np.exp(logits - logits[token]).sum())
        return Guess(token, int(min(chance, 1.0) * (_GRADES - 1)) if chance >= 0 else 0, chance)

    def _logits(self) -> NDArray[np.float32]:
        pointer: Any = self._model.library.llama_get_logits_ith(self._model.context, -1)
        floats = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float))
        return np.ctypeslib.as_array(floats, (self._model.vocabulary.size,))[: self._n_vocab]


def require_same_tokens(library: Any, ours: Vocabulary, draft: Vocabulary, *, name: str) -> None:
    """Raises `DraftVocabularyDiffers` unless both vocabularies number the same tokens alike."""
    reason = _difference(library, ours, draft)
    if reason:
        raise DraftVocabularyDiffers(name, reason)


def _difference(library: Any, ours: Vocabulary, draft: Vocabulary) -> str:
    if library.llama_vocab_type(ours.handle) != library.llama_vocab_type(draft.handle):
        return _("Its vocabulary is of another kind.")
    for adds, mark in (
        (library.llama_vocab_get_add_bos, library.llama_vocab_bos),
        (library.llama_vocab_get_add_eos, library.llama_vocab_eos),
    ):
        marks = [mark(side.handle) if adds(side.handle) else -1 for side in (ours, draft)]
        if marks[0] != marks[1]:
            return _("It begins or ends a text with another token.")
    if sizes := size_difference(ours.size, draft.size):
        return sizes
    text = library.llama_vocab_get_text
    for token in range(FIRST_COMPARED, min(ours.size, draft.size)):
        if text(ours.handle, token) != text(draft.handle, token):
            return token_difference(token, ours.label(token), draft.label(token))
    return ""
