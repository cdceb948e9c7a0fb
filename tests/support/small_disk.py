"""A small disk of its own for a test: a file system in memory, where the system lets us make one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[Path]:
    """Puts a file system of that size at `folder`. Skips the test where only an administrator may."""
    folder.mkdir()
    if not _done("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)):
        pytest.skip("no file systems can be made here")
    try:
        yield folder
    finally:
        assert _done("umount", str(folder))


def make_read_only(folder: Path) -> None:
    """Lets nobody write to a small disk any more."""
    assert _done("mount", "-o", "remount,ro", str(folder))


def _done(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=30).returncode == 0
    except OSError:
        return False
