"""What tests of both engines share."""

from __future__ import annotations

import pytest

import engines


@pytest.fixture(params=["llama", "native"])
def engine_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes a test open its models with one engine, then with the other."""
    monkeypatch.setitem(engines.DEFAULTS, "engine", request.param)
    name: str = request.param
    return name
