"""Finds the second real model, Gemma 3 270M: SentencePiece, windowed layers, no chat template."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "build" / "models" / "gemma-3-270m-q4_k_m.gguf"
WINDOW = 512  # tokens that five of six layers look back


def model_file() -> Path:
    """Returns the file. Skips the test where the set-up could not fetch it, and fails it in CI."""
    if FILE.exists():
        return FILE
    missing = "Gemma 3 270M is not in build/models; the set-up fetches it: python packaging/set_up.py check"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)
