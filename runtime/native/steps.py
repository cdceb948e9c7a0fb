"""Chooses how the tokens of an answer are evaluated: one by one, or together with guesses."""

from __future__ import annotations

from runtime.draft_pace import DraftPace
from runtime.native.decode import TokenCache
from runtime.native.kv_cache import ROLLBACK
from runtime.native.model import NativeModel
from runtime.ngram import NgramDrafter
from runtime.speculation import OneByOne, Speculation, Steps


def steps_for(model: NativeModel, cache: TokenCache) -> Steps:
    """Returns how a model's tokens are evaluated."""
    params = model.params
    if params.speculation != "ngram":
        return OneByOne(cache)
    return Speculation(
        cache, NgramDrafter(params.ngram_size), pace=DraftPace(free=True),
        most=min(params.draft_tokens, model.micro_batch - 1, ROLLBACK), context_length=model.context_length,
        ends_answer=model.vocabulary.ends_answer,
    )  # fmt: skip
