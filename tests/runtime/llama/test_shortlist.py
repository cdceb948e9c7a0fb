"""A shortlist of candidates gives what all candidates would give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runtime.llama.candidates import Candidates
from runtime.llama.library import load_library
from runtime.llama.shortlist import Shortlist
from runtime.params import SamplingParams

V = 20_000


class Allowing:
    """Allows given tokens, and counts the candidates it was asked about."""

    def __init__(self, allowed: np.ndarray) -> None:
        self.allowed = allowed  # (V,) of bool
        self.asked = 0

    def narrow(self, candidates: Candidates) -> None:
        self.asked += len(candidates)
        candidates.keep(self.allowed[candidates.rows["id"]])

    def accept(self, token: int) -> None:
        raise AssertionError("nothing is drawn here")

    def close(self) -> None:
        raise AssertionError("nothing is drawn here")


def kept(candidates: Candidates, params: SamplingParams) -> list[int]:
    """Returns what the filters leave, in order."""
    library: Any = load_library()
    filters = [
        (params.greedy, lambda: library.llama_sampler_init_top_k(1)),
        (not params.greedy and params.top_k > 0, lambda: library.llama_sampler_init_top_k(params.top_k)),
        (params.top_p < 1, lambda: library.llama_sampler_init_top_p(params.top_p, 1)),
        (params.min_p > 0, lambda: library.llama_sampler_init_min_p(params.min_p, 1)),
    ]
    for _wanted, make in (row for row in filters if row[0]):
        sampler = make()
        candidates.apply(sampler)
        library.llama_sampler_free(sampler)
    return sorted(candidates.rows["id"].tolist())


SETTINGS = [
    {},
    {"temperature": 0.0},
    {"top_k": 0},
    {"top_k": 0, "top_p": 1.0},
    {"top_p": 1.0},
    {"min_p": 0.0},
    {"top_k": 300, "min_p": 0.0},
    {"top_k": 0, "min_p": 0.0, "top_p": 0.5},
    {"top_k": 5, "top_p": 0.999},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("share", [0.9, 0.1, 0.01, 0.0005])
def test_the_filters_leave_the_same_candidates(settings: dict[str, float], share: float) -> None:
    params = SamplingParams(**settings).validated()  # type: ignore[arg-type]
    library = load_library()
    rng = np.random.default_rng(int(share * 10_000))
    for spread in (0.1, 1.0, 3.0, 8.0):
        logits = rng.normal(0, spread, V).astype(np.float32)
        constraint = Allowing(rng.random(V) < share)
        few = Shortlist(params).narrow(Candidates.of_logits(library, logits), constraint)
        all_of_them = Candidates.of_logits(library, logits)
        constraint.narrow(all_of_them)
        assert kept(few, params) == kept(all_of_them, params)


def test_usual_settings_ask_about_few_candidates() -> None:
    params, library = SamplingParams(), load_library()
    logits = np.random.default_rng(1).normal(0, 3, V).astype(np.float32)
    most, one = Allowing(np.random.default_rng(2).random(V) < 0.9), Allowing(np.zeros(V, bool))
    one.allowed[7], logits[7] = True, 20.0
    for constraint in (most, one):
        Shortlist(params).narrow(Candidates.of_logits(library, logits), constraint)
        assert constraint.asked == 256


def test_where_nothing_can_be_proven_all_are_asked() -> None:
    logits = np.random.default_rng(1).normal(0, 3, V).astype(np.float32)
    for settings in ({"typical_p": 0.5, "top_k": 0}, {"top_n_sigma": 1.0}, {"mirostat": "2"}):
        constraint = Allowing(np.ones(V, bool))
        params = SamplingParams(**settings).validated()  # type: ignore[arg-type]
        narrowed = Shortlist(params).narrow(Candidates.of_logits(load_library(), logits), constraint)
        assert len(narrowed) == V
