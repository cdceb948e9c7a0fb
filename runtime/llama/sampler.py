"""Builds llama.cpp's C sampler chain from `SamplingParams`. Knows nothing about text or the cache.

The order of the chain is llama.cpp's own default: penalties, DRY, top-n-sigma, top-k, typical-p, top-p, min-p, XTC,
temperature, draw. Mirostat takes only the temperature before it; adaptive-p takes the place of the draw.
"""

from __future__ import annotations

import ctypes
import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from runtime.llama.vocabulary import Vocabulary
from runtime.params import SamplingParams

_MAX_SEED = 0xFFFFFFFE  # 0xFFFFFFFF asks llama.cpp for a random seed, which would then be unknown
_MIN_KEEP = 1
_MIROSTAT_M = 100  # candidates in Mirostat 1's estimate, as in its paper (arXiv:2007.14966) and llama.cpp


def used_seed(params: SamplingParams) -> int:
    """Returns the seed that the draw will use: the one asked for, or a fresh one."""
    return secrets.randbelow(_MAX_SEED + 1) if params.seed < 0 else params.seed


class SamplerChain:
    """Owns one C sampler chain. Control tokens never enter the history that penalties look at."""

    def __init__(
        self, library: Any, vocabulary: Vocabulary, params: SamplingParams, *, seed: int, context_length: int
    ) -> None:
        self._library = library
        self._vocabulary = vocabulary
        self._params = params
        self._context_length = context_length
        self._history: list[int] = []
        self._remembering: list[Any] = []
        chain_params = library.llama_sampler_chain_default_params()
        chain_params.no_perf = True
        self._chain = library.llama_sampler_chain_init(chain_params)
        for sampler in self._samplers(seed):
            library.llama_sampler_chain_add(self._chain, sampler)

    def remember(self, ids: Sequence[int]) -> None:
        """Tells penalties and DRY what was said before the answer, without its control tokens."""
        if not self._remembering:
            return
        plain = [token for token in ids if token not in self._vocabulary.control_ids]
        for token in plain[-self._longest_window() :]:
            self._history.append(token)
            self._tell(token)

    def sample(self, context: Any) -> int:
        """Draws the next token from the context's last logits."""
        token: int = self._library.llama_sampler_sample(self._chain, context, -1)
        if self._remembering:
            self._note(token)
        return token

    def close(self) -> None:
        if self._chain is not None:
            self._library.llama_sampler_free(self._chain)
            self._chain = None

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

    def _samplers(self, seed: int) -> Iterable[Any]:
        lib, p = self._library, self._params
        yield from self._suppression()
        if p.mirostat != "0" and not p.greedy:
            yield lib.llama_sampler_init_temp(p.temperature)
            yield self._mirostat(seed)
            return
        yield from self._penalties()
        if p.greedy:
            yield lib.llama_sampler_init_greedy()
            return
        yield from self._filters(seed)
        yield lib.llama_sampler_init_temp_ext(p.temperature, p.dynatemp_range, p.dynatemp_exponent)
        yield self._draw(seed)

    def _suppression(self) -> Iterable[Any]:
        ids = self._vocabulary.suppressed
        if ids:
            biases = (self._library.llama_logit_bias * len(ids))()
            for slot, token in zip(biases, ids, strict=True):
                slot.token, slot.bias = token, -math.inf
            yield self._library.llama_sampler_init_logit_bias(self._vocabulary.size, len(ids), biases)

    def _penalties(self) -> Iterable[Any]:
        lib, p = self._library, self._params
        window = self._window(p.penalty_window)
        if window > 0 and (p.repeat_penalty, p.frequency_penalty, p.presence_penalty) != (1.0, 0.0, 0.0):
            yield self._keep(
                lib.llama_sampler_init_penalties(
                    self._vocabulary.size, window, p.repeat_penalty, p.frequency_penalty, p.presence_penalty
                )
            )
        if p.dry_multiplier > 0 and self._window(p.dry_window) > 0:
            yield self._keep(self._dry())

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

    def _filters(self, seed: int) -> Iterable[Any]:
        lib, p = self._library, self._params
        table: tuple[tuple[bool, Callable[[], Any]], ...] = (
            (p.top_n_sigma > 0, lambda: lib.llama_sampler_init_top_n_sigma(p.top_n_sigma)),
            (p.top_k > 0, lambda: lib.llama_sampler_init_top_k(min(p.top_k, self._vocabulary.size))),
            (p.typical_p < 1, lambda: lib.llama_sampler_init_typical(p.typical_p, _MIN_KEEP)),
            (p.top_p < 1, lambda: lib.llama_sampler_init_top_p(p.top_p, _MIN_KEEP)),
            (p.min_p > 0, lambda: lib.llama_sampler_init_min_p(p.min_p, _MIN_KEEP)),
            (
                p.xtc_probability > 0,
                lambda: lib.llama_sampler_init_xtc(p.xtc_probability, p.xtc_threshold, _MIN_KEEP, seed),
            ),
        )
        return (make() for wanted, make in table if wanted)

    def _mirostat(self, seed: int) -> Any:
        lib, p = self._library, self._params
        if p.mirostat == "1":
            return lib.llama_sampler_init_mirostat(
                self._vocabulary.size, seed, p.mirostat_tau, p.mirostat_eta, _MIROSTAT_M
            )
        return lib.llama_sampler_init_mirostat_v2(seed, p.mirostat_tau, p.mirostat_eta)

    def _draw(self, seed: int) -> Any:
        p = self._params
        if p.adaptive_p_target >= 0:
            return self._library.llama_sampler_init_adaptive_p(p.adaptive_p_target, p.adaptive_p_decay, seed)
        return self._library.llama_sampler_init_dist(seed)
