"""Gathers the text of a fast engine into batches, so that the window is told a few dozen times a second at most."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

INTERVAL_MS = 33  # about thirty times a second: smooth to the eye, cheap to lay out


class TextBatches(QObject):
    """The first piece goes out at once; what comes within the interval goes out together at its end."""

    batch = Signal(int, str, int)  # id, text, tokens so far

    def __init__(self, parent: QObject | None = None, *, interval_ms: int = INTERVAL_MS) -> None:
        super().__init__(parent)
        self._id = 0
        self._parts: list[str] = []
        self._n_tokens = 0
        self._timer = QTimer(self, singleShot=True, interval=interval_ms)
        self._timer.timeout.connect(self._due)

    def add(self, id: int, text: str, n_tokens: int) -> None:
        """Takes the next piece of the answer `id`."""
        if id != self._id:
            self.flush()
        self._id, self._n_tokens = id, n_tokens
        self._parts.append(text)
        if not self._timer.isActive():
            self._due()

    def flush(self) -> None:
        """Sends what is held back now; to be called before an answer is closed."""
        parts, self._parts = self._parts, []
        if parts:
            self.batch.emit(self._id, "".join(parts), self._n_tokens)

    def _due(self) -> None:
        if self._parts:
            self._timer.start()
            self.flush()
