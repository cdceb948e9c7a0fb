"""How much memory the chosen model takes as the settings stand. Reads the header and estimates in a thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from desktop.background import Background
from desktop.settings.live import LiveSettings
from runtime.errors import ErrorInfo
from runtime.params import LoadParams

if TYPE_CHECKING:
    from desktop.models import Models
    from runtime.gguf_header import GgufHeader

_REST_MS = 80


@dataclass(frozen=True, slots=True)
class Need:
    """What loading takes, in bytes, at a context length in tokens, and how much memory there is."""

    context_length: int
    weights: int
    cache: int
    buffers: int
    draft: int
    free: int
    total_memory: int
    trained_context: int

    @property
    def total(self) -> int:
        """Everything together."""
        return self.weights + self.cache + self.buffers + self.draft


class MemoryGauge(QObject):
    """Follows the model and the settings of loading; `measured` carries a `Need`, or None where it is not known.

    `need` is what was measured last, for whoever comes later.
    """

    measured = Signal(object)

    def __init__(self, models: Models, live: LiveSettings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._models, self._live = models, live
        self._background = Background(self)
        self._reader = _Reader()
        self.need: Need | None = None
        self._asked = 0
        self._later = QTimer(self, singleShot=True, interval=_REST_MS)
        self._later.timeout.connect(self._measure)
        live.changed.connect(self._follow_setting)
        models.status_changed.connect(self._follow_model)
        self._path = ""
        self._follow_model()

    def _follow_setting(self, group: type, _name: str) -> None:
        if group is LoadParams:
            self._later.start()

    def _follow_model(self, _status: object = None) -> None:
        if self._models.path != self._path:
            self._path = self._models.path
            self._later.start()

    def _measure(self) -> None:
        self._asked += 1
        number, path, params = self._asked, self._path, self._live.load
        if not path:
            self._tell(None)
            return
        self._background.run(
            lambda: self._reader.need(Path(path), params), lambda need: self._take(number, need), failed=self._fail
        )

    def _take(self, number: int, need: Need) -> None:
        if number == self._asked:
            self._tell(need)

    def _fail(self, _error: ErrorInfo) -> None:
        self._tell(None)  # what is wrong with the file is said when it is loaded

    def _tell(self, need: Need | None) -> None:
        self.need = need
        self.measured.emit(need)


class _Reader:
    """Reads a header once, and estimates; for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[Path, float, GgufHeader] | None = None

    def need(self, path: Path, params: LoadParams) -> Need:
        """Returns what a model takes. Raises what reading its header raises."""
        from runtime import memory
        from runtime.draft_file import draft_header

        header = self._header(path)
        found = memory.estimate(header, params, draft=draft_header(params))
        return Need(
            context_length=found.context_length, weights=found.weights, cache=found.cache, buffers=found.compute,
            draft=found.draft, free=memory.free_memory(), total_memory=memory.total_memory(),
            trained_context=header.context_length,
        )  # fmt: skip

    def _header(self, path: Path) -> GgufHeader:
        from runtime.gguf_header import read_header

        with self._lock:
            changed = path.stat().st_mtime if path.exists() else 0.0
            if self._known is None or self._known[:2] != (path, changed):
                self._known = (path, changed, read_header(path, arrays=False))
            return self._known[2]
