"""Draws a token sampler by sampler, where llama.cpp's chain alone cannot: under a constraint, or to show the draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.draw_trace import CONSTRAINT, GREEDY, DrawTrace
from runtime.llama.candidates import Candidates
from runtime.llama.constraint import Constraint, GrammarConstraint
from runtime.llama.shortlist import Shortlist
from runtime.llama.vocabulary import Vocabulary
from runtime.logits import require_numbers
from runtime.params import SamplingParams
from runtime.protocol import TokenDrawn

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
        trace = DrawTrace(logits, self._alternatives) if self._alternatives else None
        scoring = [stage for stage in self._stages if stage[0] in _SCORING]
        choosing = [stage for stage in self._stages if stage[0] not in _SCORING]
        self._apply(scoring, candidates, trace)
        candidates.drop_impossible()
        if self._constraint is not None:
            candidates = self._narrowed(candidates, trace)
        if not len(candidates):
            return None
        self._apply(choosing, candidates, trace)
        self.drawn = trace.result(candidates.selected, *_columns(candidates), self._vocabulary) if trace else None
        return candidates.selected

    def _apply(self, stages: Sequence[tuple[str, Any]], candidates: Candidates, trace: DrawTrace | None) -> None:
        for name, sampler in stages:
            if name == "typical_p":
                candidates.drop_impossible()  # top-n-sigma leaves tokens of probability 0, whose logarithm spoils it
            candidates.apply(sampler)
            if trace:
                if name == GREEDY:
                    candidates.keep_selected()
                trace.note(name, *_columns(candidates))

    def _narrowed(self, candidates: Candidates, trace: DrawTrace | None) -> Candidates:
        assert self._constraint is not None
        if self._shortlist is not None:
            return self._shortlist.narrow(candidates, self._constraint)
        self._constraint.narrow(candidates)
        if trace:
            trace.note(CONSTRAINT, *_columns(candidates))
        return candidates


def _columns(candidates: Candidates) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    return candidates.rows["id"], candidates.rows["logit"]
