"""The conversation for screen readers: a list whose items are the messages, read from the view's layout when asked.

Nothing is made before a reader asks, and then an object for each message that was asked for. Knows no painting.

Messages have no `QAccessibleTextInterface`: PySide6 6.11 calls no override of its `selection` and `attributes`, and
leaves the places unset that these are to fill, which a reader would take for offsets.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QRect
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QAccessibleInterface, QAccessibleObject
from PySide6.QtWidgets import QAccessibleWidget

from runtime.text import _

if TYPE_CHECKING:
    from desktop.chat.view.conversation_view import ConversationView
    from desktop.chat.view.message_model import ChatItem


class MessageNode(QObject):
    """Stands for the message in a row; Qt keeps what readers know of it as long as this lives."""

    def __init__(self, view: ConversationView, row: int) -> None:
        super().__init__(view)
        self.view, self.row = view, row

    @property
    def item(self) -> ChatItem | None:
        """The message; None where the row is gone."""
        items = self.view.layout_of_items.items
        return items[self.row].item if self.row < len(items) else None


class MessageAccessible(QAccessibleObject):
    """One message: its name is who speaks and what, its value what, its description what went wrong."""

    def __init__(self, node: MessageNode) -> None:
        super().__init__(node)
        self._node = node

    def parent(self) -> QAccessibleInterface | None:  # type: ignore[override]  # as in C++, there may be none
        return QAccessible.queryAccessibleInterface(self._node.view)

    def child(self, _index: int) -> QAccessibleInterface | None:  # type: ignore[override]
        return None

    def childCount(self) -> int:
        return 0

    def indexOfChild(self, _child: QAccessibleInterface) -> int:
        return -1

    def isValid(self) -> bool:
        return self._node.item is not None

    def role(self) -> QAccessible.Role:
        return QAccessible.Role.ListItem

    def text(self, kind: QAccessible.Text) -> str:
        item = self._node.item
        if item is None:
            return ""
        if kind == QAccessible.Text.Name:
            return spoken(item)
        if kind == QAccessible.Text.Value:
            return item.answer
        described = kind == QAccessible.Text.Description and item.error is not None
        return item.error.title if described and item.error is not None else ""

    def rect(self) -> QRect:
        return self._node.view.rect_of_row(self._node.row)

    def state(self) -> QAccessible.State:
        state, view = QAccessible.State(), self._node.view
        state.focusable = state.readOnly = state.multiLine = True
        state.focused = view.hasFocus() and view.current_row == self._node.row
        state.offscreen = not view.rect_of_row(self._node.row).intersects(view.screen_rect())
        return state


class ConversationAccessible(QAccessibleWidget):
    """The list of messages, and behind them the widgets that lie over it."""

    def __init__(self, view: ConversationView) -> None:
        super().__init__(view, QAccessible.Role.List)
        self._view = view

    def _count(self) -> int:
        return len(self._view.layout_of_items.items)

    def childCount(self) -> int:
        return self._count() + super().childCount()

    def child(self, index: int) -> QAccessibleInterface | None:  # type: ignore[override]
        if 0 <= index < self._count():
            return QAccessible.queryAccessibleInterface(self._view.node(index))
        return super().child(index - self._count())

    def indexOfChild(self, child: QAccessibleInterface) -> int:
        node = child.object()
        if isinstance(node, MessageNode):
            return node.row
        found = super().indexOfChild(child)
        return found + self._count() if found >= 0 else found

    def focusChild(self) -> QAccessibleInterface | None:  # type: ignore[override]
        row = self._view.current_row
        return self.child(row) if row >= 0 and self._view.hasFocus() else super().focusChild()


def spoken(item: ChatItem) -> str:
    """Returns a message as a reader says it."""
    return _("{author}: {text}").format(author=item.author, text=item.answer)


def announce(view: ConversationView, item: ChatItem) -> None:
    """Has a reader say a message that has just been written, if one is at work."""
    if QAccessible.isActive() and item.answer:
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(view, spoken(item)))


@cache
def offer_to_readers() -> None:
    """Tells Qt, once, what to give to readers that ask for a conversation."""
    QAccessible.installFactory(_made)


def _made(_class: str, described: QObject) -> QAccessibleInterface | None:
    from desktop.chat.view.conversation_view import ConversationView

    if isinstance(described, ConversationView):
        return ConversationAccessible(described)
    return MessageAccessible(described) if isinstance(described, MessageNode) else None
