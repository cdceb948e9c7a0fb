"""Many people who do anything at any time: twenty seeds of five hundred actions on the real window."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import random_user

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.skipif(os.name != "posix", reason="signals and sessions of Unix"),
]
ACTIONS = 500


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(100, 120))
def test_whatever_a_person_does_nothing_breaks_and_nothing_is_lost(seed: int, tmp_path: Path) -> None:
    random_user.make_models(tmp_path / "models")
    report = random_user.play(seed, ACTIONS, tmp_path)
    assert not report.faults, str(report)
    assert len(report.done) == ACTIONS
