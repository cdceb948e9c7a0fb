"""Draws the next token from the model's scores, as `SamplingParams` say. Knows no model and no text.

The order is every engine's: logit bias, penalties, DRY, grammar or schema, top-n-sigma, top-k, typical-p, top-p, min-p,
XTC, temperature, draw. (The grammar is asked after the penalties, which change each token's score for itself: the
result is that of asking it before.) Mirostat takes only biases, the grammar and the temperature; adaptive-p takes the
place of the draw. At temperature 0 nothing is filtered and no chance is involved.

It runs in numpy on the processor: after top-k there are 40 numbers left, which a tensor library only makes slower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from runtime import biases
from runtime.draw_trace import CONSTRAINT, GREEDY, DrawTrace
from runtime.logits import require_numbers
from runtime.native import samplers
from runtime.native.candidates import Candidates, Scores, best_first
from runtime.native.dry import Breakers, Dry, breakers_of
from runtime.native.generator import Generator
from runtime.native.last_draw import AdaptiveP, Draw, Greedy, Mirostat1, Mirostat2, PlainDraw
from runtime.native.penalties import Penalties
from runtime.native.samplers import Sampler
from runtime.params import SamplingParams
from runtime.protocol import TokenDrawn
from runtime.shortlist import SIZES, Shortlist


class Vocabulary(biases.Vocabulary, Protocol):
    """What is asked of a tokenizer."""

    @property
    def control_ids(self) -> Collection[int]: ...

    @property
    def suppressed(self) -> Sequence[int]: ...

    def raw_piece(self, token: int) -> bytes: ...


class Constraint(Protocol):
    """What the next token may be: a grammar or a schema, on its way through an answer."""

    @property
    def is_quick(self) -> bool:
        """Whether `allowed` takes less than a millisecond, whatever is allowed."""
        ...

    def allowed(self) -> NDArray[np.bool_]:
        """Returns for every token (V,) whether it may come now; none may be left."""
        ...

    def allowed_of(self, ids: Iterable[int]) -> NDArray[np.bool_]:
        """Returns for each of some tokens (n,) whether it may come now."""
        ...

    def accept(self, token: int) -> None:
        """Goes on past a token that was allowed and drawn."""
        ...

    def close(self) -> None: ...


class _Memory(Protocol):
    """A sampler that changes scores (V,) in place by what was said before."""

    def add(self, token: int) -> None: ...

    def apply(self, scores: Scores) -> None: ...


class TokenSampler:
    """Draws the tokens of one answer. Control tokens never enter the history that penalties look at."""

    def __init__(
        self, vocabulary: Vocabulary, params: SamplingParams, *, seed: int, context_length: int,
        constrain: Callable[[], Constraint] | None = None, alternatives: int = 0, breakers: Breakers | None = None,
    ) -> None:  # fmt: skip
        """`constrain` makes what the answer is held to; this object owns it. `breakers` spares looking for DRY's.

        Raises `BadBias`, and what `constrain` raises.
        """
        self._vocabulary = vocabulary
        self._params = params
        self._context_length = context_length
        self._ids = np.arange(vocabulary.size, dtype=np.int32)
        self._biases = self._bias_table()
        self._memories = dict(self._made_memories(breakers)) if params.greedy or params.mirostat == "0" else {}
        self._filters = [] if params.greedy else list(self._made_filters(seed))
        self._draw_name, self._draw = self._made_draw(seed)
        self._shortlist = Shortlist(params)
        self._alternatives = min(alternatives, vocabulary.size)
        self._constraint = constrain() if constrain is not None else None
        self.drawn: TokenDrawn | None = None  # how the last token was drawn, where that was asked for

    def remember(self, ids: Sequence[int]) -> None:
        """Tells penalties and DRY what was said before the answer, without its control tokens."""
        if self._memories:
            plain = [token for token in ids if token not in self._vocabulary.control_ids]
            for token in plain[-max(self._window(-1), 1) :]:
                self._note(token)

    def sample(self, logits: Scores) -> int | None:
        """Draws the next token from scores (V,) in f32; None where the constraint allows none.

        Raises `InvalidNumbers` where a score is no number, and what the constraint raises.
        """
        require_numbers(logits)
        trace = DrawTrace(logits, self._alternatives) if self._alternatives else None
        candidates = self._candidates(logits, trace)
        if not len(candidates):
            return None
        for name, apply in self._filters:
            apply(candidates)
            _note(trace, name, candidates)
        place = self._draw.choose(candidates)  # may narrow the candidates first
        token = int(candidates.ids[place])
        _note(trace, self._draw_name, candidates)
        self.drawn = trace.result(token, candidates.ids, candidates.logits, self._vocabulary) if trace else None
        self._accept(token)
        return token

    def close(self) -> None:
        if self._constraint is not None:
            self._constraint.close()

    def _candidates(self, logits: Scores, trace: DrawTrace | None) -> Candidates:
        """Returns the tokens that may come, with their scores after biases and penalties."""
        scores = logits.copy() if self._memories or len(self._biases[0]) else logits
        if len(self._biases[0]):
            scores[self._biases[0]] += self._biases[1]
            _note(trace, "logit_bias", Candidates(self._ids, scores))
        for memory in self._memories.values():
            memory.apply(scores)
        candidates = Candidates(self._ids, scores)
        if self._constraint is not None:
            self._constrain(candidates, self._constraint)
            _note(trace, CONSTRAINT, candidates)
        elif len(self._biases[0]) and not candidates.highest > -math.inf:
            candidates.keep(slice(0))
        return candidates

    def _constrain(self, candidates: Candidates, constraint: Constraint) -> None:
        """Leaves the allowed candidates, or some of them that the filters cannot tell from all of them."""
        candidates.keep((candidates.logits > -math.inf).nonzero()[0])
        size = SIZES[0]
        if not constraint.is_quick and self._shortlist.usable and not self._alternatives and size < len(candidates):
            best = best_first(candidates.logits, size)
            allowed = best[constraint.allowed_of(candidates.ids[best].tolist())]
            if self._shortlist.settles(
                candidates.logits[allowed], float(candidates.logits[best[-1]]), unseen=len(candidates) - size
            ):
                candidates.keep(np.sort(allowed))
                return
        candidates.keep(constraint.allowed()[candidates.ids].nonzero()[0])

    def _accept(self, token: int) -> None:
        if token not in self._vocabulary.control_ids:
            self._note(token)
        if self._constraint is not None:
            self._constraint.accept(token)

    def _note(self, token: int) -> None:
        for memory in self._memories.values():
            memory.add(token)

    def _window(self, setting: int) -> int:
        return self._context_length if setting < 0 else min(setting, self._context_length)

    def _bias_table(self) -> tuple[NDArray[np.intp], Scores]:
        table = dict.fromkeys(self._vocabulary.suppressed, -math.inf)
        table |= biases.resolved(self._params.logit_bias, self._vocabulary)
        return np.array(list(table), np.intp), np.array(list(table.values()), np.float32)

    def _made_memories(self, breakers: Breakers | None) -> Iterator[tuple[str, _Memory]]:
        p = self._params
        window = self._window(p.penalty_window)
        if window > 0 and (p.repeat_penalty, p.frequency_penalty, p.presence_penalty) != (1.0, 0.0, 0.0):
            yield "penalties", Penalties(
                window=window, repeat=p.repeat_penalty, frequency=p.frequency_penalty, presence=p.presence_penalty
            )
        window = self._window(p.dry_window)
        if p.dry_multiplier > 0 and window > 0:
            found = breakers_of(p.dry_breakers, self._vocabulary) if breakers is None else breakers
            yield "dry", Dry(
                window=window, multiplier=p.dry_multiplier, base=p.dry_base, allowed_length=p.dry_allowed_length,
                breakers=found,
            )  # fmt: skip

    def _made_filters(self, seed: int) -> Iterator[tuple[str, Sampler]]:
        """Yields the samplers that are on, in their order."""
        p = self._params
        if p.mirostat != "0":
            yield "temperature", samplers.temperature(p.temperature)
            return
        table: tuple[tuple[str, bool, Callable[[], Sampler]], ...] = (
            ("top_n_sigma", p.top_n_sigma > 0, lambda: samplers.top_n_sigma(p.top_n_sigma)),
            ("top_k", p.top_k > 0, lambda: samplers.top_k(p.top_k)),
            ("typical_p", p.typical_p < 1, lambda: samplers.typical_p(p.typical_p)),
            ("top_p", p.top_p < 1, lambda: samplers.top_p(p.top_p)),
            ("min_p", p.min_p > 0, lambda: samplers.min_p(p.min_p)),
            (
                "xtc", p.xtc_probability > 0 and p.xtc_threshold <= 0.5,
                lambda: samplers.xtc(p.xtc_probability, p.xtc_threshold, Generator(seed)),
            ),
        )
        yield from ((name, make()) for name, wanted, make in table if wanted)
        yield "temperature", self._temperature()

    def _temperature(self) -> Sampler:
        p = self._params
        if p.dynatemp_range > 0:
            return samplers.dynamic_temperature(p.temperature, p.dynatemp_range, p.dynatemp_exponent)
        return samplers.temperature(p.temperature)

    def _made_draw(self, seed: int) -> tuple[str, Draw]:
        p = self._params
        if p.greedy:
            return GREEDY, Greedy()
        if p.mirostat == "1":
            size = self._vocabulary.size
            return "mirostat", Mirostat1(Generator(seed), tau=p.mirostat_tau, eta=p.mirostat_eta, n_vocab=size)
        if p.mirostat == "2":
            return "mirostat", Mirostat2(Generator(seed), tau=p.mirostat_tau, eta=p.mirostat_eta)
        if p.adaptive_p_target >= 0:
            return "adaptive_p", AdaptiveP(Generator(seed), target=p.adaptive_p_target, decay=p.adaptive_p_decay)
        return "draw", PlainDraw(Generator(seed))


def _note(trace: DrawTrace | None, stage: str, candidates: Candidates) -> None:
    if trace is not None:
        trace.note(stage, candidates.ids, candidates.logits)
