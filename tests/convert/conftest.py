"""What tests of conversions share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steady_clock import SteadyClock


@pytest.fixture
def clock() -> Iterator[SteadyClock]:
    with SteadyClock() as clock:
        yield clock
