"""The AppImage, started as people start it: mounted where the system can, and unpacked by itself where it cannot.

Run by `make package-test` over what `make package` made.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
from pathlib import Path

import pytest

from installed import QUESTION, Installed, appimage_pattern, package, shown_on_a_screen

pytestmark = [pytest.mark.package, pytest.mark.timeout(900)]
UNPACKED, MOUNTED = "unpacked", "mounted"


def _can_mount() -> bool:
    """Says whether the system has what a mounted AppImage needs."""
    return os.access("/dev/fuse", os.R_OK | os.W_OK) and ctypes.util.find_library("fuse") == "libfuse.so.2"


@pytest.fixture(params=[UNPACKED, MOUNTED])
def quern(request: pytest.FixtureRequest, edition: str, tmp_path: Path) -> Installed:
    """The AppImage in a folder of its own; what it unpacks goes away with the test."""
    if request.param == MOUNTED and not _can_mount():
        pytest.skip("FUSE 2 is not there")
    program = Path(shutil.copy(package(appimage_pattern(edition)), tmp_path / "Quern é 模型.AppImage"))
    unpacking = {"TMPDIR": str(tmp_path), "APPIMAGE_EXTRACT_AND_RUN": "1"} if request.param == UNPACKED else {}
    return Installed(program, tmp_path / "home of Zoë", unpacking)


def test_it_is_in_order_and_answers(quern: Installed) -> None:
    report = quern.json("doctor")
    assert [check for check in report["checks"] if not check["ok"]] == []
    assert "4" in quern.says("chat", "starter", *QUESTION)


def test_its_window_opens_on_a_screen(quern: Installed) -> None:
    assert shown_on_a_screen(quern)
