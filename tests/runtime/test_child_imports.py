"""A child process finds the packages that run here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime import child_imports

ROOT = Path(__file__).resolve().parent.parent.parent


def test_child_finds_the_packages_that_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")

    assert child_imports.with_our_packages()["PYTHONPATH"] == os.pathsep.join([str(ROOT), "elsewhere"])

    monkeypatch.setattr(child_imports.sysconfig, "get_path", lambda _name: str(ROOT))
    assert child_imports.with_our_packages()["PYTHONPATH"] == "elsewhere"
