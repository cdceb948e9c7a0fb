"""Remembers which back ends survived their trial on this computer. Losing the file costs a second trial, no more.

An entry counts only for the same file of the same build, on the same processor and drivers.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import msgspec

from runtime.places import UnwritablePlace, atomic_write

_log = logging.getLogger(__name__)
_LARGEST = 1 << 20
_MOST = 64  # entries; every build has 14 at most, and old ones are of no use


class TriedDevice(msgspec.Struct, frozen=True):
    """A graphics card that a trial found. Memory in bytes."""

    name: str
    description: str
    memory_free: int
    memory_total: int


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a trial ended. `reason` is what ended it, such as SIGILL; empty for one that was survived."""

    reason: str = ""
    details: str = ""
    devices: tuple[TriedDevice, ...] = ()

    @property
    def survived(self) -> bool:
        return not self.reason


class Verdicts:
    """The verdicts in one file; without a path they are kept for this process only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known = _read(path) if path is not None else {}

    def get(self, file: Path, surroundings: str) -> Verdict | None:
        """Returns what is known of a library in these surroundings (the processor, or a card's driver)."""
        return self._known.get(_key(file, surroundings))

    def put(self, file: Path, surroundings: str, verdict: Verdict) -> None:
        """Remembers a verdict and writes the file, as far as it can be written."""
        key = _key(file, surroundings)
        others = self._known if self._path is None else {**self._known, **_read(self._path)}  # another's, meanwhile
        entries = [(other, kept) for other, kept in others.items() if other != key]
        self._known = dict([*entries, (key, verdict)][-_MOST:])
        self._save()

    def _save(self) -> None:
        if self._path is None:
            return
        try:
            atomic_write(self._path, msgspec.json.format(msgspec.json.encode(self._known), indent=1))
        except UnwritablePlace as error:
            _log.warning("what was found out about this processor is not kept: %s", error)


def _key(file: Path, surroundings: str) -> str:
    return f"{file.name} {_stamp(file)} {hashlib.sha256(surroundings.encode()).hexdigest()[:16]}"


def _stamp(file: Path) -> str:
    try:
        status = file.stat()
    except OSError:
        return "gone"
    return f"{status.st_size}-{status.st_mtime_ns}"


def _read(path: Path) -> dict[str, Verdict]:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_LARGEST), type=dict[str, Verdict])
    except (OSError, msgspec.MsgspecError, RecursionError):
        return {}
