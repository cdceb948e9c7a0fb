"""A person who does anything at any time, on the real window with an engine that crashes, stalls and talks nonsense.

Hundreds of actions on many seeds are in the long tests; here a few, so that a fault shows at once.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import random_user

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and sessions of Unix")
ACTIONS = 120


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_a_person_does_nothing_breaks_and_nothing_is_lost(seed: int, tmp_path: Path) -> None:
    random_user.make_models(tmp_path / "models")
    report = random_user.play(seed, ACTIONS, tmp_path)
    assert not report.faults, str(report)
    assert len(report.done) == ACTIONS
