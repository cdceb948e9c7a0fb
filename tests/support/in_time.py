"""Runs what might wait without end, and fails in its place."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import UserError


def in_time(read: Callable[[Path], Any], path: Path) -> Any:
    """Returns what `read` makes of a pipe, or what it raises; fails where it does not come to an end."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(read(path))
        except (OSError, UserError) as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    if thread.is_alive():
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))  # lets the reader go
        pytest.fail("it waits for a pipe into which nobody writes")
    return results[0]
