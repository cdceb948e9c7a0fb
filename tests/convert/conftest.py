"""What tests of conversions share."""

from __future__ import annotations

import pytest

import lived_time
from lived_time import LivedClock


@pytest.fixture
def clock() -> LivedClock:
    return lived_time.clock()
