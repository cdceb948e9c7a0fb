"""How long Stop may take."""

from __future__ import annotations

import pytest

from desktop.stop_patience import StopPatience


def after(gaps: list[float], least: float = 3.0) -> float:
    times = iter([sum(gaps[:n]) for n in range(len(gaps) + 1)])
    patience = StopPatience(least, clock=lambda: next(times))
    patience.begin()
    for n in range(len(gaps) + 1):
        patience.token(n + 1)
    assert patience.n_tokens == len(gaps) + 1
    return patience.seconds


@pytest.mark.parametrize(
    ("gaps", "seconds"),
    [([], 3.0), ([0.02] * 9, 3.0), ([0.5, 4.0, 0.5], 8.0), ([60.0], 15.0)],
    ids=["nothing yet", "fast", "a token takes four seconds", "the machine is swapping"],
)
def test_a_slow_model_gets_twice_its_slowest_token(gaps: list[float], seconds: float) -> None:
    assert after(gaps) == pytest.approx(seconds)


def test_the_next_answer_is_measured_anew() -> None:
    times = iter([0.0, 5.0, 6.0])
    patience = StopPatience(clock=lambda: next(times))
    patience.token(1)
    patience.token(2)
    patience.begin()
    patience.token(1)
    assert (patience.seconds, patience.n_tokens) == (3.0, 1)
