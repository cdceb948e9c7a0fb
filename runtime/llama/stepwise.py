"""Draws a token sampler by sampler, where llama.cpp's chain alone cannot: under a constraint, or to show the draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.llama.candidates import Candidates
from runtime.llama.constraint import Constraint, GrammarConstraint
from runtime.llama.logits import require_numbers
from runtime.llama.shortlist import Shortlist
from runtime.llama.vocabulary import Vocabulary
from runtime.params import SamplingParams
from runtime.protocol import Alternative, TokenDrawn

CONSTRAINT = "grammar"  # the stage's name, for a schema too
GREEDY = "greedy"


# Samplers that change scores, each token's for itself, and drop nothing: the constraint is asked after them.
_SCORING = frozenset({"logit_bias", "penalties", "dry"})


class StepwiseDraw:
    """Draws with the same samplers, in the same order, as the chain that owns them."""

    def __init__(
        self, library: Any, vocabulary: Vocabulary, stages: Sequence[tuple[str, Any]], params: SamplingParams, *,
        constraint: Constraint | None, alternatives: int,
    ) -> None:  # fmt: skip
        self._library = library
        self._vocabulary = vocabulary
        self._stages = stages
        self._constraint = constraint
        self._shortlist = Shortlist(params) if isinstance(constraint, GrammarConstraint) and not alternatives else None
        self._alternatives = min(alternatives, vocabulary.size)
        self.drawn: TokenDrawn | None = None  # how the last token was drawn, where that was asked for

    def draw(self, pointer: Any) -> int | None:
        """Returns the next token from the logits at `pointer`, or None where nothing is allowed."""
        logits = np.ctypeslib.as_array(pointer, (self._vocabulary.size,))
        require_numbers(logits)
        candidates = Candidates.of_logits(self._library, logits)
        trace = _Trace(logits, self._alternatives) if self._alternatives else None
        scoring = [stage for stage in self._stages if stage[0] in _SCORING]
        choosing = [stage for stage in self._stages if stage[0] not in _SCORING]
        self._apply(scoring, candidates, trace)
        candidates.drop_impossible()
        if self._constraint is not None:
            candidates = self._narrowed(candidates, trace)
        if not len(candidates):
            return None
        self._apply(choosing, candidates, trace)
        self.drawn = trace.result(candidates, self._vocabulary) if trace else None
        return candidates.selected

    def _apply(self, stages: Sequence[tuple[str, Any]], candidates: Candidates, trace: _Trace | None) -> None:
        for name, sampler in stages:
            candidates.apply(sampler)
            if trace:
                if name == GREEDY:
                    candidates.keep_selected()
                trace.note(name, candidates)

    def _narrowed(self, candidates: Candidates, trace: _Trace | None) -> Candidates:
        assert self._constraint is not None
        if self._shortlist is not None:
            return self._shortlist.narrow(candidates, self._constraint)
        self._constraint.narrow(candidates)
        if trace:
            trace.note(CONSTRAINT, candidates)
        return candidates


class _Trace:
    """Follows the likeliest tokens through the samplers."""

    def __init__(self, logits: NDArray[np.float32], count: int) -> None:
        self._count = count
        self._before = _softmax(logits)
        chosen = np.argpartition(self._before, len(logits) - count)[len(logits) - count :]
        self._followed = {int(token) for token in chosen}
        self._removed_by: dict[int, str] = {}

    def note(self, stage: str, candidates: Candidates) -> None:
        left_of_all = np.zeros(len(self._before), bool)
        left_of_all[candidates.rows["id"][candidates.rows["logit"] > -np.inf]] = True
        left = {token for token in self._followed if left_of_all[token]}
        self._removed_by |= dict.fromkeys(self._followed - left, stage)
        self._followed = left

    def result(self, candidates: Candidates, vocabulary: Vocabulary) -> TokenDrawn:
        rows = candidates.rows
        after = dict(zip(rows["id"].tolist(), _softmax(rows["logit"]).tolist(), strict=True))
        best = sorted(after, key=lambda token: -after[token])[: self._count]
        token = candidates.selected
        shown = sorted({*self._removed_by, *self._followed, *best, token}, key=lambda token: -self._before[token])
        listed = tuple(
            Alternative(
                token=each, text=vocabulary.label(each), before=float(self._before[each]),
                after=after.get(each, 0.0), removed_by=self._removed_by.get(each, ""),
            )
            for each in shown
        )  # fmt: skip
        return TokenDrawn(
            id=0, token=token, text=vocabulary.label(token), probability=after[token], alternatives=listed
        )


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns the probabilities (n,) of scores (n,), of which one at least is finite."""
    weights = np.exp(logits.astype(np.float64) - float(logits.max()))
    return np.asarray(weights / weights.sum())
