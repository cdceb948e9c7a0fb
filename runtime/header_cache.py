"""Remembers what the headers of model files said, so that a long list of models appears at once.

An entry counts only while the files' size, time and place on disk are the same. Losing the cache costs time, no more.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from runtime import text
from runtime.places import UnwritablePlace, atomic_write

_FORMAT = 2
_MAX_BYTES = 1 << 26
_DECIDING = (
    "describe", "gguf_architectures", "gguf_checks", "gguf_header", "gguf_reader", "gguf_strings", "gguf_tensors",
    "memory", "runnable",
)  # fmt: skip
_log = logging.getLogger(__name__)


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a list shows of a file: see `ModelInfo`."""

    kind: str = "model"
    architecture: str = ""
    size_bytes: int = 0
    quantization: str = ""
    context_length: int = 0
    reason: str = ""
    memory_bytes: int = 0


class HeaderCache:
    """Facts by the paths they came from. Read when made, written by `save` with only what was asked for since.

    Without a path nothing is kept.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known = _read(path) if path is not None else {}
        self._used: dict[str, Any] = {}

    def get(self, files: Sequence[Path]) -> Facts | None:
        """Returns what is remembered of these files, if they are still the same."""
        key, stamp = _key(files), _stamp(files)
        entry = self._known.get(key)
        if not stamp or not isinstance(entry, list) or len(entry) != 2 or entry[0] != stamp:
            return None
        try:
            facts = msgspec.convert(entry[1], Facts)
        except msgspec.ValidationError:
            return None
        self._used[key] = entry
        return facts

    def put(self, files: Sequence[Path], facts: Facts) -> None:
        """Remembers facts; files that cannot be stated are not remembered."""
        stamp = _stamp(files)
        if stamp:
            self._used[_key(files)] = [stamp, msgspec.to_builtins(facts)]

    def save(self) -> None:
        """Writes the cache where it changed."""
        if self._path is None or self._used == self._known:
            return
        # ASCII, so that names that are no UTF-8 survive as escapes.
        data = json.dumps({"stamp": _program_stamp(), "files": self._used}, separators=(",", ":"))
        try:
            atomic_write(self._path, data.encode("ascii"))
        except UnwritablePlace as error:
            _log.info("The header cache was not written: %s", error.info.title)  # costs time, nothing else


def _program_stamp() -> list[Any]:
    """Changes when reasons would be worded or decided differently: in another language, or by other code."""
    return [_FORMAT, text.language(), [_time(file) for file in _deciding_files()]]


def _deciding_files() -> list[Path]:
    """Returns the sources of what is remembered; in a frozen application the one file that they are in."""
    if getattr(sys, "frozen", False):
        return [Path(sys.executable)]
    return [Path(__file__).with_name(f"{name}.py") for name in _DECIDING]


def _time(file: Path) -> int:
    try:
        return os.stat(file).st_mtime_ns
    except OSError:
        return 0


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            saved = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(saved, dict) or saved.get("stamp") != _program_stamp():
        return {}
    files = saved.get("files")
    return files if isinstance(files, dict) else {}


def _key(files: Sequence[Path]) -> str:
    return os.fspath(files[0]) if files else ""


def _stamp(files: Sequence[Path]) -> list[list[int]]:
    """Returns size, time and place of each file; nothing where one cannot be stated."""
    stamp = []
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            return []
        stamp.append([status.st_size, status.st_mtime_ns, status.st_ino])
    return stamp
