"""The library: a list of models with search and order, the card of the chosen one, and what can be done with it.

Scanning is the business of `Models`; files are moved in threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFileDialog,
    QHBoxLayout,
    QListView,
    QMenu,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from desktop import icons
from desktop.background import Background
from desktop.chat.model_names import shown_name
from desktop.chat.plain_text import one_line
from desktop.controls.ask_bar import AskBar
from desktop.controls.buttons import Button, Choice, SearchField, Words
from desktop.controls.notice import Notice
from desktop.controls.undo import UndoBar
from desktop.library import facts, moving
from desktop.library.actions_menu import actions_for
from desktop.library.details import ModelDetails
from desktop.library.known_files import KnownFiles
from desktop.library.model_card import ModelCard
from desktop.library.model_rows import SORTS, LibraryRows
from desktop.library.row_delegate import LibraryDelegate
from desktop.theme import Space, current_theme
from runtime.text import _, ngettext

if TYPE_CHECKING:
    from runtime.library import ModelInfo

_CARD_WIDTH, _ROOM_FOR_CARD = 320, 760
_MOST_NOTES = 4


class LibraryPage(QWidget):
    """Shows what `set_models` gives. Asks through signals for whatever concerns the engine or the settings."""

    chat_requested = Signal(str)  # path
    convert_requested = Signal(str)  # path
    close_requested = Signal()
    rescan_requested = Signal()
    folder_added = Signal(str)  # path
    release_requested = Signal(str)  # path of a model that must not be loaded while its file is moved
    moved = Signal(str, str)  # path before and after

    def __init__(self, known: KnownFiles, parent: QWidget | None = None, *, in_steps: bool = False) -> None:
        """With `in_steps`, nothing is there until all `steps` were taken, so that none of them takes long."""
        super().__init__(parent)
        self.setObjectName("page")
        self._known = known
        self._background = Background(self)
        self.rows = LibraryRows(self)
        self._wanted = ""
        self._scanned = False
        self.steps = self._build()
        if not in_steps:
            for _step in self.steps:
                pass

    # --- building --------------------------------------------------------------------------------------------------

    def _build(self) -> Iterator[None]:
        self.search = SearchField(_("Search models"))
        self.sort = Choice()
        self.ask, self.undo, self.notice = AskBar(), UndoBar(), Notice()
        self._notes = Words("", tone="quiet")
        self.card = ModelCard()  # shown or not as the page gets its size, which may be between two steps
        self.card.setFixedWidth(_CARD_WIDTH)
        yield
        self.list = self._made_list()
        yield
        self.details = ModelDetails(self._background)
        yield
        front = QWidget()
        yield from self._lay_out(front)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(front)
        yield
        self._stack.addWidget(self.details)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(self._stack)
        self._connect()

    def _made_list(self) -> QListView:
        made = QListView()
        made.setModel(self.rows)
        made.setItemDelegate(LibraryDelegate(made))
        made.setUniformItemSizes(True)
        made.setMouseTracking(True)
        made.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        made.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        made.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        made.setAccessibleName(_("Models"))
        return made

    def _lay_out(self, front: QWidget) -> Iterator[None]:
        column = QVBoxLayout(front)
        column.setContentsMargins(Space.WIDE, Space.LARGE, Space.WIDE, Space.MEDIUM)
        column.setSpacing(Space.MEDIUM)
        column.addLayout(self._heading())
        column.addLayout(self._tools())
        yield
        for widget in (self.notice, self.ask, self._notes):
            column.addWidget(widget)
        yield
        below = QHBoxLayout()
        below.setSpacing(Space.LARGE)
        below.addWidget(self.list, 1)
        below.addWidget(self.card)
        column.addLayout(below, 1)
        column.addWidget(self.undo)
        yield

    def _heading(self) -> QHBoxLayout:
        title = Words(_("Library"), wrap=False)
        title.setFont(current_theme().title_font)
        self._count = Words("", tone="quiet", wrap=False)
        self.back = Button(_("Back to the chat"), kind="plain", icon="chevron_left")
        row = QHBoxLayout()
        row.setSpacing(Space.MEDIUM)
        row.addWidget(title)
        row.addWidget(self._count)
        row.addStretch(1)
        row.addWidget(self.back)
        return row

    def _tools(self) -> QHBoxLayout:
        self.sort.setAccessibleName(_("Order"))
        for key, (words, _order) in SORTS.items():
            self.sort.addItem(_(words), key)
        self.add_folder = Button(_("Add folder…"), icon="folder")
        self.add_file = Button(_("Open file…"), icon="add")
        row = QHBoxLayout()
        row.setSpacing(Space.SMALL)
        row.addWidget(self.search, 1)
        for widget in (self.sort, self.add_folder, self.add_file):
            row.addWidget(widget)
        return row

    def _connect(self) -> None:
        self.search.textChanged.connect(self._search)
        self.sort.activated.connect(lambda row: self._sort(self.sort.itemData(row)))
        self.back.clicked.connect(self.close_requested)
        self.add_folder.clicked.connect(self.choose_folder)
        self.add_file.clicked.connect(self._choose_file)
        self.list.selectionModel().currentChanged.connect(lambda *_rows: self._show_card())
        self.list.activated.connect(lambda _index: self.do("chat"))
        self.list.customContextMenuRequested.connect(self._open_menu)
        self.rows.modelReset.connect(self._keep_selection)
        self.card.asked.connect(self.do)
        self.details.closed.connect(self._leave_details)
        self.details.chat_requested.connect(self.chat_requested)
        self._background.failed.connect(lambda error: self.notice.show_error(error, tone="caution"))
        for key, names in _keys().items():
            shortcut = QShortcut(QKeySequence(key), self.list, context=Qt.ShortcutContext.WidgetShortcut)
            shortcut.activated.connect(lambda names=names: self._do_first(names))

    # --- showing ---------------------------------------------------------------------------------------------------

    def set_models(
        self, models: Sequence[ModelInfo], *, memory: tuple[int, int], problems: Sequence[str] = ()
    ) -> None:
        """Shows what a scan found; `memory` is what is free and in all, `problems` what could not be read."""
        self._scanned = True
        self.rows.set_models(models, free=memory[0], total=memory[1])
        self._word_notes(problems)
        self._count.setText(ngettext("{n} model", "{n} models", len(models)).format(n=len(models)))
        self._keep_selection()
        self._show_card()

    def set_loaded(self, path: str) -> None:
        """Marks the model that the engine has."""
        if path != self.rows.loaded:
            self.rows.set_loaded(path)
            self._show_card()

    def choose(self, path: str) -> None:
        """Selects a model, now or when the next scan has found it."""
        self._wanted = path
        self._keep_selection()

    def left(self) -> tuple[str, str, str]:
        """Returns what is searched for, the order and the chosen model, for the page that takes this one's place."""
        return self.search.text(), str(self.sort.currentData()), self._wanted

    def go_on_from(self, left: tuple[str, str, str]) -> None:
        """Takes what was chosen on another page."""
        words, order, wanted = left
        self.search.setText(words)
        self.sort.setCurrentIndex(self.sort.findData(order))
        self._sort(order)
        self.choose(wanted)

    def _word_notes(self, problems: Sequence[str]) -> None:
        notes = [one_line(problem, limit=300) for problem in problems[:_MOST_NOTES]]
        if not self.rows.total:
            notes.insert(0, _("No models were found. Drag a .gguf file or a folder into the window, or add a folder."))
        elif not self.rows.rowCount():
            notes.insert(0, _("No model has all of these words."))
        self._notes.setText("\n".join(notes))
        self._notes.setVisible(bool(notes))

    def _search(self, words: str) -> None:
        self.rows.search(words)
        if self._scanned:
            self._word_notes(())

    def _sort(self, key: str) -> None:
        self.rows.sort_by(key)

    def _keep_selection(self) -> None:
        index = self.rows.index_of(self._wanted)
        if not index.isValid() and self.rows.rowCount():
            index = self.rows.index(0)
        if index.isValid() and index != self.list.currentIndex():
            wanted = self._wanted
            self.list.setCurrentIndex(index)
            self.list.scrollTo(index)
            self._wanted = wanted or self._wanted  # the row that stood in for it is not the one that is wanted
        elif not index.isValid():
            self._show_card()

    def _show_card(self) -> None:
        info = self.current
        if info is not None:
            self._wanted = str(info.path)
        fit = self.rows.fit(info) if info is not None else facts.Fit.UNKNOWN
        self.card.show_model(info, fit, loaded=info is not None and self.rows.is_loaded(info))

    @property
    def current(self) -> ModelInfo | None:
        """The selected model."""
        index = self.list.currentIndex()
        return self.rows.info(index) if index.isValid() else None

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.card.setVisible(self.width() >= _ROOM_FOR_CARD)

    # --- doing -----------------------------------------------------------------------------------------------------

    def do(self, name: str) -> None:
        """Does an action of `MODEL_ACTIONS` with the selected model, where it makes sense."""
        info = self.current
        if info is None or name not in [action.name for action in actions_for(info)]:
            return
        {
            "chat": lambda: self.chat_requested.emit(str(info.path)),
            "details": lambda: self._show_details(info),
            "convert": lambda: self.convert_requested.emit(str(info.path)),
            "locate": lambda: self._locate(info),
            "reveal": lambda: reveal(info.path),
            "rename": lambda: self._ask_name(info),
            "remove": lambda: self._ask_removal(info),
            "forget": lambda: self._forget(info),
        }[name]()

    def _do_first(self, names: Sequence[str]) -> None:
        for name in names:
            self.do(name)

    def menu_for(self, info: ModelInfo) -> QMenu:
        """Returns the menu of a model."""
        theme, menu = current_theme(), QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for action in actions_for(info):
            entry = menu.addAction(icons.icon(action.icon, theme, colour=theme.quiet), _(action.words))
            if action.key:
                entry.setShortcut(QKeySequence(action.key))
            entry.triggered.connect(lambda _checked=False, name=action.name: self.do(name))
        return menu

    def _open_menu(self, place: QPoint) -> None:
        index = self.list.indexAt(place)
        if index.isValid():
            self.list.setCurrentIndex(index)
            self.menu_for(self.rows.info(index)).popup(self.list.viewport().mapToGlobal(place))

    def _show_details(self, info: ModelInfo) -> None:
        self.details.show_model(info)
        self._stack.setCurrentWidget(self.details)

    def _leave_details(self) -> None:
        self._stack.setCurrentIndex(0)
        self.list.setFocus()

    def choose_folder(self) -> None:
        """Asks for a folder whose models shall be in the library from now on."""
        dialog = QFileDialog(self, _("Add a folder with models"))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.folder_added)
        dialog.open()

    def _choose_file(self) -> None:
        self._file_dialog(_("Open a model file")).fileSelected.connect(self.chat_requested)

    def _locate(self, info: ModelInfo) -> None:
        dialog = self._file_dialog(_("Where is {name} now?").format(name=shown_name(info)))
        dialog.fileSelected.connect(lambda path: self.located(info, path))

    def located(self, info: ModelInfo, path: str) -> None:
        """Takes the new place of a file that was missing."""
        self._known.forget(info.path)
        self._known.add(Path(path))
        self.moved.emit(str(info.path), path)
        self._wanted = path
        self.rescan_requested.emit()

    def _file_dialog(self, title: str) -> QFileDialog:
        dialog = QFileDialog(self, title, "", _("Model files (*.gguf);;All files (*)"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()
        return dialog

    def _ask_name(self, info: ModelInfo) -> None:
        words = _("A new name for {name}:").format(name=shown_name(info))
        self.ask.ask(
            f"{words} {self._belongs(info)}".strip(), _("Rename"), lambda name: self._rename(info, name),
            text=moving.stem_of(info.path),
        )  # fmt: skip

    def _rename(self, info: ModelInfo, name: str) -> None:
        self.release_requested.emit(str(info.path))
        self._background.run(lambda: moving.rename(info, name), lambda path: self._renamed(info, path))

    def _renamed(self, info: ModelInfo, path: Path) -> None:
        if info.path in self._known.paths:
            self._known.forget(info.path)
            self._known.add(path)
        self.moved.emit(str(info.path), str(path))
        self._wanted = str(path)
        self.rescan_requested.emit()

    def _ask_removal(self, info: ModelInfo) -> None:
        words = _("Move {name} to the trash?").format(name=shown_name(info))
        self.ask.ask(f"{words} {self._belongs(info)}".strip(), _("Move to the trash"), lambda _text: self._remove(info))

    def _belongs(self, info: ModelInfo) -> str:
        program = facts.owner(info)
        if not program:
            return ""
        return _("The file belongs to {program}, which will no longer find it.").format(program=program)

    def _remove(self, info: ModelInfo) -> None:
        self.release_requested.emit(str(info.path))
        self._background.run(lambda: moving.trash(info), lambda moved: self._removed(info, moved))

    def _removed(self, info: ModelInfo, moved: list[tuple[Path, Path]]) -> None:
        was_known = info.path in self._known.paths
        self._known.forget(info.path)
        self.rescan_requested.emit()
        words = _("Moved to the trash: {name}").format(name=shown_name(info))
        self.undo.offer(words, lambda: self._restore(info, moved, was_known))

    def _restore(self, info: ModelInfo, moved: list[tuple[Path, Path]], was_known: bool) -> None:
        if was_known:
            self._known.add(info.path)
        self._wanted = str(info.path)
        self._background.run(lambda: moving.restore(moved), lambda _none: self.rescan_requested.emit())

    def _forget(self, info: ModelInfo) -> None:
        self._known.forget(info.path)
        self.rescan_requested.emit()
        words = _("Taken out of the list: {name}").format(name=shown_name(info))
        self.undo.offer(words, partial(self._list_again, info))

    def _list_again(self, info: ModelInfo) -> None:
        self._known.add(info.path)
        self.rescan_requested.emit()


def reveal(path: Path) -> None:
    """Opens the folder that holds a file in the system's file manager."""
    folder = path if os.path.isdir(path) else path.parent
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


def _keys() -> dict[str, list[str]]:
    from desktop.library.actions_menu import MODEL_ACTIONS

    keys: dict[str, list[str]] = {}
    for action in MODEL_ACTIONS:
        if action.key:
            keys.setdefault(action.key, []).append(action.name)
    return keys
