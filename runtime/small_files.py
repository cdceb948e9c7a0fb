"""Reads the small text files that describe models and settings of other programs. They may hold anything or be gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

_MAX_BYTES = 1 << 20


def read_text(file: Path) -> str:
    """Returns the beginning of a file as text, at most a mebibyte of it; "" where it cannot be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(_MAX_BYTES).decode("utf-8-sig", "replace")
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return ""


def read_json(file: Path) -> dict[str, Any]:
    """Returns the object that a JSON file holds; an empty one where it holds none."""
    try:
        read = msgspec.json.decode(read_text(file))
    except (msgspec.DecodeError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
