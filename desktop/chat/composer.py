"""Where a person writes: a field that grows, Send that becomes Stop in place, and long pastes folded into a chip.

Knows no session; it says what was asked for and is told whether an answer is running.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication, QInputMethodEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from desktop.chat.plain_text import cleaned, one_line
from desktop.chat.view.style import scaled
from desktop.controls.buttons import ElidedWords, IconButton, repolish
from desktop.controls.plain_field import PlainField
from desktop.human import data_size, whole_number
from desktop.theme import Space, current_theme
from runtime.text import _, ngettext

LONG_PASTE = 8_000
"""Characters from which a paste becomes a chip: laying out one long line costs a second, and nobody reads it there."""
_MAX_LINES = 10
_LONGEST_NAME = 200
_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)


@dataclass(frozen=True, slots=True)
class Draft:
    """What is written but not sent: the typed text, and long texts pasted beside it."""

    text: str = ""
    pasted: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The whole message as it is sent."""
        return "\n\n".join(part for part in (self.text.strip(), *self.pasted) if part)

    @classmethod
    def of(cls, text: str) -> Draft:
        """Returns a draft with the text in the field, or in a chip where it is long."""
        return cls(text) if len(text) < LONG_PASTE else cls(pasted=(text,))


class MessageEdit(PlainField):
    """The field: Enter sends, Shift+Enter breaks the line; plain text only."""

    submitted = Signal()
    edit_last_requested = Signal()
    long_pasted = Signal(object)  # str, which as such would be copied into Qt's text and back
    undo_beyond = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._composing = False
        self.undo_floor = -1  # undoing further than this many steps takes back what was pasted beside the field
        self._lines = 0
        self.setTabChangesFocus(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFont(current_theme().chat_font)
        self.document().setDocumentMargin(0)
        self.document().documentLayout().documentSizeChanged.connect(self._grow)
        self._grow()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._composing and event.key() in _ENTER:
            QGuiApplication.inputMethod().commit()  # it ends the word, and neither sends nor breaks the line
        elif self._asks_to_send(event):
            self.submitted.emit()
        elif event.key() == Qt.Key.Key_Up and not self._composing and self.document().isEmpty():
            self.edit_last_requested.emit()
        elif event.matches(QKeySequence.StandardKey.Undo) and self.document().availableUndoSteps() <= self.undo_floor:
            self.undo_beyond.emit()
        else:
            super().keyPressEvent(event)

    def _asks_to_send(self, event: QKeyEvent) -> bool:
        breaks = Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.AltModifier
        return event.key() in _ENTER and not event.modifiers() & breaks

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """Notes whether a word is being composed (Chinese, Japanese, a dead key): Enter that ends it must not send."""
        self._composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def insertFromMimeData(self, source: QMimeData) -> None:
        text = cleaned(source.text())
        if len(text) < LONG_PASTE:
            self.insertPlainText(text)
        else:
            self.long_pasted.emit(text)
        self.ensureCursorVisible()

    def sizeHint(self) -> QSize:
        return QSize(240, self.height())

    def _grow(self) -> None:
        lines = max(1, min(_MAX_LINES, round(self.document().size().height())))
        full = round(self.document().size().height()) > _MAX_LINES
        policy = Qt.ScrollBarPolicy.ScrollBarAsNeeded if full else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setVerticalScrollBarPolicy(policy)
        if lines != self._lines:
            self._lines = lines
            self.setFixedHeight(lines * self.fontMetrics().lineSpacing() + Space.TINY)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._lines = 0
            self._grow()


class PasteChip(QFrame):
    """A long pasted text, folded: how much it is, and a way to take it out again."""

    removed = Signal()

    def __init__(self, text: str, parent: QWidget | None = None, *, undo_floor: int) -> None:
        """`undo_floor`: steps that could be undone in the field when this was pasted; -1: undo does not reach it."""
        super().__init__(parent)
        self.text, self.undo_floor = text, undo_floor
        self.setProperty("kind", "chip")
        row = QHBoxLayout(self)
        row.setContentsMargins(Space.MEDIUM, 0, 0, 0)
        words = ElidedWords(_described(text))
        words.setFont(current_theme().quiet_font)
        words.setToolTip(text[:500])
        remove = IconButton("close", _("Remove the pasted text"))
        remove.clicked.connect(self.removed)
        row.addWidget(words, 1)
        row.addWidget(remove)


class Composer(QFrame):
    """The card with the field, its chips and the button."""

    send_requested = Signal(str)
    stop_requested = Signal()
    edit_last_requested = Signal()
    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self._running = False
        self._chips: list[PasteChip] = []
        self.edit = MessageEdit()
        self.edit.set_hint(_("Message"))
        self.edit.setAccessibleName(_("Message"))
        self.button = IconButton("send", _("Send"), tone="on_accent")
        self.button.setProperty("kind", "send")
        self._lay_out()
        self._connect()
        self._update_button()

    def _lay_out(self) -> None:
        self._chip_rows = QVBoxLayout()
        self._chip_rows.setSpacing(Space.TINY)
        row = QHBoxLayout()
        row.setSpacing(Space.SMALL)
        row.addWidget(self.edit, 1, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.LARGE, Space.SMALL, Space.SMALL, Space.SMALL)
        column.setSpacing(Space.SMALL)
        column.addLayout(self._chip_rows)
        column.addLayout(row)

    def _connect(self) -> None:
        self.edit.submitted.connect(self.submit)
        self.edit.edit_last_requested.connect(self._edit_last)
        self.edit.long_pasted.connect(self.add_chip)
        self.edit.undo_beyond.connect(self._remove_last_chip)
        self.edit.textChanged.connect(self._note_change)
        self.edit.focus_moved.connect(self._show_focus)
        self.button.clicked.connect(self._press)

    @property
    def draft(self) -> Draft:
        """What is written now."""
        return Draft(cleaned(self.edit.toPlainText()), tuple(chip.text for chip in self._chips))

    def set_draft(self, draft: Draft) -> None:
        """Replaces what is written; the cursor goes to the end, and undo goes back no further than to here."""
        while self._chips:
            self._remove(self._chips[-1])
        self.edit.setPlainText(draft.text)
        self.edit.moveCursor(self.edit.textCursor().MoveOperation.End)
        for text in draft.pasted:
            self._add(text, undo_floor=-1)
        self._note_change()

    def set_zoom(self, percent: int) -> None:
        """Makes the text as large as that of the conversation."""
        for widget in (self.edit, self.edit.viewport()):  # the words in an empty field are drawn in the viewport's font
            widget.setFont(scaled(current_theme().chat_font, percent / 100))

    def set_running(self, running: bool) -> None:
        """Shows Stop in the place of Send while an answer is running."""
        self._running = running
        self.edit.set_hint(_("Message, sent when the answer is finished") if running else _("Message"))
        self._update_button()

    @property
    def running(self) -> bool:
        """True while the button is Stop."""
        return self._running

    def submit(self) -> None:
        """Asks to send what is written; while an answer is running too, and then it waits for its end."""
        if message := self.draft.message:
            self.send_requested.emit(message)

    def clear(self) -> None:
        """Empties the field after its message was taken."""
        self.set_draft(Draft())

    def add_chip(self, text: str) -> None:
        """Adds a long text beside the field; undo takes it out again."""
        self._add(text, undo_floor=self.edit.document().availableUndoSteps())

    def _add(self, text: str, *, undo_floor: int) -> None:
        chip = PasteChip(text, self, undo_floor=undo_floor)
        chip.removed.connect(lambda: self._remove(chip))
        self.edit.document().setModified(False)  # what is typed next is a step of its own, which undo takes back first
        self._chips.append(chip)
        self._chip_rows.addWidget(chip)
        self._note_change()

    def _remove(self, chip: PasteChip) -> None:
        self._chips.remove(chip)
        self._chip_rows.removeWidget(chip)
        chip.hide()
        chip.deleteLater()
        self.edit.setFocus()
        self._note_change()

    def _remove_last_chip(self) -> None:
        if self._chips:
            self._remove(self._chips[-1])

    def _edit_last(self) -> None:
        if not self._chips:
            self.edit_last_requested.emit()

    def _press(self) -> None:
        if self._running:
            self.stop_requested.emit()
        else:
            QGuiApplication.inputMethod().commit()  # a word that is still composed belongs to the message
            self.submit()

    def _note_change(self) -> None:
        self.edit.undo_floor = self._chips[-1].undo_floor if self._chips else -1
        self._update_button()
        self.changed.emit()

    def _update_button(self) -> None:
        written = bool(self._chips) or not self.edit.document().isEmpty()
        self.button.setEnabled(self._running or written)
        self.button.draw("stop" if self._running else "send")
        if self._running:
            self.button.describe(_("Stop"), QKeySequence(Qt.Key.Key_Escape))
        else:
            self.button.describe(_("Send"), QKeySequence(Qt.Key.Key_Return))

    def _show_focus(self, active: bool) -> None:
        self.setProperty("active", "true" if active else "false")
        repolish(self)

    def mousePressEvent(self, _event: object) -> None:
        self.edit.setFocus()


def _described(text: str) -> str:
    first = text.partition("\n")[0]
    if first.endswith(":") and text.startswith(f"{first}\n\n") and len(first) <= _LONGEST_NAME:  # a dropped file
        return _("{name}, {size}").format(name=one_line(first[:-1]), size=data_size(len(text.encode())))
    lines = text.count("\n") + 1
    counted = ngettext("{lines} line", "{lines} lines", lines).format(lines=whole_number(lines))
    return _("Pasted text, {lines}, {size}").format(lines=counted, size=data_size(len(text.encode())))
