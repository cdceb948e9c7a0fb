"""One notebook in memory: its text with undo, and which part of it the model wrote last. Knows no engine and no store.

Positions are Qt's: UTF-16 units from the beginning of the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QTextCursor, QTextDocument
from PySide6.QtWidgets import QPlainTextDocumentLayout

from desktop.chat.plain_text import cleaned
from desktop.store.notebooks import title_from
from desktop.store.records import NotebookRecord, new_id, now

_SLICE = 32_000  # characters laid out in one turn of the event loop
_BREAKS = ("\u2029", "\u2028")  # Qt's own line ends
_Move = QTextCursor.MoveMode


class Notebook(QObject):
    """A text over a `QTextDocument`, which a field can show and which lives on without one.

    What the model writes is marked until a person changes something in it. One piece of writing is one step of undo.
    """

    edited = Signal()  # the text changed, by whomever
    mark_changed = Signal()
    title_changed = Signal()

    def __init__(self, record: NotebookRecord | None = None, parent: QObject | None = None) -> None:
        """The text of a `record` is put in by `fill`."""
        super().__init__(parent)
        moment = now()
        self._record = record or NotebookRecord(id=new_id(), created=moment, updated=moment)
        self.id = self._record.id
        self.stored = record is not None
        self._name = self._record.title
        self._updated = self._record.updated
        self._mark = (0, 0)
        self._writing_at: int | None = None
        self._joins = False  # whether what is written next belongs to the last step of undo
        self._filling = record is not None
        self.document = QTextDocument(self)
        self.document.setDocumentLayout(QPlainTextDocumentLayout(self.document))
        self.document.contentsChange.connect(self._follow_change)

    def fill(self) -> Iterator[None]:
        """Puts the stored text in, a slice a step; undo begins after that."""
        self.document.setUndoRedoEnabled(False)
        text = cleaned(self._record.text)
        for start in range(0, len(text), _SLICE):
            cursor = QTextCursor(self.document)
            cursor.movePosition(QTextCursor.MoveOperation.End)
            cursor.insertText(text[start : start + _SLICE])
            yield
        self.document.setUndoRedoEnabled(True)
        self._filling = False
        self._set_mark(self._record.mark if self._record.mark[1] <= self.length else (0, 0))

    # --- what is there ---------------------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """How long the text is."""
        return self.document.characterCount() - 1

    @property
    def text(self) -> str:
        """The whole text."""
        return _with_line_ends(self.document.toRawText())

    def text_before(self, position: int) -> str:
        """Returns the text up to a position."""
        return _with_line_ends(self._cursor(0, position).selectedText())

    @property
    def title(self) -> str:
        """Its own name, else its first line; empty for an empty text."""
        return self._name or title_from(self.text_before(min(self.length, 400)))

    @property
    def name(self) -> str:
        """The name that it was given, if any."""
        return self._name

    def rename(self, name: str) -> None:
        """Gives it a name of its own; the empty one means its first line again."""
        self._name = name
        self.title_changed.emit()

    @property
    def mark(self) -> tuple[int, int]:
        """From where to where the model wrote last; equal where nothing is marked."""
        return self._mark

    @property
    def ready(self) -> bool:
        """Whether all of the stored text is there."""
        return not self._filling

    @property
    def record(self) -> NotebookRecord:
        """What is to be stored."""
        return NotebookRecord(
            id=self.id, title=self._name, text=self.text, mark=self._mark, created=self._record.created,
            updated=self._updated,
        )  # fmt: skip

    # --- writing ---------------------------------------------------------------------------------------------------

    @property
    def writing(self) -> bool:
        """Whether the model writes in it."""
        return self._writing_at is not None

    def begin(self, position: int, *, again: bool = False) -> None:
        """What is written from now on comes in at a position; `again` in place of what is marked."""
        self._joins = False
        if again:
            position = self._mark[0]
            self.take_back()
            self._joins = True
        self._set_mark((position, position))
        self._writing_at = position

    def write(self, text: str) -> None:
        """Adds what the model wrote."""
        assert self._writing_at is not None, "begin comes first"
        cursor = self._cursor(self._writing_at, self._writing_at)
        if self._joins:
            cursor.joinPreviousEditBlock()
        else:
            cursor.beginEditBlock()
        cursor.insertText(cleaned(text))
        cursor.endEditBlock()
        self._joins = True
        self._writing_at = cursor.position()
        self._set_mark((self._mark[0], self._writing_at))

    def finish(self) -> None:
        """The model has written what it wanted."""
        self._writing_at = None
        self._joins = False

    def take_back(self) -> None:
        """Takes out what is marked, as a step of undo of its own."""
        cursor = self._cursor(*self._mark)
        cursor.beginEditBlock()
        cursor.removeSelectedText()
        cursor.endEditBlock()
        self._set_mark((0, 0))

    def accept(self) -> None:
        """What the model wrote is no longer marked."""
        self._set_mark((0, 0))

    # --- inside ----------------------------------------------------------------------------------------------------

    def _cursor(self, start: int, end: int) -> QTextCursor:
        cursor = QTextCursor(self.document)
        cursor.setPosition(min(start, self.length))
        cursor.setPosition(min(end, self.length), _Move.KeepAnchor)
        return cursor

    def _follow_change(self, position: int, removed: int, added: int) -> None:
        if self._filling or (not removed and not added):
            return
        if not self.writing:
            self._move_mark(position, removed, added)
        self._updated = now()
        self.edited.emit()

    def _move_mark(self, position: int, removed: int, added: int) -> None:
        """The mark stays with its text; a change inside makes the text the person's own."""
        start, end = self._mark
        if position + removed <= start:
            self._set_mark((start + added - removed, end + added - removed))
        elif position < end:
            self._set_mark((0, 0))

    def _set_mark(self, mark: tuple[int, int]) -> None:
        mark = mark if mark[0] < mark[1] or self.writing else (mark[0], mark[0])
        if mark != self._mark:
            self._mark = mark
            self.mark_changed.emit()


def _with_line_ends(text: str) -> str:
    for mark in _BREAKS:
        text = text.replace(mark, "\n")  # a hundred times as quick as a translation
    return text
