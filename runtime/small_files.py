"""Reads the small text files that describe models and settings of other programs. They may hold anything or be gone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

_MAX_BYTES = 1 << 20


def opened(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a file to read its bytes. Raises `OSError`, and `ValueError` where the name holds a NUL.

    A pipe with a name into which nobody writes is empty; to open it the usual way would wait for its other end.
    """
    return open(path, "rb", opener=_at_once)


def _at_once(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(descriptor, True)  # a pipe into which somebody writes is read to its end
    return descriptor


def as_utf8(data: bytes) -> bytes:
    """Returns JSON without what editors and shells of Windows put before it or write it in.

    Raises `UnicodeDecodeError` where it is in no encoding of Unicode.
    """
    encoding = json.detect_encoding(data)
    return data if encoding == "utf-8" else data.decode(encoding).encode()


def read_text(file: Path) -> str:
    """Returns the beginning of a file as text, at most a mebibyte of it; "" where it cannot be read."""
    try:
        with opened(file) as stream:
            return stream.read(_MAX_BYTES).decode("utf-8-sig", "replace")
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return ""


def read_json(file: Path) -> dict[str, Any]:
    """Returns the object that a JSON file holds; an empty one where it holds none."""
    try:
        read = msgspec.json.decode(read_text(file))
    except (msgspec.DecodeError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
