"""What fills the context, beside the conversation: a bar, its legend, and every message with what becomes of it.

Shows ledgers and says what is wanted with a message; measures nothing and pins nothing itself.
"""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QListView,
    QScrollArea,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from desktop import fonts
from desktop.chat.ledger.bar import Legend, StackedBar
from desktop.chat.ledger.entries import Entry, Ledger, entry_sentence, policy_sentences, reuse_sentence, usage_sentence
from desktop.chat.ledger.rows import EntryRole, LedgerDelegate, LedgerRows
from desktop.controls.buttons import LINK_INSET, Button, IconButton, Words
from desktop.human import whole_number
from desktop.theme import Space, current_theme
from runtime.errors import ErrorInfo
from runtime.text import _, ngettext, sentences

_PREVIEW_LINES = 4
_LEAST_ROWS = 2
_LOW = 620  # pixels of height below which the list needs the preview's room
_Index = QModelIndex | QPersistentModelIndex


class EntryList(QListView):
    """The list of entries. Enter goes to a message, P pins it."""

    chosen = Signal(object)  # Entry
    pin_pressed = Signal(object)  # Entry
    shown = Signal(object)  # Entry under the mouse, or selected by key

    def __init__(self, rows: LedgerRows, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("ledgerList")
        self.setModel(rows)
        self.setItemDelegate(LedgerDelegate(self))
        self.setMouseTracking(True)
        self.setUniformItemSizes(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        row = self.itemDelegate().sizeHint(QStyleOptionViewItem(), QModelIndex())
        self._least = _LEAST_ROWS * row.height()
        self.setMinimumHeight(self._least)
        self.setAccessibleName(_("Messages in the context"))
        self.entered.connect(self._show)
        self.clicked.connect(self._choose)
        self.activated.connect(self._choose)

    def sizeHint(self) -> QSize:
        """It takes what room there is, and asks for little: what stands above it is not to be pushed out of sight."""
        return QSize(super().sizeHint().width(), self._least)

    def currentChanged(self, current: _Index, previous: _Index) -> None:
        super().currentChanged(current, previous)
        self._show(current)

    def _show(self, index: _Index) -> None:
        if index.isValid():
            self.shown.emit(index.data(EntryRole))

    def _choose(self, index: _Index) -> None:
        self.chosen.emit(index.data(EntryRole))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        if event.key() == Qt.Key.Key_P and not event.modifiers() and index.isValid():
            self.pin_pressed.emit(index.data(EntryRole))
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and index.isValid():
            self._choose(index)
        else:
            super().keyPressEvent(event)


class EntryPreview(QFrame):
    """The beginning of one message, and what can be done with it."""

    go_pressed, pin_pressed = Signal(object), Signal(object)  # Entry

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.entry: Entry | None = None
        self._facts, self._text = Words(tone="quiet"), Words()
        for words in (self._facts, self._text):
            words.setFont(current_theme().quiet_font)
        self._text.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self._text.setFixedHeight(_PREVIEW_LINES * self._text.fontMetrics().lineSpacing())
        self.go, self.pin = Button(_("Go there"), kind="link"), Button("", kind="link")
        self.go.clicked.connect(lambda: self.go_pressed.emit(self.entry))
        self.pin.clicked.connect(lambda: self.pin_pressed.emit(self.entry))
        buttons = QHBoxLayout()
        buttons.setContentsMargins(Space.MEDIUM - LINK_INSET, 0, Space.MEDIUM, 0)
        buttons.addWidget(self.go)
        buttons.addWidget(self.pin)
        buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, Space.SMALL, 0, Space.SMALL)
        column.setSpacing(Space.TINY)
        for words in (self._facts, self._text):
            words.setContentsMargins(Space.MEDIUM, 0, Space.MEDIUM, 0)
            column.addWidget(words)
        column.addLayout(buttons)
        self.show_entry(None)

    def show_entry(self, entry: Entry | None) -> None:
        """Shows an entry; for None the card keeps its place and says what it is for."""
        self.entry = entry
        self._facts.setText(entry_sentence(entry) if entry is not None else _("Point at a message to see it here."))
        self._text.setText(entry.preview if entry is not None else "")
        self.pin.setText(_("Unpin from the context") if entry is not None and entry.pinned else _("Pin in the context"))
        for button in (self.go, self.pin):
            button.setEnabled(entry is not None and bool(entry.id))


class LedgerPanel(QWidget):
    """The panel at the window's right edge."""

    close_requested = Signal()
    policy_requested = Signal()  # the setting is to be shown
    remedy_requested = Signal(str)  # the code of the error that the next message would meet
    message_chosen = Signal(str)  # id, to be shown in the conversation
    pin_requested = Signal(str, bool)  # id, whether it shall be pinned

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("panel")
        self.ledger = Ledger()
        self._rows = LedgerRows(self)
        self.list, self.preview = EntryList(self._rows), EntryPreview()
        self.bar, self.legend, self.remedy = StackedBar(), Legend(), Button("")
        self._refused, self._advice = Words(tone="bad"), Words(tone="quiet")
        self._usage, self._reuse, self._policy = Words(), Words(tone="quiet"), Words(tone="quiet")
        self._count, self._empty = Words(wrap=False), Words(tone="quiet")
        self._usage.setFont(fonts.strong())
        self._count.setFont(fonts.strong())
        self._refused.setFont(fonts.strong())
        for words in (self._reuse, self._policy, self._advice):
            words.setFont(current_theme().quiet_font)
        self.change_policy = Button(_("Change what happens then"), kind="link")
        self._filled = QWidget()
        self._lay_out()
        self._connect()
        self.show_ledger(Ledger())

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, Space.MEDIUM)
        column.setSpacing(Space.SMALL)
        column.addLayout(self._heading())
        column.addWidget(self._empty)
        self._empty.setContentsMargins(Space.LARGE, 0, Space.LARGE, 0)
        column.addWidget(self._scroller(), 1)
        inner = QVBoxLayout(self._filled)
        inner.setContentsMargins(0, 0, 0, 0)
        inner.setSpacing(Space.SMALL)
        inner.addLayout(_padded(self._usage, self._reuse, self.bar, self.legend, self._refused, self._advice))
        inner.addLayout(_beside(self.remedy, left=Space.LARGE))
        inner.addLayout(_padded(self._policy))
        inner.addLayout(_beside(self.change_policy, left=Space.LARGE - LINK_INSET))
        inner.addLayout(_padded(self._count))
        inner.addWidget(self.list, 1)
        inner.addLayout(_padded(self.preview))

    def _scroller(self) -> QScrollArea:
        """In a window of little height the panel scrolls; nothing in it is squeezed."""
        area = self._area = QScrollArea()
        area.setObjectName("panelScroll")
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._filled.setObjectName("panelBody")
        area.setWidget(self._filled)
        return area

    def _heading(self) -> QHBoxLayout:
        title = Words(_("What fills the context"), wrap=False)
        title.setFont(fonts.strong())
        self.close_button = IconButton("close", _("Close"))
        row = QHBoxLayout()
        row.setContentsMargins(Space.LARGE, Space.SMALL, Space.SMALL, 0)
        row.addWidget(title, 1)
        row.addWidget(self.close_button)
        return row

    def _connect(self) -> None:
        self.close_button.clicked.connect(self.close_requested)
        self.change_policy.clicked.connect(self.policy_requested)
        self.remedy.clicked.connect(self._help)
        self.list.shown.connect(self.preview.show_entry)
        for source in (self.list.chosen, self.preview.go_pressed):
            source.connect(self._go)
        for source in (self.list.pin_pressed, self.preview.pin_pressed):
            source.connect(self._pin)

    def show_ledger(self, ledger: Ledger, *, remedy: str = "") -> None:
        """Shows a ledger; `remedy` words the button that helps where the next prompt would be refused."""
        self.ledger = ledger
        self._filled.setVisible(ledger.context_length > 0)
        self._empty.setVisible(not ledger.context_length)
        self._empty.setText(_("Once a model is loaded, this shows what the conversation takes of its context."))
        self._usage.setText(usage_sentence(ledger))
        self._reuse.setText(reuse_sentence(ledger))
        self._policy.setText(policy_sentences(ledger))
        self.bar.show_ledger(ledger)
        self.legend.show_ledger(ledger)
        self._count.setText(_count_sentence(ledger))
        self._rows.show_ledger(ledger)
        self._show_error(ledger.error, remedy)
        self._refresh_preview()

    def show_failure(self, error: ErrorInfo) -> None:
        """Says why nothing could be measured."""
        self.show_ledger(Ledger())
        self._empty.setText(sentences(error.title, error.message, error.hint))

    def _show_error(self, error: ErrorInfo | None, remedy: str) -> None:
        """Says that the next message would be refused, in place of what happens when the context is full."""
        self._refused.setText(error.title if error is not None else "")
        self._advice.setText(error.hint if error is not None else "")
        self.remedy.setText(remedy)
        for part in (self._refused, self._advice):
            part.setVisible(error is not None)
        self.remedy.setVisible(bool(remedy))
        self._policy.setVisible(error is None)
        self.change_policy.setVisible(error is None)

    def _help(self) -> None:
        if self.ledger.error is not None:
            self.remedy_requested.emit(self.ledger.error.code)

    def _refresh_preview(self) -> None:
        """The message that is shown may have been pinned, answered or removed meanwhile."""
        row = self._rows.row_of(self.preview.entry.id) if self.preview.entry is not None else -1
        self.preview.show_entry(self._rows.index(row).data(EntryRole) if row >= 0 else None)

    def _go(self, entry: Entry) -> None:
        if entry.id:
            self.message_chosen.emit(entry.id)

    def _pin(self, entry: Entry) -> None:
        if entry.id:
            self.pin_requested.emit(entry.id, not entry.pinned)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.preview.setVisible(self.height() >= _LOW)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close_requested.emit()
        else:
            super().keyPressEvent(event)


def _count_sentence(ledger: Ledger) -> str:
    messages = sum(bool(entry.id) for entry in ledger.entries)
    words = ngettext("{n} message", "{n} messages", messages).format(n=whole_number(messages))
    if not ledger.left_out:
        return words
    return _("{messages}, {n} of them left out").format(messages=words, n=whole_number(ledger.left_out))


def _beside(widget: QWidget, *, left: int) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setContentsMargins(left, 0, Space.LARGE, 0)
    row.addWidget(widget)
    row.addStretch(1)
    return row


def _padded(*widgets: QWidget) -> QVBoxLayout:
    column = QVBoxLayout()
    column.setContentsMargins(Space.LARGE, 0, Space.LARGE, 0)
    column.setSpacing(Space.SMALL)
    for widget in widgets:
        column.addWidget(widget)
    return column
