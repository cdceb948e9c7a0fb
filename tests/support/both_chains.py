"""Runs llama.cpp's samplers and ours on the same scores, and compares what they leave and what they draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from runtime.llama.candidates import Candidates
from runtime.llama.library import load_library
from runtime.llama.sampler import SamplerChain
from runtime.native import candidates as native_candidates
from runtime.native.sampling import TokenSampler
from runtime.params import SamplingParams

OFF: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0}
DRAWS = ("draw", "greedy", "mirostat", "adaptive_p")


class Numbers:
    """A vocabulary without words: tokens are numbers. `control_ids` are its control tokens."""

    handle = None

    def __init__(self, size: int, control_ids: Sequence[int] = (), suppressed: Sequence[int] = ()) -> None:
        self.size = size
        self.control_ids = frozenset(control_ids)
        self.control_tokens = {f"<{token}>": token for token in control_ids}
        self.suppressed = tuple(suppressed)

    def tokenize(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def piece(self, token: int) -> bytes:
        return b"" if token in self.control_ids else b"t%d" % token

    raw_piece = piece

    def label(self, token: int) -> str:
        return f"t{token}"


class Reference:
    """llama.cpp's samplers for some settings, in their order, one by one."""

    def __init__(self, vocabulary: Any, params: SamplingParams, *, seed: int, context_length: int = 512) -> None:
        self._library = load_library()
        self._vocabulary = vocabulary
        self._chain = SamplerChain(self._library, vocabulary, params, seed=seed, context_length=context_length)
        self.stages = list(self._chain._samplers(seed))  # of our own making, beside those in the chain
        self._remembering = [sampler for name, sampler in self.stages if name in ("penalties", "dry")]

    def remember(self, ids: Sequence[int]) -> None:
        for token in ids:
            if token not in self._vocabulary.control_ids:
                for sampler in self._remembering:
                    self._library.llama_sampler_accept(sampler, token)

    def survivors(self, logits: np.ndarray) -> Candidates:
        """Returns what all samplers but the draw leave."""
        left = Candidates.of_logits(self._library, logits)
        for name, sampler in self.stages:
            if name not in DRAWS:
                left.apply(sampler)
        return left

    def sample(self, logits: np.ndarray) -> int:
        left = Candidates.of_logits(self._library, logits)
        for _name, sampler in self.stages:
            left.apply(sampler)
        token = left.selected
        for _name, sampler in self.stages:
            if sampler not in self._remembering or token not in self._vocabulary.control_ids:
                self._library.llama_sampler_accept(sampler, token)
        return token

    def close(self) -> None:
        for _name, sampler in self.stages:
            self._library.llama_sampler_free(sampler)
        self._chain.close()


class Both:
    """Both chains for the same settings."""

    def __init__(self, vocabulary: Any, *, seed: int = 7, context_length: int = 512, **settings: Any) -> None:
        params = SamplingParams(**{**OFF, **settings}).validated()
        self.theirs = Reference(vocabulary, params, seed=seed, context_length=context_length)
        self.ours = TokenSampler(vocabulary, params, seed=seed, context_length=context_length)

    def remember(self, ids: Sequence[int]) -> None:
        self.theirs.remember(ids)
        self.ours.remember(ids)

    def check_survivors(self, logits: np.ndarray, **allowing: Any) -> int:
        """Asserts that both leave the same candidates with the same probabilities, as `same` does."""
        theirs = self.theirs.survivors(logits)
        ours = self.ours._candidates(logits, None)
        for _name, apply in self.ours._filters:
            apply(ours)
        return same(theirs, ours, **allowing)

    def check_draw(self, logits: np.ndarray) -> int:
        """Asserts that both draw the same token, which both then remember; returns it."""
        theirs, ours = self.theirs.sample(logits), self.ours.sample(logits)
        assert ours == theirs
        return theirs

    def close(self) -> None:
        self.theirs.close()
        self.ours.close()


def same(theirs: Candidates, ours: native_candidates.Candidates, *, ordered: bool = True, at_edge: int = 0) -> int:
    """Asserts that two lists hold the same tokens with the same probabilities, and returns how many.

    With `ordered`, in the same order too; `at_edge` tokens may be in one of them only.
    """
    possible, mine = theirs.rows["logit"] > -np.inf, ours.logits > -np.inf
    ids, our_ids = theirs.rows["id"][possible], ours.ids[mine]
    assert len(np.setxor1d(ids, our_ids)) <= at_edge
    assert not ordered or ids.tolist() == our_ids.tolist()
    before = dict(zip(ids.tolist(), probabilities(theirs.rows["logit"][possible]), strict=True))
    after = dict(zip(our_ids.tolist(), probabilities(ours.logits[mine]), strict=True))
    lost = sum(p for each in (before, after) for token, p in each.items() if not (token in before and token in after))
    assert max(abs(before[token] - after[token]) for token in before.keys() & after.keys()) < 1e-5 + lost
    return len(ids)


def probabilities(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores.astype(np.float64) - float(scores.max()))
    return np.asarray(weights / weights.sum())


def unlike(rng: np.random.Generator, size: int, *, flat: bool = True) -> np.ndarray:
    """Returns scores (size,) of some shape that a model's may have, also nearly `flat` ones; no two are equal."""
    shapes = (
        lambda n: rng.normal(0, 3, n),
        lambda n: rng.normal(0, 1, n) + np.where(rng.random(n) < 0.001, rng.uniform(0, 20, n), 0),
        lambda n: rng.normal(0, 0.3, n) - 2 * np.log(rng.permutation(n) + 1),
        lambda n: rng.normal(-5, 0.2, n),
    )
    found = np.unique(shapes[rng.integers(len(shapes) if flat else 1)](2 * size).astype(np.float32))
    return rng.permutation(found)[:size]
