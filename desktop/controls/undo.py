"""A line that says what was just removed and brings it back for a while, the last first. Knows not what."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from desktop.controls.buttons import Button, ElidedWords
from desktop.theme import Space, current_theme
from runtime.text import _

_UNDO_MS = 15_000


class UndoBar(QFrame):
    """Offers to undo the last thing, and then those before it, as long as it is shown without a break."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self._offers: list[tuple[str, Callable[[], object]]] = []
        self._words = ElidedWords()
        self._words.setFont(current_theme().quiet_font)
        self.button = Button(_("Undo"), kind="link")
        self.button.clicked.connect(self._press)
        row = QHBoxLayout(self)
        row.setContentsMargins(Space.MEDIUM, Space.TINY, Space.TINY, Space.TINY)
        row.addWidget(self._words, 1)
        row.addWidget(self.button)
        self._away = QTimer(self, singleShot=True, interval=_UNDO_MS)
        self._away.timeout.connect(self.forget)
        self.hide()

    def offer(self, words: str, undo: Callable[[], object]) -> None:
        """Says what was done, and calls `undo` when the button is pressed in time."""
        self._offers.append((words, undo))
        self._show_last()

    def _show_last(self) -> None:
        self._words.set_whole(self._offers[-1][0])
        self.show()
        self._away.start()

    def forget(self) -> None:
        """Offers nothing any more."""
        self._offers.clear()
        self._away.stop()
        self.hide()

    def _press(self) -> None:
        if not self._offers:  # a second click that was on its way
            return
        _words, undo = self._offers.pop()
        if self._offers:
            self._show_last()
        else:
            self.forget()
        undo()
