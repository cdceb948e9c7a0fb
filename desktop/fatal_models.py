"""Remembers models that ended their engine while loading: none of them is loaded by itself at the next start."""

from __future__ import annotations

from typing import Any

from desktop.state_file import StateFile
from runtime.places import path_of

_KEY = "fatal_models"


class FatalModels:
    """Spelled paths with the size and time of the file that did it: another file of that name starts afresh."""

    def __init__(self, state: StateFile) -> None:
        self._state = state

    def remember(self, path: str) -> None:
        """Notes that loading this file ended the engine."""
        self._state.set(_KEY, {**self._known(), path: _mark(path)})

    def forgive(self, path: str) -> None:
        """Forgets a file, because it was loaded."""
        if path in self._known():
            self._state.set(_KEY, {key: mark for key, mark in self._known().items() if key != path})

    def __contains__(self, path: str) -> bool:
        known = self._known().get(path)
        return known is not None and known == _mark(path)

    def _known(self) -> dict[str, Any]:
        known = self._state.get(_KEY)
        return known if isinstance(known, dict) else {}


def _mark(path: str) -> list[int]:
    try:
        found = path_of(path).stat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]
