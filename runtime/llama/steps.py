"""Chooses how the tokens of a llama.cpp model's answers are evaluated: one by one, or together with guesses."""

from __future__ import annotations

from runtime.draft_pace import DraftPace
from runtime.drafts import Drafter
from runtime.llama.cache import TokenCache
from runtime.llama.model import LlamaModel
from runtime.ngram import NgramDrafter
from runtime.params import LoadParams
from runtime.speculation import OneByOne, Speculation, Steps
from runtime.text import _


def steps_for(model: LlamaModel, cache: TokenCache, params: LoadParams, draft: Drafter | None) -> Steps:
    """Returns how a model's tokens are evaluated; one by one, with a note, where it cannot take anything back.

    `draft` is the draft model, where there is one.
    """
    if params.speculation == "off":
        return OneByOne(cache)
    if model.remembers_states:
        model.notes.append(_("Nothing is guessed ahead: this kind of model cannot take tokens back."))
    if model.reads_source and params.speculation == "draft":
        model.notes.append(_("Nothing is guessed ahead: the draft model cannot read this model's source."))
    if model.remembers_states or (params.speculation == "draft" and draft is None):
        return OneByOne(cache)
    drafter = NgramDrafter(params.ngram_size) if draft is None else draft
    return Speculation(
        cache, drafter, pace=DraftPace(free=draft is None), most=min(params.draft_tokens, model.micro_batch - 1),
        context_length=model.context_length, ends_answer=model.vocabulary.ends_answer,
    )  # fmt: skip
