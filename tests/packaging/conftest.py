"""Makes the set-up's scripts importable; packaging/ is no package and must never become one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from installed import EDITIONS

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "packaging"))


@pytest.fixture(scope="module", params=EDITIONS)
def edition(request: pytest.FixtureRequest) -> str:
    """The edition that a test of packages is about: each in turn."""
    return str(request.param)
