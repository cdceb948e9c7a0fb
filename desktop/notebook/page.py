"""The notebook: one text that the model goes on with, the list of such texts, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QFileDialog, QFrame, QHBoxLayout, QVBoxLayout, QWidget

from desktop.background import Background
from desktop.chat.exchange import file_name
from desktop.chat.meter import ContextMeter
from desktop.chat.plain_text import one_line
from desktop.controls.ask_bar import AskBar
from desktop.controls.buttons import Button, Choice, IconButton, Words, repolish
from desktop.controls.undo import UndoBar
from desktop.engine_client import EngineClient
from desktop.human import duration, whole_number
from desktop.notebook.book import Notebook
from desktop.notebook.editor import NotebookEdit
from desktop.notebook.notebooks import Notebooks
from desktop.store.records import NotebookSummary
from desktop.theme import Size, Space, current_theme
from runtime.places import atomic_write, shown_path
from runtime.protocol import Finished
from runtime.text import _

_COUNT_MS = 400
_MARKDOWN = ".md"


class NotebookPage(QWidget):
    """Over `Notebooks`. Counts the tokens of what the model would read."""

    about_to_write = Signal()  # the model is about to be asked
    problem = Signal(object)  # ErrorInfo

    def __init__(
        self, books: Notebooks, client: EngineClient, parent: QWidget | None = None, *, in_steps: bool = False
    ) -> None:
        """With `in_steps`, nothing is there until all `steps` were taken, so that none of them takes long."""
        super().__init__(parent)
        self.setObjectName("page")
        self._books, self._client = books, client
        self._background = Background(self)
        self._background.failed.connect(self.problem)
        self._count_id = 0
        self._book: Notebook | None = None
        self._count_later = QTimer(self, singleShot=True, interval=_COUNT_MS)
        self.steps = self._build()
        if not in_steps:
            for _step in self.steps:
                pass

    # --- building --------------------------------------------------------------------------------------------------

    def _build(self) -> Iterator[None]:
        self.list = Choice()
        self.list.setAccessibleName(_("Notebooks"))
        self.list.setSizeAdjustPolicy(Choice.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.list.setMinimumContentsLength(16)
        self.ask, self.undo_bar, self.meter = AskBar(), UndoBar(), ContextMeter()
        yield
        self.edit = NotebookEdit()
        self.go = Button(_("Continue"), kind="primary")
        self.again = Button(_("Again"), icon="reload")
        self.back = Button(_("Take back"), icon="undo")
        yield
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(0, Space.MEDIUM, 0, 0)
        column.setSpacing(Space.SMALL)
        column.addLayout(self._heading())
        column.addWidget(self.ask)
        column.addWidget(self._card(), 1)
        yield
        column.addWidget(self.undo_bar)
        column.addLayout(self._foot())
        column.addWidget(self.meter)
        inner.setMaximumWidth(Size.COLUMN)
        row = QHBoxLayout(self)
        row.setContentsMargins(Space.WIDE, 0, Space.WIDE, Space.SMALL)
        row.addStretch(1)
        row.addWidget(inner, 1000)
        row.addStretch(1)
        yield
        self._connect()
        self._show(self._books.current)
        self._follow_busy(self._books.busy)
        self._books.refresh()

    def _heading(self) -> QHBoxLayout:
        self.add = IconButton("add", _("New notebook"))
        self.rename = IconButton("edit", _("Rename the notebook"))
        self.export = IconButton("export", _("Export the text…"))
        self.delete = IconButton("delete", _("Delete the notebook"))
        row = QHBoxLayout()
        row.setSpacing(Space.TINY)
        row.addWidget(self.list, 1)
        for button in (self.add, self.rename, self.export, self.delete):
            row.addWidget(button)
        return row

    def _card(self) -> QFrame:
        card = self._frame = QFrame()
        card.setObjectName("composer")
        column = QVBoxLayout(card)
        column.setContentsMargins(Space.LARGE, Space.MEDIUM, Space.SMALL, Space.MEDIUM)
        column.addWidget(self.edit)
        return card

    def _foot(self) -> QHBoxLayout:
        self.speed = Words("", tone="quiet", wrap=False)
        self.speed.setFont(current_theme().quiet_font)
        self.again.setToolTip(_("Write something else in place of what the model wrote last"))
        self.back.setToolTip(_("Take out what the model wrote last"))
        row = QHBoxLayout()
        row.setSpacing(Space.SMALL)
        for button in (self.go, self.again, self.back):
            row.addWidget(button)
        row.addStretch(1)
        row.addWidget(self.speed)
        return row

    def _connect(self) -> None:
        books = self._books
        self.list.activated.connect(lambda row: books.open(str(self.list.itemData(row))))
        self.add.clicked.connect(self._new)
        self.rename.clicked.connect(self._ask_name)
        self.export.clicked.connect(self.ask_export)
        self.delete.clicked.connect(self._delete)
        self.go.clicked.connect(self._press)
        self.again.clicked.connect(self._write_again)
        self.back.clicked.connect(books.take_back)
        self.edit.continue_requested.connect(self.go_on)
        self.edit.said.connect(self._say)
        self.edit.focus_moved.connect(self._show_focus)
        self.edit.cursorPositionChanged.connect(self._count_soon)
        here = Qt.ShortcutContext.WidgetWithChildrenShortcut
        again = QShortcut(QKeySequence("Ctrl+Shift+Return"), self, context=here)
        again.activated.connect(self._write_again)
        self._connect_books()

    def _connect_books(self) -> None:
        """Bound methods only: Qt forgets them when the page is gone, which it does not do for functions."""
        books, client = self._books, self._client
        books.shown.connect(self._show)
        books.listed.connect(self._show_list)
        books.busy_changed.connect(self._follow_busy)
        books.about_to_write.connect(self.edit.note_place)
        books.wrote.connect(self.edit.follow)
        books.ended.connect(self._show_end)
        books.said.connect(self._say)
        self._count_later.timeout.connect(self._count)
        client.loaded.connect(self._count_soon)
        client.counted.connect(self._take_count)

    # --- showing ---------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """The page was turned to."""
        self._books.open_latest()
        self.edit.setFocus()

    def left(self) -> tuple[str, int, int]:
        """Returns the notebook and what is selected in it, for the page that takes this one's place."""
        cursor = self.edit.textCursor()
        return self._books.current.id, cursor.anchor(), cursor.position()

    def go_on_from(self, left: tuple[str, int, int]) -> None:
        """Puts the cursor where it was on another page: there the model goes on."""
        id, anchor, position = left
        if id == self._books.current.id:
            self.edit.select(anchor, position)

    def _show(self, book: Notebook) -> None:
        if self._book is not None:
            self._book.mark_changed.disconnect(self._update_buttons)
            self._book.edited.disconnect(self._note_edit)
        self._book = book
        self.edit.show_book(book)
        book.mark_changed.connect(self._update_buttons)
        book.edited.connect(self._note_edit)
        self.speed.setText("")
        self._update_buttons()
        self._count_soon()
        self.edit.setFocus()

    def _show_list(self, found: tuple[NotebookSummary, ...]) -> None:
        current = self._books.current
        rows = [(one_line(book.title, limit=80) or _("Empty notebook"), book.id) for book in found]
        if current.id not in [id for _title, id in rows]:
            rows.insert(0, (one_line(current.title, limit=80) or _("New notebook"), current.id))
        if [(self.list.itemText(row), self.list.itemData(row)) for row in range(self.list.count())] != rows:
            self.list.clear()
            for title, id in rows:
                self.list.addItem(title, id)
        self.list.setCurrentIndex(self.list.findData(current.id))

    def _note_edit(self) -> None:
        self._count_soon()
        self._update_buttons()

    def _update_buttons(self) -> None:
        book, busy = self._books.current, self._books.busy
        start, end = book.mark
        for button in (self.again, self.back):
            button.setEnabled(start < end and not busy)
        for control in (self.rename, self.export, self.delete):
            control.setEnabled(book.stored or book.length > 0)

    def _follow_busy(self, busy: bool) -> None:
        self.edit.set_locked(busy)
        self.go.setText(_("Stop") if busy else _("Continue"))
        self.go.setToolTip(_native("Esc") if busy else _native("Ctrl+Return"))
        if busy:
            self.speed.setText("")
        self._update_buttons()
        self._count_soon()

    def _show_end(self, finished: Finished) -> None:
        usage = finished.usage
        speed = usage.generation_speed
        seconds = usage.prompt_seconds + usage.generation_seconds
        texts = [_("{speed} tok/s").format(speed=whole_number(round(speed)))] if speed else []
        self.speed.setText("   ".join([*texts, duration(seconds)] if seconds else texts))

    def _say(self, sentence: str) -> None:
        if sentence:
            self._count_later.stop()
            self.meter.say(sentence)
        else:
            self._count_soon()

    def _show_focus(self, active: bool) -> None:
        self._frame.setProperty("active", "true" if active else "false")
        repolish(self._frame)

    # --- doing -----------------------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Has the model go on at the cursor."""
        if not self._books.busy:
            self.about_to_write.emit()
            self._books.generate(self.edit.place)

    def _press(self) -> None:
        if self._books.busy:
            self._books.stop()
        else:
            self.go_on()
        self.edit.setFocus()

    def _write_again(self) -> None:
        self.about_to_write.emit()
        self._books.again()

    def _new(self) -> None:
        self._books.new()
        self.edit.setFocus()

    def _ask_name(self) -> None:
        book = self._books.current
        words = _("Name of the notebook; without one it is called by its first line:")
        self.ask.ask(words, _("Rename"), self._books.rename, text=one_line(book.name or book.title))

    def _delete(self) -> None:
        title = one_line(self._books.current.title, limit=60) or _("Empty notebook")
        id = self._books.delete()
        self.undo_bar.offer(_("Deleted: {title}").format(title=title), lambda: self._books.restore(id))

    def ask_export(self) -> None:
        """Asks where the text shall be written."""
        book = self._books.current
        dialog = QFileDialog(self, _("Export the text"), "", _("Text (*.txt);;Markdown (*.md)"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("txt")
        dialog.filterSelected.connect(lambda chosen: dialog.setDefaultSuffix("md" if "*.md" in chosen else "txt"))
        dialog.selectFile(file_name(book.title or _("Notebook")) + ".txt")
        dialog.fileSelected.connect(lambda path: self.write(Path(path)))
        dialog.open()

    def write(self, path: Path) -> None:
        """Writes the text to a file, under its name as a heading where that ends in .md and it has a name."""
        book = self._books.current
        text = book.text
        if path.suffix.lower() == _MARKDOWN and book.name:
            text = f"# {one_line(book.name)}\n\n{text}"

        def work() -> str:
            atomic_write(path, text.encode("utf-8", "replace"))
            return _("Written: {path}").format(path=shown_path(path))

        self._background.run(work, self._say)

    # --- counting --------------------------------------------------------------------------------------------------

    def _count_soon(self, *_what: object) -> None:
        if not self._books.busy:
            self._count_later.start()

    def _count(self) -> None:
        if self._client.info is None or not self.isVisible():
            self.meter.show_tokens(0, 0)
        else:
            self._count_id = self._client.count_text(self._books.current.text_before(self.edit.place))

    def _take_count(self, number: int, total: int) -> None:
        if number == self._count_id and self._client.info is not None:
            self.meter.show_tokens(total, self._client.info.context_length)


def _native(key: str) -> str:
    return QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)
