"""The field that a notebook is written in: marks what the model wrote, pastes long texts in slices. Knows no engine."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import QKeyEvent, QTextCharFormat, QTextCursor, QWheelEvent
from PySide6.QtWidgets import QTextEdit, QWidget

from desktop.chat.plain_text import cleaned
from desktop.chat.view.style import scaled
from desktop.controls.plain_field import PlainField
from desktop.human import whole_number
from desktop.in_steps import InSteps
from desktop.notebook.book import Notebook
from desktop.theme import current_theme
from runtime.text import _

LONGEST_LINE = 8_000  # characters of a pasted line
_SLICE = 32_000  # characters that are laid out in one turn of the event loop


def with_short_lines(text: str) -> str:
    """Returns a text whose long lines are broken, at a space where there is one: laying out a line costs its length."""
    lines = text.split("\n")
    if max(map(len, lines)) <= LONGEST_LINE:
        return text
    return "\n".join(piece for line in lines for piece in _pieces(line))


def _pieces(line: str) -> Iterator[str]:
    start = 0
    while len(line) - start > LONGEST_LINE:
        space = line.rfind(" ", start + LONGEST_LINE // 2, start + LONGEST_LINE)
        end = space if space >= 0 else start + LONGEST_LINE
        yield line[start:end]
        start = end + (space >= 0)
    yield line[start:]


class NotebookEdit(PlainField):
    """Plain text; Ctrl+Enter asks the model to go on at the cursor. While it writes, the text can only be read."""

    continue_requested = Signal()
    said = Signal(str)  # a sentence for the person
    zoom_requested = Signal(int)  # 1 larger, -1 smaller

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._book: Notebook | None = None
        self._percent = 100
        self._locked = self._pasting = False
        self._follows = True
        self.setTabChangesFocus(False)
        self.set_hint(_("Write how a text begins. The model goes on with it."))
        self.setAccessibleName(_("Text of the notebook"))

    # --- the text --------------------------------------------------------------------------------------------------

    def show_book(self, book: Notebook) -> None:
        """Shows another notebook, with the cursor at its end."""
        if self._book is not None:
            self._book.mark_changed.disconnect(self.show_mark)
        self._book = book
        self.setDocument(book.document)
        self._dress()
        book.mark_changed.connect(self.show_mark)
        self.moveCursor(QTextCursor.MoveOperation.End)
        self.ensureCursorVisible()
        self.show_mark()

    def show_mark(self) -> None:
        """Sets apart what the model wrote."""
        start, end = self._book.mark if self._book is not None else (0, 0)
        if start >= end:
            self.setExtraSelections([])
            return
        selection = QTextEdit.ExtraSelection()
        cursor = QTextCursor(self.document())
        cursor.setPosition(start)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        form = QTextCharFormat()
        form.setForeground(current_theme().accent)
        selection.cursor, selection.format = cursor, form
        self.setExtraSelections([selection])

    def select(self, anchor: int, position: int) -> None:
        """Selects from one place to another, as far as the text reaches; equal ones put the cursor there."""
        end = self.document().characterCount() - 1
        cursor = self.textCursor()
        cursor.setPosition(min(anchor, end))
        cursor.setPosition(min(position, end), QTextCursor.MoveMode.KeepAnchor)
        self.setTextCursor(cursor)
        self.ensureCursorVisible()

    @property
    def place(self) -> int:
        """Where the model would go on: behind what is selected, or at the cursor."""
        return self.textCursor().selectionEnd()

    def set_locked(self, locked: bool) -> None:
        """Lets the text be read only."""
        self._locked = locked
        self._update_lock()

    def _update_lock(self) -> None:
        flags = Qt.TextInteractionFlag.TextEditorInteraction
        if self._locked or self._pasting:
            flags = Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        self.setTextInteractionFlags(flags)

    # --- following -------------------------------------------------------------------------------------------------

    def note_place(self) -> None:
        """To be called before text comes in: remembers whether its place is being looked at."""
        self._follows = self.viewport().rect().intersects(self.cursorRect())

    def follow(self) -> None:
        """To be called when text has come in: keeps its end in sight, for a reader who was there."""
        if self._follows:
            self.ensureCursorVisible()

    # --- the look --------------------------------------------------------------------------------------------------

    def set_zoom(self, percent: int) -> None:
        """Makes the text as large as that of the conversation."""
        self._percent = percent
        self._dress()

    def _dress(self) -> None:
        font = scaled(current_theme().chat_font, self._percent / 100)
        self.document().setDefaultFont(font)
        for widget in (self, self.viewport()):
            widget.setFont(font)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.show_mark()

    # --- input -----------------------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        control = event.modifiers() & Qt.KeyboardModifier.ControlModifier
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and control:
            self.continue_requested.emit()
        elif event.key() == Qt.Key.Key_Tab and self._locked:
            self.focusNextChild()
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.zoom_requested.emit(1 if event.angleDelta().y() > 0 else -1)
        else:
            super().wheelEvent(event)

    def insertFromMimeData(self, source: QMimeData) -> None:
        self.paste_text(cleaned(source.text()))

    def paste_text(self, text: str) -> None:
        """Puts a text in at the cursor, unless the model is writing."""
        if self._locked:
            return
        shorter = with_short_lines(text)
        if shorter != text:
            text = shorter
            self.said.emit(_("Lines of more than {n} characters were broken: a field with them would be slow.").format(
                n=whole_number(LONGEST_LINE)))  # fmt: skip
        if len(text) <= _SLICE:
            self.insertPlainText(text)
            self.ensureCursorVisible()
        elif not self._pasting:
            InSteps(self._paste(text), self)

    def _paste(self, text: str) -> Iterator[None]:
        """Pastes a long text, a slice in each turn of the event loop; undo takes all of it back at once."""
        self._pasting = True
        self._update_lock()
        cursor = self.textCursor()
        cursor.beginEditBlock()
        cursor.removeSelectedText()
        try:
            for start in range(0, len(text), _SLICE):
                cursor.insertText(text[start : start + _SLICE])
                cursor.endEditBlock()
                yield
                cursor.joinPreviousEditBlock()
        finally:
            cursor.endEditBlock()
            self._pasting = False
            self._update_lock()
        self.ensureCursorVisible()
