"""The log of the window where it cannot be written."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from desktop.failures import start_logging


@pytest.fixture
def logger(tmp_path: Path) -> Iterator[logging.Logger]:
    """The root logger, writing to a device that is always full."""
    root, level = logging.getLogger(), logging.getLogger().level
    before = list(root.handlers)
    (tmp_path / "window.log").symlink_to("/dev/full")
    start_logging(tmp_path)
    yield root
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)
        with contextlib.suppress(OSError):  # what it still holds cannot be written either
            handler.close()
    root.setLevel(level)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_costs_the_line_and_nothing_else(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logger.warning("kept on stderr")
    told = capsys.readouterr().err
    assert "Traceback" not in told
