"""The palette's list over the window: type, choose with the arrows, press Enter. Knows no entry's meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QSize,
    Qt,
)
from PySide6.QtGui import QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QFrame,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from desktop import icons
from desktop.controls.buttons import SearchField, Words
from desktop.controls.placing import kept_inside
from desktop.palette.entries import Entry
from desktop.palette.fuzzy import best
from desktop.theme import Corner, Space, current_theme
from runtime.text import _

_Index = QModelIndex | QPersistentModelIndex
_WIDTH, _ROWS, _LIMIT = 560, 9, 60
_LEAST_ROWS = 3
_SIDE = 16
_MOVES = (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_PageDown, Qt.Key.Key_PageUp)
EntryRole = Qt.ItemDataRole.UserRole + 1


class EntryRows(QAbstractListModel):
    """The entries that fit what is typed, the best first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._all: list[Entry] = []
        self._shown: Sequence[Entry] = ()
        self._typed = ""

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        entry = self._shown[index.row()]
        if role == EntryRole:
            return entry
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.words
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join(filter(None, (entry.words, entry.kind, entry.keys)))
        return None

    def add(self, entries: Iterable[Entry]) -> None:
        """Takes more entries; those that came before stay before them where they fit alike."""
        self._all += entries
        self.search(self._typed)

    def search(self, typed: str) -> None:
        """Shows what fits."""
        self._typed = typed
        self.beginResetModel()
        self._shown = best(typed, ((entry.name, entry) for entry in self._all), limit=_LIMIT)
        self.endResetModel()


class EntryDelegate(QStyledItemDelegate):
    """A drawing, the words, and at the end the keys or the kind."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: _Index) -> QSize:
        return QSize(0, QFontMetrics(current_theme().body_font).height() + Space.LARGE)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        theme, entry = current_theme(), index.data(EntryRole)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & (QStyle.StateFlag.State_Selected | QStyle.StateFlag.State_MouseOver):
            selected = bool(option.state & QStyle.StateFlag.State_Selected)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.pressed if selected else theme.raised)
            painter.drawRoundedRect(option.rect.adjusted(1, 1, -1, -1), Corner.CONTROL, Corner.CONTROL)
        inner = option.rect.adjusted(Space.MEDIUM, 0, -Space.MEDIUM, 0)
        picture = icons.pixmap(entry.icon, theme.quiet, size=_SIDE, ratio=painter.device().devicePixelRatioF())
        painter.drawPixmap(QPoint(inner.left(), inner.center().y() - _SIDE // 2), picture)
        end = entry.keys or entry.kind
        end_width = QFontMetrics(theme.quiet_font).horizontalAdvance(end)
        painter.setFont(theme.quiet_font)
        painter.setPen(theme.quiet)
        painter.drawText(inner, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignTrailing, end)
        words = inner.adjusted(_SIDE + Space.MEDIUM, 0, -end_width - Space.MEDIUM, 0)
        painter.setFont(theme.body_font)
        painter.setPen(theme.text)
        shown = painter.fontMetrics().elidedText(entry.words, Qt.TextElideMode.ElideRight, words.width())
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeading, shown)
        painter.restore()


class Palette(QFrame):
    """Opens over a window, runs what is chosen and goes away."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("kind", "popup")
        self.setAccessibleName(_("Command palette"))
        self.rows = EntryRows(self)
        self.search = SearchField(_("Find an action, a chat, a model, a setting"))
        self.search.installEventFilter(self)
        self.list = QListView()
        self.list.setModel(self.rows)
        self.list.setItemDelegate(EntryDelegate(self.list))
        self.list.setUniformItemSizes(True)
        self.list.setMouseTracking(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setAccessibleName(_("Found"))
        self._nothing = Words(_("Nothing has this in its name."), tone="quiet")
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.SMALL, Space.SMALL, Space.SMALL, Space.SMALL)
        column.setSpacing(Space.SMALL)
        for widget in (self.search, self._nothing, self.list):
            column.addWidget(widget)
        self.setFixedWidth(min(_WIDTH, max(parent.width() - 2 * Space.WIDE, 320)))
        self._row = self.list.itemDelegate().sizeHint(QStyleOptionViewItem(), QModelIndex()).height()
        self.list.setFixedHeight(_ROWS * self._row)
        self.search.textChanged.connect(self.rows.search)
        self.rows.modelReset.connect(self._select_first)
        self.list.clicked.connect(self._choose)

    def open_over(self, window: QWidget) -> None:
        """Shows itself in the upper third of a window, with as many rows as the screen has room for."""
        room = window.screen().availableGeometry()
        rows = (room.height() - self.sizeHint().height()) // self._row + _ROWS
        self.list.setFixedHeight(max(_LEAST_ROWS, min(_ROWS, rows)) * self._row)
        self.adjustSize()
        top = window.mapToGlobal(QPoint((window.width() - self.width()) // 2, window.height() // 8))
        self.move(kept_inside(top, self.size(), room))
        self.show()
        self.search.setFocus()
        self._select_first()

    def _select_first(self) -> None:
        found = self.rows.rowCount() > 0
        self._nothing.setVisible(not found)
        self.list.setVisible(found)
        if found:
            self.list.setCurrentIndex(self.rows.index(0))

    def _choose(self, index: QModelIndex) -> None:
        entry: Entry = index.data(EntryRole)
        self.close()
        entry.run()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Arrow keys and Enter in the search move and choose in the list; Esc closes even a filled search."""
        if watched is self.search and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in _MOVES:
                self.list.event(event)
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.list.currentIndex().isValid():
                self._choose(self.list.currentIndex())
                return True
            if event.key() == Qt.Key.Key_Escape:
                self.close()
                return True
        return super().eventFilter(watched, event)
