"""Model files that were opened from outside the library's folders, so that they are found again. Reads no model."""

from __future__ import annotations

import os
from pathlib import Path

from desktop.state_file import StateFile
from runtime.places import path_of, spelled_path

_KEY = "opened_models"
_MOST = 200


class KnownFiles:
    """A list of paths in the state file, the latest first. May be used from any thread."""

    def __init__(self, state: StateFile) -> None:
        self._state = state

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files, also those that are gone by now."""
        return tuple(path_of(spelled) for spelled in self._spelled)

    def add(self, path: Path) -> None:
        """Remembers a file."""
        spelled = spelled_path(os.path.abspath(path))
        self._state.set(_KEY, [spelled, *(other for other in self._spelled if other != spelled)][:_MOST])

    def forget(self, path: Path) -> None:
        """Takes a file out of the list; the file itself stays as it is."""
        spelled = spelled_path(os.path.abspath(path))
        self._state.set(_KEY, [other for other in self._spelled if other != spelled])

    @property
    def _spelled(self) -> list[str]:
        kept = self._state.get(_KEY)
        return [item for item in kept if isinstance(item, str)] if isinstance(kept, list) else []
