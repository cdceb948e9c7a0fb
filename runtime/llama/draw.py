"""Draws an answer's tokens from a llama.cpp context with a sampler chain. Implements `runtime.evaluation.Draw`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.evaluation import LAST
from runtime.llama.logits import check_score, check_scores
from runtime.llama.model import LlamaModel
from runtime.llama.sampler import SamplerChain
from runtime.protocol import TokenDrawn


class ContextDraw:
    """Draws from the scores that lie in the model's context. Owns the sampler."""

    def __init__(self, model: LlamaModel, sampler: SamplerChain) -> None:
        self._model = model
        self._context = model.context
        self._scores_at = model.library.llama_get_logits_ith
        self._sampler = sampler

    @property
    def drawn(self) -> TokenDrawn | None:
        return self._sampler.drawn

    def remember(self, ids: Sequence[int]) -> None:
        self._sampler.remember(ids)

    def check(self) -> None:
        check_scores(self._scores(LAST), self._model.vocabulary.size)

    def draw(self, row: int = LAST) -> int | None:
        token = self._sampler.sample(self._context, row)
        if token is not None:
            check_score(self._scores(row), token)
        return token

    def close(self) -> None:
        self._sampler.close()

    def _scores(self, row: int) -> Any:
        return self._scores_at(self._context, row)
