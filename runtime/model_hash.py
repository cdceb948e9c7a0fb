"""The content hash of a model's files, remembered by path, size and time, since reading gigabytes takes a while.

The hash of each file is SHA-256, which is also what public model pages show. Knows no engine.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.model_errors import ModelMissing, ModelUnreadable
from runtime.model_files import model_files
from runtime.places import NoHome, UnwritablePlace, atomic_write, places
from runtime.text import _

_log = logging.getLogger(__name__)
_CHUNK = 1 << 22
_MAX_BYTES = 1 << 22  # of the file that remembers
_MOST = 512  # files remembered; the oldest go first
_HEX_DIGITS = 64

Progress = Callable[[float], object]


class HashingStopped(UserError):
    """The person did not want to wait for the hash."""

    code = "hashing_stopped"

    def __init__(self) -> None:
        super().__init__(_("Reading the model to identify it was stopped."))


class ModelHashes:
    """Hashes of model files. What is remembered counts as long as a file's size, time and place are the same."""

    def __init__(self, remembered: Path | None = None) -> None:
        """`remembered` is the file of what is known; without one, it is below the folder of caches, if there is one."""
        self._path = remembered or _usual_path()

    def known(self, model: Path) -> tuple[str, ...]:
        """Returns the hashes of a model's files without reading them; empty where one is not known."""
        known = self._read()
        found = tuple(_remembered(known, file) for file in model_files(model))
        return found if all(found) else ()

    def of(self, model: Path, *, stop: StopFlag | None = None, progress: Progress | None = None) -> tuple[str, ...]:
        """Returns the hash of each of a model's files, in hexadecimal; reads those that are not known.

        `progress` is called with the fraction read. Raises `ModelMissing`, `ModelUnreadable` and `HashingStopped`.
        """
        files = model_files(model)
        if known := self.known(model):
            return known
        reading = _Reading(files, StopFlag() if stop is None else stop, progress or (lambda _fraction: None))
        stamps = [_stamp(file) for file in files]
        hashes = tuple(map(reading.hash_of, files))
        found = zip(files, stamps, hashes, strict=True)
        self._remember({
            os.fspath(file): [stamp, digest] for file, stamp, digest in found if stamp and stamp == _stamp(file)
        })  # fmt: skip
        return hashes

    def _read(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            with self._path.open("rb") as file:
                known = json.loads(file.read(_MAX_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        return known if isinstance(known, dict) else {}

    def _remember(self, found: dict[str, Any]) -> None:
        if self._path is None or not found:
            return
        known = {key: value for key, value in self._read().items() if key not in found} | found
        kept = dict(list(known.items())[-_MOST:])
        try:
            atomic_write(self._path, json.dumps(kept, separators=(",", ":")).encode("ascii"))
        except UnwritablePlace as error:
            _log.info("The hashes were not kept: %s", error.info.title)  # costs time, nothing else


class _Reading:
    """Reads files one after the other, and tells how far it is."""

    def __init__(self, files: Sequence[Path], stop: StopFlag, progress: Progress) -> None:
        self._stop, self._progress = stop, progress
        self._done = 0
        self._total = max(sum(map(_size, files)), 1)

    def hash_of(self, file: Path) -> str:
        digest = hashlib.sha256()
        try:
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    if self._stop.is_set():
                        raise HashingStopped
                    digest.update(chunk)
                    self._done += len(chunk)
                    self._progress(min(self._done / self._total, 1.0))
        except FileNotFoundError as error:
            raise ModelMissing(file) from error
        except OSError as error:
            raise ModelUnreadable(file, error.strerror or str(error)) from error
        return digest.hexdigest()


def _usual_path() -> Path | None:
    try:
        return places().cache / "model-hashes.json"
    except NoHome:
        return None


def _remembered(known: dict[str, Any], file: Path) -> str:
    entry = known.get(os.fspath(file))
    if not isinstance(entry, list) or len(entry) != 2 or not entry[0] or entry[0] != _stamp(file):
        return ""
    return entry[1] if isinstance(entry[1], str) and len(entry[1]) == _HEX_DIGITS else ""


def _stamp(file: Path) -> list[int]:
    """Returns what changes when a file does: size, time and place; nothing where it cannot be looked at."""
    try:
        status = os.stat(file)
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _size(file: Path) -> int:
    return next(iter(_stamp(file)), 0)
