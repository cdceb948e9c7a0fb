"""Joins the find bar, the finder and the conversation. Knows no storage."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QTimer

from desktop.chat.find_bar import FindBar
from desktop.chat.view.conversation_view import ConversationView
from desktop.chat.view.finding import Finder, Place
from desktop.chat.view.message_model import MessageListModel
from desktop.theme import Space

_LONGEST = 80  # characters of a selection that is looked for
_TYPING_MS = 120


class FindInChat(QObject):
    """Finds words in the conversation that a view shows."""

    def __init__(self, view: ConversationView, model: MessageListModel) -> None:
        super().__init__(view)
        self.bar = FindBar(view)
        self.finder = Finder(model, self)
        self._view = view
        self._later = QTimer(self, singleShot=True, interval=_TYPING_MS)
        self._later.timeout.connect(self._search)
        self.bar.words_changed.connect(lambda _words: self._later.start())
        self.bar.stepped.connect(self._step)
        self.bar.closed.connect(self.close)
        self.finder.changed.connect(self._show_count)
        self.finder.moved.connect(self._go)
        view.installEventFilter(self)

    def open(self) -> None:
        """Shows the bar, with what is selected in it where that is short."""
        chosen = " ".join(self._view.selected_text(plain=True).split())
        if chosen and len(chosen) <= _LONGEST:
            self.bar.field.setText(chosen)
        self.bar.show()
        self.bar.raise_()
        self._place()
        self.bar.field.setFocus()
        self.bar.field.selectAll()
        if self.finder.pattern is None:
            self._search()

    def take_over(self, older: FindInChat) -> None:
        """Searches for what another one searches for; what is not shown keeps its words, and marks nothing."""
        self.bar.field.setText(older.bar.field.text())
        self._later.stop()
        if not older.bar.isHidden():
            self.open()

    def close(self) -> None:
        """Takes the bar and the marks away; the reader stays where they are."""
        self._later.stop()
        self.bar.hide()
        self.finder.stop()
        self._view.setFocus()

    def _search(self) -> None:
        self.finder.search(self.bar.field.text(), start=self._view.first_visible_row)

    def _step(self, by: int) -> None:
        if self._later.isActive():
            self._later.stop()
            self._search()
        else:
            self.finder.step(by)

    def _go(self, place: Place) -> None:
        self._view.marks.reveal(place)

    def _show_count(self) -> None:
        finder = self.finder
        self.bar.show_count(finder.index, finder.total, searching=finder.searching)
        self._view.marks.show(finder.pattern, finder.current)

    def _place(self) -> None:
        room = self._view.viewport().width() - 2 * Space.LARGE
        self.bar.resize(min(self.bar.wide, room), self.bar.sizeHint().height())
        right = self._view.viewport().width() - Space.LARGE
        self.bar.move(max(right - self.bar.width(), 0), Space.SMALL)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and not self.bar.isHidden():
            self._place()
        return False
