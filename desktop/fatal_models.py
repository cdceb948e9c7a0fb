"""Remembers models that ended their engine, loading or answering: none is loaded by itself at the next start."""

from __future__ import annotations

from typing import Any

from desktop.state_file import StateFile
from runtime.places import path_of

_KEY = "fatal_models"
LOADING, ANSWERING = "loading", "answering"


class FatalModels:
    """Spelled paths with the size and time of the file that did it: another file of that name starts afresh.

    A file that ended its engine while loading is forgiven once it was loaded, one that did it while answering once it
    has answered.
    """

    def __init__(self, state: StateFile) -> None:
        self._state = state

    def remember(self, path: str, moment: str = LOADING) -> None:
        """Notes that this file ended the engine while it was `LOADING` or `ANSWERING`."""
        self._state.set(_KEY, {**self._known(), path: [*_mark(path), moment]})

    def forgive(self, path: str, moment: str = LOADING) -> None:
        """Forgets what a file did at a moment, because now that went well."""
        if self.moment(path) == moment:
            self._state.set(_KEY, {key: mark for key, mark in self._known().items() if key != path})

    def moment(self, path: str) -> str:
        """Returns when this very file ended its engine: `LOADING`, `ANSWERING`, or empty for never."""
        known = self._known().get(path)
        if not isinstance(known, list):
            return ""
        moment = known[-1] if known and isinstance(known[-1], str) else LOADING  # earlier versions noted no moment
        return moment if [part for part in known if not isinstance(part, str)] == _mark(path) else ""

    def __contains__(self, path: str) -> bool:
        return bool(self.moment(path))

    def _known(self) -> dict[str, Any]:
        known = self._state.get(_KEY)
        return known if isinstance(known, dict) else {}


def _mark(path: str) -> list[int]:
    try:
        found = path_of(path).stat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]
