"""The QApplication of a window that files can be opened with: macOS sends their names as events, not as words."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication


class DocumentApplication(QApplication):
    """Tells of files that the desktop opens with Quern. Files of the first moments are kept until somebody asks."""

    file_opened = Signal(str)  # a path; only after `take_over`

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(list(words))
        self._waiting = ""
        self._listened_to = False

    def event(self, event: QEvent) -> bool:
        """Takes the desktop's request to open a file; everything else goes its way."""
        if not isinstance(event, QFileOpenEvent) or not event.file():
            return super().event(event)
        if self._listened_to:
            self.file_opened.emit(event.file())
        else:
            self._waiting = event.file()
        return True

    def take_over(self) -> str:
        """Returns the file that came before anybody listened ("" for none); from now on there are signals."""
        self._listened_to = True
        waiting, self._waiting = self._waiting, ""
        return waiting
