"""The messages of one conversation as a list model. Knows nothing about how they are drawn or where they are kept."""

from __future__ import annotations

import enum
import time
from collections.abc import Iterable
from typing import Any

import msgspec
from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from desktop.human import duration, whole_number
from runtime.errors import ErrorInfo
from runtime.messages import Message, Role
from runtime.reasoning import CLOSE, OPEN, separated
from runtime.text import _


class ItemState(enum.StrEnum):
    """How an answer stands, or how it ended."""

    COMPLETE = "complete"
    STREAMING = "streaming"
    STOPPED = "stopped"
    CUT_LENGTH = "cut_length"  # the longest answer allowed was reached
    CUT_CONTEXT = "cut_context"  # the context was full
    FAILED = "failed"


class ChatItem(msgspec.Struct, frozen=True, kw_only=True):
    """One message as it is shown. `version` counts from 1."""

    id: str
    role: Role
    text: str = ""
    state: ItemState = ItemState.COMPLETE
    error: ErrorInfo | None = None
    speed: float = 0.0  # tokens a second; 0 where that is not known
    seconds: float = 0.0  # reading the prompt and writing the answer; 0 where that is not known
    model_name: str = ""
    version: int = 1
    versions: int = 1
    pinned: bool = False  # never left out of a prompt
    thought_seconds: float = 0.0  # how long the model thought before it answered; 0 where that is not known

    @property
    def answer(self) -> str:
        """The text without the reasoning that an answer may begin with."""
        return separated(Message(self.role, self.text)).content

    @property
    def reasoning(self) -> str:
        """What the model thought before it answered."""
        return separated(Message(self.role, self.text)).reasoning

    @property
    def usage(self) -> tuple[str, ...]:
        """Speed and time as people read them ("42 tok/s", "0.3 s"); nothing where they are not known."""
        speed = [_("{speed} tok/s").format(speed=whole_number(round(self.speed)))] if self.speed else []
        return (*speed, duration(self.seconds)) if self.seconds else tuple(speed)

    @property
    def author(self) -> str:
        """Who speaks, for people: "You", or the model's name where it is known."""
        if self.role is Role.ASSISTANT:
            return self.model_name or _("Model")
        return {Role.USER: _("You"), Role.SYSTEM: _("Instructions")}.get(self.role, _("Tool"))


ItemRole = Qt.ItemDataRole.UserRole + 1
_Index = QModelIndex | QPersistentModelIndex


class MessageListModel(QAbstractListModel):
    """Rows of `ChatItem`. Growing text has a signal of its own, so that only the tail is laid out again."""

    text_appended = Signal(int, str)  # row, the text that was added

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._items: list[ChatItem] = []
        self._rows: dict[str, int] = {}
        self._thinking_since: dict[str, float] = {}

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._items)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self._items):
            return None
        item = self._items[index.row()]
        if role == ItemRole:
            return item
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return f"{item.author}: {item.answer}"
        return None

    def item(self, row: int) -> ChatItem:
        """Returns the record of a row. Raises IndexError outside the list."""
        return self._items[row]

    def items(self) -> tuple[ChatItem, ...]:
        """Returns every record, oldest first."""
        return tuple(self._items)

    def row_of(self, item_id: str) -> int:
        """Returns the row of an id. Raises KeyError where there is none."""
        return self._rows[item_id]

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._rows

    def set_items(self, items: Iterable[ChatItem]) -> None:
        """Shows another conversation. Raises ValueError where an id appears twice."""
        new = list(items)
        rows = {item.id: row for row, item in enumerate(new)}
        if len(rows) != len(new):
            raise ValueError("an id appears twice")
        self.beginResetModel()
        self._items, self._rows = new, rows
        self.endResetModel()

    def add(self, item: ChatItem) -> None:
        """Adds a message at the end. Raises ValueError where its id is taken."""
        if item.id in self._rows:
            raise ValueError(f"the id {item.id!r} is taken")
        row = len(self._items)
        self.beginInsertRows(QModelIndex(), row, row)
        self._items.append(item)
        self._rows[item.id] = row
        self.endInsertRows()

    def append_text(self, item_id: str, text: str) -> None:
        """Lets a message grow at its end. Raises KeyError where the id is unknown."""
        row = self._rows[item_id]
        if text:
            item = self._items[row]
            seconds = self._thought(item, text) or item.thought_seconds
            self._items[row] = msgspec.structs.replace(item, text=item.text + text, thought_seconds=seconds)
            self.text_appended.emit(row, text)

    def _thought(self, item: ChatItem, text: str) -> float:
        """Returns how long a model has thought whose reasoning ends with this text; 0 before and after."""
        if not item.text and text.startswith(OPEN):
            self._thinking_since[item.id] = time.monotonic()
        if item.id in self._thinking_since and CLOSE in text:
            return time.monotonic() - self._thinking_since.pop(item.id)
        return 0.0

    def update(self, item_id: str, **changes: Any) -> None:
        """Changes fields of a message. Raises KeyError for an unknown id, TypeError for an unknown field."""
        row = self._rows[item_id]
        if "id" in changes:
            raise ValueError("a message keeps its id")
        changed = msgspec.structs.replace(self._items[row], **changes)
        if changed != self._items[row]:
            self._items[row] = changed
            index = self.index(row)
            self.dataChanged.emit(index, index, [ItemRole])

    def remove_from(self, item_id: str) -> None:
        """Removes a message and all that follow it. Raises KeyError where the id is unknown."""
        first = self._rows[item_id]
        self.beginRemoveRows(QModelIndex(), first, len(self._items) - 1)
        for item in self._items[first:]:
            del self._rows[item.id]
        del self._items[first:]
        self.endRemoveRows()
