"""What the application remembers about itself between starts, in one JSON file. Knows no meaning of its keys.

Losing this file costs comfort, never a person's work: a damaged one is begun anew, and one that cannot be written is
only missed at the next start. Python's own JSON is enough, and already there before the first paint.
"""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

from runtime.places import UnwritablePlace, atomic_write

_log = logging.getLogger(__name__)


class StateFile:
    """A dictionary on disk. Reading happens once; every change is written by a thread, so that no slot waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[str, Any] | None = None
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._writers: list[threading.Thread] = []

    def get(self, key: str, otherwise: Any = None) -> Any:
        """Returns the value kept under a key."""
        with self._lock:
            return self._read().get(key, otherwise)

    def set(self, key: str, value: Any) -> None:
        """Keeps a JSON value under a key; returns at once."""
        with self._lock:
            if self._read().get(key) == value:
                return
            self._read()[key] = value
            self._writers = [thread for thread in self._writers if thread.is_alive()]
            writer = threading.Thread(target=self._write, name="state file")
            self._writers.append(writer)
        writer.start()

    def flush(self) -> None:
        """Waits until every change is on disk."""
        for writer in list(self._writers):
            writer.join()

    def _read(self) -> dict[str, Any]:
        if self._values is None:
            self._values = self._on_disk()
        return self._values

    def _on_disk(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            _log.warning("%s is begun anew: %s", self._path, error)
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self) -> None:
        with self._write_lock:  # the last one to come writes the newest values
            with self._lock:
                data = json.dumps(self._read()).encode()
            try:
                atomic_write(self._path, data)
            except UnwritablePlace as error:
                _log.warning("%s", error)
