"""Every setting of sampling and of loading has a test that shows its effect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import shown_settings


@pytest.mark.parametrize("name", shown_settings.setting_names())
def test_a_test_shows_that_the_setting_works(name: str) -> None:
    assert name in shown_settings.claims(), f'mark the test that shows the effect: @pytest.mark.shows("{name}")'


def test_only_settings_that_exist_are_claimed() -> None:
    assert set(shown_settings.claims()) <= set(shown_settings.setting_names())


def test_a_claim_is_read_from_markers_on_tests_alone(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        '@pytest.mark.shows("one", "two")\ndef test_x(): ...\n'
        '@pytest.mark.parametrize("v", [pytest.param(1, marks=pytest.mark.shows("two"))])\ndef test_y(v): ...\n'
        '@pytest.mark.shows("three")\ndef helper(): ...\n'
    )
    assert shown_settings.claims(tmp_path) == {"one": ["test_a.py::test_x"], "two": ["test_a.py::test_x",
                                                                                   "test_a.py::test_y"]}  # fmt: skip


def test_the_table_can_be_printed() -> None:
    file = Path(shown_settings.__file__)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in shown_settings.setting_names())
