"""Chooses how the tokens of an answer are evaluated: one by one, or together with guesses. Loads the draft model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runtime import draft_file
from runtime.draft_pace import DraftPace
from runtime.draft_vocabulary import DraftVocabularyDiffers, difference
from runtime.drafts import Drafter
from runtime.engine import LoadListener, StopFlag
from runtime.native.candidates import Scores
from runtime.native.decode import TokenCache
from runtime.native.kv_cache import ROLLBACK
from runtime.native.model import NativeModel
from runtime.native.speculative import ModelDrafter
from runtime.ngram import NgramDrafter
from runtime.places import shown_path
from runtime.speculation import OneByOne, Speculation, Steps
from runtime.text import _


class Draft:
    """A draft model with its cache. Implements `runtime.native.speculative.Reader`; owns the model."""

    def __init__(self, model: NativeModel) -> None:
        self.model = model
        self.cache = TokenCache(model)
        self.context_length = model.context_length

    @property
    def ids(self) -> Sequence[int]:
        return self.cache.ids

    def read(self, ids: Sequence[int]) -> Scores:
        for _done in self.cache.evaluate(ids):
            pass
        return self.cache.scores()[None]

    def truncate(self, length: int) -> None:
        self.cache.take_back(length)

    def close(self) -> None:
        self.model.close()
        self.cache.close()


def load_draft(
    model: NativeModel, *, listener: LoadListener | None = None, stop: StopFlag | None = None
) -> Draft | None:
    """Loads the draft model that the settings name; None where none is to be used.

    Raises `NoDraftModel`, `DraftVocabularyDiffers`, and what loading a model raises.
    """
    path = draft_file.draft_path(model.params)
    if path is None:
        return None
    if model.reads_source:
        model.notes.append(_("Nothing is guessed ahead: the draft model cannot read this model's source."))
        return None
    params = draft_file.draft_params(model.params).replace(context_length=model.context_length)
    draft = NativeModel(path, params, listener=listener, stop=stop)
    reason = difference(model.vocabulary, draft.vocabulary)
    if reason:
        draft.close()
        raise DraftVocabularyDiffers(shown_path(Path(path.name)), reason)
    return Draft(draft)


def steps_for(model: NativeModel, cache: TokenCache, draft: Draft | None) -> Steps:
    """Returns how a model's tokens are evaluated."""
    params = model.params
    if params.speculation == "off" or (params.speculation == "draft" and draft is None):
        return OneByOne(cache)
    drafter: Drafter = NgramDrafter(params.ngram_size)
    if draft is not None:
        size = min(model.config.vocab_size, draft.model.vocabulary.size)
        drafter = ModelDrafter(draft, n_vocab=size, least_chance=params.draft_min_p)
    return Speculation(
        cache, drafter, pace=DraftPace(free=draft is None), context_length=model.context_length,
        most=min(params.draft_tokens, model.micro_batch - 1, ROLLBACK), ends_answer=model.vocabulary.ends_answer,
    )  # fmt: skip
