"""The left side: New chat, a search over all chats, and the list of them. Reads the store; knows no session.

The store answers later, so an answer may come when the sidebar is gone (the language was changed): that is looked at.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, QPoint, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QKeySequence, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QLineEdit,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from desktop import icons
from desktop.chat.chat_list import ChatListModel, ListRow, RowRole, rows_by_day, rows_of_hits
from desktop.chat.plain_text import one_line
from desktop.controls.ask_bar import AskBar
from desktop.controls.buttons import Button, IconButton, SearchField, Words
from desktop.controls.undo import UndoBar
from desktop.store.chat_store import ChatStore
from desktop.store.records import ChatSummary, SearchHit
from desktop.theme import Corner, Size, Space, current_theme
from runtime.text import _

_REFRESH_MS = 60
_SEARCH_MS = 150
_Index = QModelIndex | QPersistentModelIndex


class RowDelegate(QStyledItemDelegate):
    """Paints a heading, a chat, or a found place with its text."""

    def sizeHint(self, _option: QStyleOptionViewItem, index: _Index) -> QSize:
        row: ListRow = index.data(RowRole)
        line = QFontMetrics(current_theme().body_font).height()
        small = QFontMetrics(current_theme().quiet_font).height()
        if row.is_heading:
            return QSize(0, small + Space.LARGE + Space.TINY)
        return QSize(0, line + Space.LARGE + (small + 2 if row.snippet else 0))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        row: ListRow = index.data(RowRole)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if row.is_heading:
            self._paint_heading(painter, option.rect, row)
        else:
            self._paint_ground(painter, option)
            self._paint_chat(painter, option.rect.adjusted(Space.MEDIUM, 0, -Space.MEDIUM, 0), row)
        painter.restore()

    def _paint_heading(self, painter: QPainter, rect: QRect, row: ListRow) -> None:
        theme = current_theme()
        inner = rect.adjusted(Space.MEDIUM, 0, -Space.MEDIUM, -Space.TINY)
        _draw_line(painter, inner, row.title, theme.quiet_font, theme.quiet, where=Qt.AlignmentFlag.AlignBottom)

    def _paint_ground(self, painter: QPainter, option: QStyleOptionViewItem) -> None:
        theme, state = current_theme(), option.state
        selected = bool(state & QStyle.StateFlag.State_Selected)
        if selected or state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.pressed if selected else theme.raised)
            painter.drawRoundedRect(option.rect, Corner.CONTROL, Corner.CONTROL)
        if state & QStyle.StateFlag.State_HasFocus and state & QStyle.StateFlag.State_KeyboardFocusChange:
            painter.setPen(QPen(theme.accent, 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(option.rect.adjusted(1, 1, -1, -1), Corner.CONTROL - 1, Corner.CONTROL - 1)

    def _paint_chat(self, painter: QPainter, rect: QRect, row: ListRow) -> None:
        theme = current_theme()
        if not row.snippet:
            _draw_line(painter, rect, row.title, theme.body_font, theme.text)
            return
        title_height = QFontMetrics(theme.body_font).height() + Space.SMALL
        upper = QRect(rect.x(), rect.y(), rect.width(), title_height)
        lower = QRect(rect.x(), upper.bottom() - 2, rect.width(), rect.bottom() - upper.bottom() - Space.TINY)
        _draw_line(painter, upper, row.title, theme.body_font, theme.text)
        _draw_line(painter, lower, row.snippet, theme.quiet_font, theme.quiet)

    def createEditor(self, parent: QWidget, _option: QStyleOptionViewItem, _index: _Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setAccessibleName(_("Name of the chat"))
        return editor

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, _index: _Index) -> None:
        editor.setGeometry(option.rect)


def _draw_line(
    painter: QPainter, rect: QRect, text: str, font: QFont, colour: QColor, *,
    where: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignVCenter,
) -> None:  # fmt: skip
    painter.setFont(font)
    painter.setPen(colour)
    shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
    painter.drawText(rect, where | Qt.AlignmentFlag.AlignLeading, shown)


class ChatListView(QListView):
    """The list itself; Enter opens, Delete deletes, F2 renames."""

    opened = Signal(QModelIndex)
    delete_pressed = Signal(QModelIndex)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setMouseTracking(True)
        self.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setItemDelegate(RowDelegate(self))
        self.setAccessibleName(_("Chats"))
        self.clicked.connect(self.opened)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        index = self.currentIndex()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and index.isValid():
            self.opened.emit(index)
        elif event.matches(QKeySequence.StandardKey.Delete) and index.isValid():
            self.delete_pressed.emit(index)
        else:
            super().keyPressEvent(event)


class Sidebar(QWidget):
    """Lists the store's chats and says what was chosen."""

    new_requested = Signal()
    notebook_requested = Signal()
    library_requested = Signal()
    convert_requested = Signal()
    collapse_requested = Signal()
    chat_chosen = Signal(str, object)  # chat id, message id to show or None
    notebook_chosen = Signal(str)  # id
    delete_requested = Signal(str)  # chat id
    rename_requested = Signal(str, str)  # chat id, title
    export_requested = Signal(str, str)  # chat id, "markdown" or "json"
    import_requested = Signal()

    def __init__(self, store: ChatStore, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._store, self._current = store, ""
        self._chats: dict[str, ChatSummary] = {}
        self._elsewhere = False  # whether another page than a chat is open
        self.model = ChatListModel(self)
        self.list = ChatListView()
        self.list.setModel(self.model)
        self.search = SearchField(_("Search chats"))
        self.undo_bar = UndoBar()
        self.ask = AskBar()
        self._nothing = Words("", tone="quiet")
        self._refresh_later = QTimer(self, singleShot=True, interval=_REFRESH_MS)
        self._search_later = QTimer(self, singleShot=True, interval=_SEARCH_MS)
        self._lay_out()
        self._connect()
        self.refresh()

    def _lay_out(self) -> None:
        self.new_button = Button(_("New chat"), kind="plain", icon="new_chat")
        collapse = IconButton("sidebar", _("Hide the list of chats"))
        collapse.clicked.connect(self.collapse_requested)
        top = QHBoxLayout()
        top.setSpacing(Space.TINY)
        top.addWidget(self.new_button, 1)
        top.addWidget(collapse)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.MEDIUM, Space.SMALL, Space.MEDIUM, Space.MEDIUM)
        column.setSpacing(Space.SMALL)
        column.addLayout(top)
        column.addWidget(self.search)
        column.addWidget(self._nothing)
        column.addWidget(self.ask)
        column.addWidget(self.list, 1)
        column.addWidget(self.undo_bar)
        column.addLayout(self._places())

    def _places(self) -> QVBoxLayout:
        """The other pages, under the chats."""
        self.notebook_button = Button(_("Notebook"), kind="plain", icon="notebook")
        self.library_button = Button(_("Library"), kind="plain", icon="library")
        self.convert_button = Button(_("Convert"), kind="plain", icon="convert")
        self.notebook_button.clicked.connect(self.notebook_requested)
        self.library_button.clicked.connect(self.library_requested)
        self.convert_button.clicked.connect(self.convert_requested)
        places = QVBoxLayout()
        places.setSpacing(0)
        self._buttons = {
            "notebook": self.notebook_button, "library": self.library_button, "convert": self.convert_button,
        }  # fmt: skip
        for button in self._buttons.values():
            button.setCheckable(True)
            places.addWidget(button)
        return places

    def mark_page(self, page: str) -> None:
        """Shows which page is open: "notebook", "library", "convert" or another."""
        self._elsewhere = page in self._buttons
        for name, button in self._buttons.items():
            button.setChecked(page == name)
        self._mark()

    def _connect(self) -> None:
        self.new_button.clicked.connect(self.new_requested)
        self.search.textChanged.connect(self._search_soon)
        self._search_later.timeout.connect(self.refresh)
        self._refresh_later.timeout.connect(self.refresh)
        self._store.changed.connect(self._refresh_soon)
        self.list.opened.connect(self._open)
        self.list.delete_pressed.connect(self.delete)
        self.list.customContextMenuRequested.connect(self._show_menu)
        self.model.renamed.connect(self.rename_requested)

    def set_current(self, chat_id: str) -> None:
        """Marks the chat that is open; the empty text marks none."""
        self._current = chat_id
        self._mark()

    def refresh(self) -> None:
        """Reads the list, and what the search finds, from the store."""
        self._store.list_chats(self._show_chats)
        if words := self.search.text().strip():
            self._store.search(words, lambda hits: self._show_hits(words, hits))

    def _search_soon(self) -> None:
        self._search_later.start()

    def _refresh_soon(self) -> None:
        self._refresh_later.start()

    def _show_chats(self, chats: list[ChatSummary] | None) -> None:
        if not isValid(self) or chats is None:
            return
        self._chats = {chat.id: chat for chat in chats}
        if not self.search.text().strip():
            self._show(rows_by_day(chats), "")

    def _show_hits(self, words: str, hits: list[SearchHit] | None) -> None:
        if isValid(self) and self.search.text().strip() == words and hits is not None:
            self._show(rows_of_hits(hits), _("Nothing found for “{words}”.").format(words=words))

    def _show(self, rows: list[ListRow], nothing: str) -> None:
        if self.list.state() == QAbstractItemView.State.EditingState:
            self._refresh_later.start()
            return
        self.model.set_rows(rows)
        self._nothing.setText(nothing)
        self._nothing.setVisible(bool(nothing) and not rows)
        self._mark()

    def _mark(self) -> None:
        index = self.model.index_of("" if self._elsewhere else self._current)
        if index.isValid() and self.list.currentIndex().row() != index.row():
            self.list.setCurrentIndex(index)
        elif not index.isValid():
            self.list.setCurrentIndex(QModelIndex())
            self.list.clearSelection()

    def _open(self, index: QModelIndex) -> None:
        row = self.model.row(index)
        if row.notebook_id:
            self.notebook_chosen.emit(row.notebook_id)
        elif not row.is_heading:
            self.chat_chosen.emit(row.chat_id, row.message_id)

    def delete(self, index: QModelIndex) -> None:
        """Asks to delete a row's chat and offers to undo it."""
        if index.isValid():
            self._delete(self.model.row(index))

    def _delete(self, row: ListRow) -> None:
        if not row.chat_id:
            return
        self.delete_requested.emit(row.chat_id)
        self.undo_bar.offer(_("Deleted: {title}").format(title=row.title), lambda: self._restore(row.chat_id))

    def rename(self, index: QModelIndex) -> None:
        """Lets the name of a row's chat be edited in its place, where it is still listed."""
        if index.isValid():
            self.list.edit(index, QAbstractItemView.EditTrigger.AllEditTriggers, QEvent(QEvent.Type.None_))

    def _restore(self, chat_id: str) -> None:
        self._store.restore_chat(chat_id)
        self.chat_chosen.emit(chat_id, None)

    def _show_menu(self, place: QPoint) -> None:
        index = self.list.indexAt(place)
        if index.isValid() and self.model.row(index).chat_id:
            self.menu_for(index).popup(self.list.viewport().mapToGlobal(place))

    def menu_for(self, index: QModelIndex) -> QMenu:
        """Returns the menu of a chat. The list may change while it is open: what is chosen is done with that chat."""
        theme, row = current_theme(), self.model.row(index)
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        rename = menu.addAction(icons.icon("edit", theme, colour=theme.quiet), _("Rename"))
        rename.setShortcut(QKeySequence(Qt.Key.Key_F2))
        rename.triggered.connect(lambda: self.rename(self._index_of(row)))
        self._add_places(menu, row)
        menu.addSeparator()
        for words, kind in ((_("Export as Markdown…"), "markdown"), (_("Export as JSON…"), "json")):
            export = menu.addAction(icons.icon("export", theme, colour=theme.quiet), words)
            export.triggered.connect(
                lambda _checked=False, kind=kind: self.export_requested.emit(row.chat_id, kind)
            )
        menu.addAction(_("Import chats…")).triggered.connect(self.import_requested)
        menu.addSeparator()
        delete = menu.addAction(icons.icon("delete", theme, colour=theme.quiet), _("Delete"))
        delete.setShortcut(QKeySequence(QKeySequence.StandardKey.Delete))
        delete.triggered.connect(lambda: self._delete(row))
        return menu

    def _index_of(self, row: ListRow) -> QModelIndex:
        """Returns where a row stands now; the same hit of a search, where it is still there."""
        rows = (self.model.index(number) for number in range(self.model.rowCount()))
        return next((index for index in rows if self.model.row(index) == row), self.model.index_of(row.chat_id))

    def _add_places(self, menu: QMenu, row: ListRow) -> None:
        """Adds what pins a chat and puts it into a folder; what a search found does not say whether it is."""
        theme, chat = current_theme(), self._chats.get(row.chat_id)
        pinned, own = (chat.pinned, chat.folder) if chat is not None else (row.pinned, row.folder)
        pin = menu.addAction(icons.icon("pin", theme, colour=theme.quiet), _("Unpin") if pinned else _("Pin"))
        pin.triggered.connect(lambda: self._store.pin_chat(row.chat_id, not pinned))
        folders = menu.addMenu(icons.icon("folder", theme, colour=theme.quiet), _("Folder"))
        for folder in self._folders():
            entry = folders.addAction(folder)
            entry.setCheckable(True)
            entry.setChecked(folder == own)
            entry.triggered.connect(lambda _on=False, name=folder: self._store.move_chat(row.chat_id, name))
        if own:
            folders.addAction(_("No folder")).triggered.connect(lambda: self._store.move_chat(row.chat_id, ""))
        folders.addAction(_("New folder…")).triggered.connect(lambda: self.ask_folder(row.chat_id))

    def _folders(self) -> list[str]:
        return sorted({chat.folder for chat in self._chats.values() if chat.folder}, key=str.casefold)

    def ask_folder(self, chat_id: str) -> None:
        """Asks for the name of a folder and puts a chat into it."""

        def move(name: str) -> None:
            if folder := one_line(name, limit=80):
                self._store.move_chat(chat_id, folder)

        self.ask.ask(_("Name of the folder:"), _("Move"), move, text="")

    def sizeHint(self) -> QSize:
        return QSize(Size.SIDEBAR[1], 600)
