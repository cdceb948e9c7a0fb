"""Builds llama.cpp's C sampler chain from `SamplingParams`. Knows nothing about text or the cache.

The order of the chain: logit bias, grammar or schema, penalties, DRY, top-n-sigma, top-k, typical-p, top-p, min-p,
XTC, temperature, draw. Mirostat takes only what stands before the penalties, and the temperature; adaptive-p takes the
place of the draw. Biases, penalties and a grammar change each token's score for itself, so a grammar that is asked
after the penalties gives the same as one asked before.

The whole chain runs in one call of llama.cpp, unless something has to happen between its samplers (`stepwise`). Where
it begins with top-k or takes the likeliest token, it sees only the tokens that can win (`front_runners`).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from runtime import biases
from runtime.llama.vocabulary import Vocabulary
from runtime.params import SamplingParams
from runtime.protocol import TokenDrawn

if TYPE_CHECKING:
    from runtime.llama.constraint import Constraint
    from runtime.llama.front_runners import FrontRunners
    from runtime.llama.stepwise import StepwiseDraw

_MIN_KEEP = 1
_LARGE_VOCABULARY = 100_000  # tokens from which on seeking the front runners pays (both ways measured alternating)
_MIROSTAT_M = 100  # candidates in Mirostat 1's estimate, as in its paper (arXiv:2007.14966) and llama.cpp


class SamplerChain:
    """Owns one C sampler chain. Control tokens never enter the history that penalties look at."""

    def __init__(
        self,
        library: Any,
        vocabulary: Vocabulary,
        params: SamplingParams,
        *,
        seed: int,
        context_length: int,
        constrain: Callable[[], Constraint] | None = None,
        alternatives: int = 0,
    ) -> None:
        """`constrain` makes what the answer is held to, and the chain owns it. Raises `BadBias`, and what it raises."""
        self._library = library
        self._vocabulary = vocabulary
        self._params = params
        self._context_length = context_length
        self._history: list[int] = []
        self._remembering: list[Any] = []
        self._biases = dict.fromkeys(vocabulary.suppressed, -math.inf) | biases.resolved(params.logit_bias, vocabulary)
        self._constraint = constrain() if constrain is not None else None
        chain_params = library.llama_sampler_chain_default_params()
        chain_params.no_perf = True
        self._chain = library.llama_sampler_chain_init(chain_params)
        stages = list(self._samplers(seed))
        for _name, sampler in stages:
            library.llama_sampler_chain_add(self._chain, sampler)
        self._stepwise = self._steps(stages, alternatives)
        self._front_runners = self._front(stages[0][0]) if self._stepwise is None else None

    def _front(self, first: str) -> FrontRunners | None:
        count = {"top_k": self._params.top_k, "greedy": 1}.get(first, 0)
        if not count or self._vocabulary.size < _LARGE_VOCABULARY:
            return None
        from runtime.llama.front_runners import FrontRunners

        size = self._vocabulary.size
        return FrontRunners(self._library, size=size, count=count) if FrontRunners.serves(size, count) else None

    def _steps(self, stages: list[tuple[str, Any]], alternatives: int) -> StepwiseDraw | None:
        # llama.cpp's typical-p takes the logarithm of a probability of 0 where a token is forbidden.
        params = self._params
        forbids = params.typical_p < 1 and (params.top_n_sigma > 0 or -math.inf in self._biases.values())
        if self._constraint is None and alternatives <= 0 and not forbids:
            return None
        from runtime.llama.stepwise import StepwiseDraw  # brings numpy, which other answers do without

        return StepwiseDraw(
            self._library, self._vocabulary, stages, self._params,
            constraint=self._constraint, alternatives=alternatives,
        )  # fmt: skip

    @property
    def drawn(self) -> TokenDrawn | None:
        """How the last token was drawn, where that was asked for."""
        return self._stepwise.drawn if self._stepwise is not None else None

    def remember(self, ids: Sequence[int]) -> None:
        """Tells penalties and DRY what was said before the answer, without its control tokens."""
        if not self._remembering:
            return
        plain = [token for token in ids if token not in self._vocabulary.control_ids]
        for token in plain[-self._longest_window() :]:
            self._history.append(token)
            self._tell(token)

    def sample(self, context: Any, row: int = -1) -> int | None:
        """Draws the next token from the logits in this row of the context; None where the constraint allows none."""
        token = self._whole(context, row) if self._stepwise is None else self._step(self._stepwise, context, row)
        if self._remembering and token is not None:
            self._note(token)
        return token

    def _whole(self, context: Any, row: int) -> int:
        if self._front_runners is not None:
            token = self._front_runners.draw(self._chain, self._library.llama_get_logits_ith(context, row))
            if token is not None:
                return token
        drawn: int = self._library.llama_sampler_sample(self._chain, context, row)
        return drawn

    def _step(self, stepwise: StepwiseDraw, context: Any, row: int) -> int | None:
        token = stepwise.draw(self._library.llama_get_logits_ith(context, row))
        if token is not None:
            self._library.llama_sampler_accept(self._chain, token)
            if self._constraint is not None:
                self._constraint.accept(token)
        return token

    def close(self) -> None:
        if self._chain is not None:
            self._library.llama_sampler_free(self._chain)
            self._chain = None
            if self._constraint is not None:
                self._constraint.close()

    def _note(self, token: int) -> None:
        if token not in self._vocabulary.control_ids:
            self._history.append(token)
            return
        # The chain has taken the control token into its history by itself: tell it again without.
        for sampler in self._remembering:
            self._library.llama_sampler_reset(sampler)
        for old in self._history[-self._longest_window() :]:
            self._tell(old)

    def _tell(self, token: int) -> None:
        for sampler in self._remembering:
            self._library.llama_sampler_accept(sampler, token)

    def _longest_window(self) -> int:
        return max(self._window(self._params.penalty_window), self._window(self._params.dry_window), 1)

    def _window(self, setting: int) -> int:
        # llama.cpp's C functions take -1 as 0, that is off; here it means the whole context.
        return self._context_length if setting < 0 else min(setting, self._context_length)

    def _samplers(self, seed: int) -> Iterable[tuple[str, Any]]:
        """Yields the samplers with their names, in their order."""
        lib, p = self._library, self._params
        if self._biases:
            yield "logit_bias", self._bias_sampler()
        if p.mirostat != "0" and not p.greedy:
            yield "temperature", lib.llama_sampler_init_temp(p.temperature)
            yield "mirostat", self._mirostat(seed)
            return
        yield from self._penalties()
        if p.greedy:
            yield "greedy", lib.llama_sampler_init_greedy()
            return
        yield from self._filters(seed)
        yield "temperature", lib.llama_sampler_init_temp_ext(p.temperature, p.dynatemp_range, p.dynatemp_exponent)
        yield self._draw(seed)

    def _bias_sampler(self) -> Any:
        entries = (self._library.llama_logit_bias * len(self._biases))()
        for slot, (token, amount) in zip(entries, self._biases.items(), strict=True):
            slot.token, slot.bias = token, amount
        return self._library.llama_sampler_init_logit_bias(self._vocabulary.size, len(entries), entries)

    def _penalties(self) -> Iterable[tuple[str, Any]]:
        lib, p = self._library, self._params
        window = self._window(p.penalty_window)
        if window > 0 and (p.repeat_penalty, p.frequency_penalty, p.presence_penalty) != (1.0, 0.0, 0.0):
            penalties = lib.llama_sampler_init_penalties(
                self._vocabulary.size, window, p.repeat_penalty, p.frequency_penalty, p.presence_penalty
            )
            yield "penalties", self._keep(penalties)
        if p.dry_multiplier > 0 and self._window(p.dry_window) > 0:
            yield "dry", self._keep(self._dry())

    def _keep(self, sampler: Any) -> Any:
        self._remembering.append(sampler)
        return sampler

    def _dry(self) -> Any:
        p = self._params
        breakers = [text.encode("utf-8", "replace") for text in p.dry_breakers if text]
        array = (ctypes.c_char_p * len(breakers))(*breakers)
        return self._library.llama_sampler_init_dry(
            self._vocabulary.handle, p.dry_multiplier, p.dry_base, p.dry_allowed_length,
            self._window(p.dry_window), array, len(breakers),
        )  # fmt: skip

    def _filters(self, seed: int) -> Iterable[tuple[str, Any]]:
        lib, p = self._library, self._params
        table: tuple[tuple[str, bool, Callable[[], Any]], ...] = (
            ("top_n_sigma", p.top_n_sigma > 0, lambda: lib.llama_sampler_init_top_n_sigma(p.top_n_sigma)),
            ("top_k", p.top_k > 0, lambda: lib.llama_sampler_init_top_k(min(p.top_k, self._vocabulary.size))),
            ("typical_p", p.typical_p < 1, lambda: lib.llama_sampler_init_typical(p.typical_p, _MIN_KEEP)),
            ("top_p", p.top_p < 1, lambda: lib.llama_sampler_init_top_p(p.top_p, _MIN_KEEP)),
            ("min_p", p.min_p > 0, lambda: lib.llama_sampler_init_min_p(p.min_p, _MIN_KEEP)),
            (
                "xtc", p.xtc_probability > 0,
                lambda: lib.llama_sampler_init_xtc(p.xtc_probability, p.xtc_threshold, _MIN_KEEP, seed),
            ),
        )
        return ((name, make()) for name, wanted, make in table if wanted)

    def _mirostat(self, seed: int) -> Any:
        lib, p = self._library, self._params
        if p.mirostat == "1":
            return lib.llama_sampler_init_mirostat(
                self._vocabulary.size, seed, p.mirostat_tau, p.mirostat_eta, _MIROSTAT_M
            )
        return lib.llama_sampler_init_mirostat_v2(seed, p.mirostat_tau, p.mirostat_eta)

    def _draw(self, seed: int) -> tuple[str, Any]:
        p = self._params
        if p.adaptive_p_target >= 0:
            adaptive = self._library.llama_sampler_init_adaptive_p(p.adaptive_p_target, p.adaptive_p_decay, seed)
            return "adaptive_p", adaptive
        return "draw", self._library.llama_sampler_init_dist(seed)
