"""The figures of a comparison, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convert.quality import Comparison, Position


def softmax(row: np.ndarray) -> np.ndarray:
    weights = np.exp(row.astype(np.float64) - row.max())
    return weights / weights.sum()


def compared(reference: np.ndarray, candidate: np.ndarray, targets: list[int], step: int = 3) -> Comparison:
    found = Comparison()
    positions = [Position(at, target) for at, target in enumerate(targets)]
    for start in range(0, len(targets), step):
        piece = slice(start, start + step)
        found.add(reference[piece].astype(np.float32), candidate[piece].astype(np.float32), positions[piece])
    return found


@pytest.fixture
def logits() -> tuple[np.ndarray, np.ndarray, list[int]]:
    rng = np.random.default_rng(3)
    reference = rng.normal(0, 4, (40, 97)).astype(np.float32)
    candidate = reference + rng.normal(0, 0.5, reference.shape).astype(np.float32)
    return reference, candidate, rng.integers(0, 97, 40).tolist()


def test_the_figures_follow_their_definitions(logits: tuple[np.ndarray, np.ndarray, list[int]]) -> None:
    reference, candidate, targets = logits
    p, q = [softmax(row) for row in reference], [softmax(row) for row in candidate]
    kl = [sum(a * math.log(a / b) for a, b in zip(x, y, strict=True)) for x, y in zip(p, q, strict=True)]
    change = [y[t] - x[t] for x, y, t in zip(p, q, targets, strict=True)]
    found = compared(reference, candidate, targets).quality()
    assert found.tokens == 40
    assert found.kl.mean == pytest.approx(np.mean(kl), rel=1e-4)
    assert found.kl.median == pytest.approx(np.median(kl), rel=1e-4)
    assert found.kl.max == pytest.approx(max(kl), rel=1e-4)
    assert found.kl.p99 == pytest.approx(np.quantile(kl, 0.99), rel=1e-4)
    assert found.probability_rms == pytest.approx(math.sqrt(np.mean(np.square(change))), rel=1e-4)
    assert found.top1_agreement == np.mean([x.argmax() == y.argmax() for x, y in zip(p, q, strict=True)])
    expected = math.exp(-np.mean([math.log(x[t]) for x, t in zip(p, targets, strict=True)]))
    assert found.perplexity.reference == pytest.approx(expected, rel=1e-5)
    assert found.perplexity.ratio == pytest.approx(found.perplexity.candidate / expected, rel=1e-5)


def test_equal_models_do_not_diverge(logits: tuple[np.ndarray, np.ndarray, list[int]]) -> None:
    reference, _candidate, targets = logits
    found = compared(reference, reference, targets).quality()
    assert (found.kl.max, found.top1_agreement, found.probability_rms, found.perplexity.ratio) == (0, 1, 0, 1)


def test_the_worst_positions_are_kept_in_order(logits: tuple[np.ndarray, np.ndarray, list[int]]) -> None:
    reference, candidate, targets = logits
    candidate = candidate.copy()
    candidate[17] = -reference[17]
    candidate[5] = 0
    found = compared(reference, candidate, targets)
    assert [one.position.at for one in found.worst[:2]] == [17, 5]
    assert found.worst[0].reference == reference[17].argmax()
    assert found.worst[0].candidate == reference[17].argmin()
    assert len(found.worst) == 5


def test_a_token_that_only_the_candidate_forbids_diverges_without_end() -> None:
    reference, candidate = np.zeros((1, 4), np.float32), np.array([[0, 0, 0, -np.inf]], np.float32)
    assert compared(reference, candidate, [0]).quality().kl.max == math.inf
    both = compared(candidate, candidate, [0]).quality()
    assert (both.kl.max, both.top1_agreement) == (0, 1)
