"""The chats of the sidebar as rows: headings by day, chats, and what a search found. Knows no store and no session."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt, Signal

from desktop.chat.plain_text import one_line
from desktop.store.records import ChatSummary, SearchHit
from runtime.text import _

_Index = QModelIndex | QPersistentModelIndex
RowRole = Qt.ItemDataRole.UserRole + 1


@dataclass(frozen=True, slots=True)
class ListRow:
    """A heading, a chat, a place in a chat (`message_id`) with the text around it, or such a place in a notebook."""

    title: str
    chat_id: str = ""
    message_id: str | None = None
    snippet: str = ""
    pinned: bool = False
    folder: str = ""  # of a chat, or of the heading of a folder
    notebook_id: str = ""

    @property
    def is_heading(self) -> bool:
        """True for a line that only names what follows."""
        return not self.chat_id and not self.notebook_id


class ChatListModel(QAbstractListModel):
    """Rows of `ListRow`. An edited title is passed on and shown once the store has it."""

    renamed = Signal(str, str)  # chat id, title

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._rows: list[ListRow] = []

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        if role == RowRole:
            return row
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole, Qt.ItemDataRole.AccessibleTextRole):
            return row.title
        return None

    def setData(self, index: _Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        row = self._rows[index.row()]
        title = one_line(str(value))
        if role != Qt.ItemDataRole.EditRole or row.is_heading or not title or title == row.title:
            return False
        self.renamed.emit(row.chat_id, title)
        return True

    def flags(self, index: _Index) -> Qt.ItemFlag:
        if not index.isValid() or self._rows[index.row()].is_heading:
            return Qt.ItemFlag.NoItemFlags
        chosen = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        return chosen | Qt.ItemFlag.ItemIsEditable if self._rows[index.row()].chat_id else chosen

    def set_rows(self, rows: Sequence[ListRow]) -> None:
        """Shows other rows; changes in place where the same chats stand in the same order."""
        if [(row.chat_id, row.notebook_id) for row in rows] != [(row.chat_id, row.notebook_id) for row in self._rows]:
            self.beginResetModel()
            self._rows = list(rows)
            self.endResetModel()
            return
        for number, row in enumerate(rows):
            if row != self._rows[number]:
                self._rows[number] = row
                self.dataChanged.emit(self.index(number), self.index(number))

    def index_of(self, chat_id: str) -> QModelIndex:
        """Returns the first row of a chat; an invalid index where it is not listed."""
        for number, row in enumerate(self._rows):
            if chat_id and row.chat_id == chat_id:
                return self.index(number)
        return QModelIndex()

    def row(self, index: _Index) -> ListRow:
        """Returns the record of an index."""
        return self._rows[index.row()]


def rows_by_day(chats: Sequence[ChatSummary], *, today: dt.date | None = None) -> list[ListRow]:
    """Returns what is pinned, then the folders by name, then the rest under Today, Yesterday and so on.

    Within each the order of `chats` stays, which is the latest first.
    """
    pinned = [chat for chat in chats if chat.pinned]
    rows = [ListRow(_("Pinned")), *map(_row, pinned)] if pinned else []
    filed = [chat for chat in chats if chat.folder and not chat.pinned]
    for folder in sorted({chat.folder for chat in filed}, key=str.casefold):
        rows.append(ListRow(one_line(folder), folder=folder))
        rows += [_row(chat) for chat in filed if chat.folder == folder]
    heading = ""
    for chat in (chat for chat in chats if not chat.pinned and not chat.folder):
        wanted = _heading(_day(chat.updated), today or dt.date.today())
        if wanted != heading:
            heading = wanted
            rows.append(ListRow(heading))
        rows.append(_row(chat))
    return rows


def _row(chat: ChatSummary) -> ListRow:
    return ListRow(shown_title(chat.title), chat.id, pinned=chat.pinned, folder=chat.folder)


def rows_of_hits(hits: Sequence[SearchHit]) -> list[ListRow]:
    """Returns what a search found, in the store's order; notebooks under a heading of their own."""
    chats = [hit for hit in hits if not hit.notebook_id]
    rows = [ListRow(shown_title(hit.title), hit.chat_id, hit.message_id, one_line(hit.snippet)) for hit in chats]
    books = [hit for hit in hits if hit.notebook_id]
    return rows + [ListRow(_("Notebooks"))] * bool(books) + [
        ListRow(one_line(hit.title) or _("Notebook"), snippet=one_line(hit.snippet), notebook_id=hit.notebook_id)
        for hit in books
    ]


def shown_title(title: str) -> str:
    """Returns a chat's title on one line, or what an untitled one is called."""
    return one_line(title) or _("New chat")


def _day(moment: float) -> dt.date:
    """Returns the day of a moment; one that no calendar has, as a damaged row may hold it, is long ago."""
    try:
        return dt.date.fromtimestamp(moment)
    except (OverflowError, ValueError, OSError):
        return dt.date.min


def _heading(day: dt.date, today: dt.date) -> str:
    age = (today - day).days
    if age <= 0:
        return _("Today")
    if age == 1:
        return _("Yesterday")
    return _("Last seven days") if age < 7 else _("Earlier")
