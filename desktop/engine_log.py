"""The engine's own messages in a file that stays small, without the names of files in the person's folder.

A thread writes it, so that no slot waits for the disk.
"""

from __future__ import annotations

import logging
import queue
import threading
from logging.handlers import RotatingFileHandler
from pathlib import Path

from runtime.places import UnwritablePlace, make_folder
from runtime.private_text import without_private

_log = logging.getLogger(__name__)
_MAX_BYTES, _KEPT_FILES = 1_000_000, 3


class _QuietHandler(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """A full disk costs log lines, nothing else."""


class EngineLog:
    """`engine.log` in `folder`, with a few older ones beside it. Made when there is something to write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def write(self, lines: list[str]) -> None:
        """Adds lines; returns at once."""
        if lines and self._thread is None:
            self._thread = threading.Thread(target=self._work, name="engine log", daemon=True)
            self._thread.start()
        for line in lines:
            self._lines.put(line)

    def close(self, timeout: float = 1.0) -> None:
        """Writes what waits. May be called twice; a later line opens the file again."""
        if self._thread is not None:
            self._lines.put(None)
            self._thread.join(timeout)
            self._thread = None

    def _work(self) -> None:
        handler = self._handler()
        while (line := self._lines.get()) is not None:
            if handler is not None:
                handler.emit(logging.LogRecord("engine", logging.INFO, "", 0, without_private(line), None, None))
        if handler is not None:
            handler.close()

    def _handler(self) -> RotatingFileHandler | None:
        try:
            path = make_folder(self._folder) / "engine.log"
            handler = _QuietHandler(path, maxBytes=_MAX_BYTES, backupCount=_KEPT_FILES, encoding="utf-8")
        except (UnwritablePlace, OSError) as error:
            _log.warning("the engine's messages are not kept: %s", error)
            return None
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        return handler
