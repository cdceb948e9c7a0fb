"""What a model file holds: a summary, its quality card, its metadata and its tensors. Read in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QScrollArea, QStackedWidget, QVBoxLayout, QWidget

from desktop import fonts
from desktop.background import Background
from desktop.chat.model_names import shown_name
from desktop.chat.plain_text import one_line
from desktop.controls.buttons import Button, SearchField, Words
from desktop.controls.notice import Notice
from desktop.controls.segments import Segments
from desktop.library.header_facts import HeaderFacts, read
from desktop.library.quality import QualityCard
from desktop.library.tables import TextRows, TextTable
from desktop.theme import Space, current_theme
from runtime.text import _

if TYPE_CHECKING:
    from runtime.library import ModelInfo


class ModelDetails(QWidget):
    """One model's file, in three parts."""

    closed = Signal()
    chat_requested = Signal(str)  # path

    def __init__(self, background: Background, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._info: ModelInfo | None = None
        self._title = Words("", wrap=False)
        self._title.setFont(current_theme().title_font)
        self.back = Button(_("Back to the library"), kind="plain", icon="chevron_left")
        self.chat = Button(_("Chat with it"), kind="primary", icon="chat")
        self.parts = Segments([_("Summary"), _("Metadata"), _("Tensors")])
        self.search = SearchField(_("Search"))
        self.metadata = TextRows([_("Key"), _("Value")], parent=self)
        self.tensors = TextRows([_("Tensor"), _("Type"), _("Shape"), _("Size")], right=(2, 3), parent=self)
        self.quality = QualityCard()
        self.notice = Notice()
        self._state = Words(_("Reading the file…"), tone="quiet")
        self._lay_out()
        self.back.clicked.connect(self.closed)
        self.chat.clicked.connect(self._chat)
        self.parts.chosen.connect(self._show_part)
        self.search.textChanged.connect(self._search)

    def _lay_out(self) -> None:
        heading = QHBoxLayout()
        heading.addWidget(self.back)
        heading.addStretch(1)
        heading.addWidget(self.chat)
        switch = QHBoxLayout()
        self.parts.setFixedWidth(330)
        switch.addWidget(self.parts)
        switch.addStretch(1)
        switch.addWidget(self.search, 1)
        self._stack = QStackedWidget()
        self._stack.addWidget(self._summary_page())
        for rows, name, widths in (
            (self.metadata, _("Metadata"), (280, 0)), (self.tensors, _("Tensors"), (0, 90, 170, 110)),
        ):  # fmt: skip
            table = TextTable(rows, name)
            table.spread(widths)
            self._stack.addWidget(table)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.WIDE, Space.LARGE, Space.WIDE, Space.WIDE)
        column.setSpacing(Space.MEDIUM)
        column.addLayout(heading)
        column.addWidget(self._title)
        column.addLayout(switch)
        column.addWidget(self.notice)
        column.addWidget(self._state)
        column.addWidget(self._stack, 1)

    def _summary_page(self) -> QScrollArea:
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._body = QWidget()
        self._body.setObjectName("cardBody")
        self._column = QVBoxLayout(self._body)
        self._column.setContentsMargins(0, 0, Space.MEDIUM, 0)
        self._column.setSpacing(Space.LARGE)
        self._tables = QVBoxLayout()
        self._tables.setSpacing(Space.LARGE)
        self._column.addWidget(self.quality)
        self._column.addLayout(self._tables)
        self._column.addStretch(1)
        self._area.setWidget(self._body)
        return self._area

    def show_model(self, info: ModelInfo) -> None:
        """Begins to read a model's header."""
        self._info = info
        self._title.setText(shown_name(info))
        self.chat.setVisible(info.can_chat)
        self.notice.dismiss(about="header")
        self.search.clear()
        self._fill(None)
        self._state.show()
        self.back.setFocus()
        self._background.run(lambda: read(info.path), lambda found: self._take(info, found), failed=self._fail)

    def _take(self, info: ModelInfo, found: HeaderFacts) -> None:
        if self._info is info:
            self._fill(found)
            self._state.hide()

    def _fail(self, error: object) -> None:
        self._state.hide()
        self.notice.show_error(error, about="header")  # type: ignore[arg-type]

    def _fill(self, found: HeaderFacts | None) -> None:
        self.metadata.set_rows(found.metadata if found else ())
        self.tensors.set_rows(found.tensors if found else ())
        self.quality.show_card(found.card if found else {})
        while item := self._tables.takeAt(0):
            widget = item.widget()
            if widget is not None:
                widget.deleteLater()
        if found is not None:
            self._tables.addWidget(_table("", found.summary, ()))
            sizes = (_("Context"), _("Weights"), _("Cache"), _("Buffers"), _("Together"))
            self._tables.addWidget(_table(_("Memory it needs"), found.memory, sizes))
            self._tables.addWidget(_table(_("Types of its tensors"), found.types, (_("Type"), _("Tensors"), _("Size"))))
        self._show_part(0)

    def _show_part(self, number: int) -> None:
        self.parts.choose(number)
        self._stack.setCurrentIndex(number)
        self.search.setVisible(number > 0)
        self._search(self.search.text())

    def _search(self, words: str) -> None:
        for rows in (self.metadata, self.tensors):
            rows.search(words)

    def _chat(self) -> None:
        if self._info is not None:
            self.chat_requested.emit(str(self._info.path))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.closed.emit()
        else:
            super().keyPressEvent(event)


def _table(title: str, rows: tuple[tuple[str, ...], ...], headings: tuple[str, ...]) -> QWidget:
    """Returns a small table of words; with headings, what follows the first column stands at the right."""
    box = QWidget()
    grid = QGridLayout(box)
    grid.setContentsMargins(0, 0, 0, 0)
    grid.setHorizontalSpacing(Space.WIDE)
    grid.setVerticalSpacing(Space.TINY)
    if title:
        heading = Words(title, wrap=False)
        heading.setFont(fonts.strong())
        grid.addWidget(heading, 0, 0, 1, -1)
    for column, words in enumerate(headings):
        grid.addWidget(_cell(words, "quiet", right=column > 0), 1, column)
    for number, row in enumerate(rows, start=2):
        for column, text in enumerate(row):
            quiet = "quiet" if column == 0 and not headings else ""
            grid.addWidget(_cell(text, quiet, right=bool(headings) and column > 0), number, column)
    grid.setColumnStretch(len(headings) if headings else 1, 1)
    return box


def _cell(text: str, tone: str, *, right: bool) -> Words:
    words = Words(one_line(text, limit=400), tone=tone, wrap=not right and tone != "quiet")
    words.setFont(current_theme().quiet_font)
    words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    edge = Qt.AlignmentFlag.AlignTrailing if right else Qt.AlignmentFlag.AlignLeading
    words.setAlignment(edge | Qt.AlignmentFlag.AlignTop)
    return words
