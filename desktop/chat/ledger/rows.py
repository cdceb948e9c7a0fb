"""The messages in the context as a list: who, how many tokens, what becomes of each. Thousands of them are quick."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from desktop import icons
from desktop.chat.ledger.colours import colour_of
from desktop.chat.ledger.entries import Entry, Ledger, entry_sentence
from desktop.human import whole_number
from desktop.theme import Corner, Space, current_theme

EntryRole = Qt.ItemDataRole.UserRole + 1
_Index = QModelIndex | QPersistentModelIndex
_PIN, _BAR = 14, 3
_LEAST_BAR = 2.0


class LedgerRows(QAbstractListModel):
    """The entries of one ledger."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries: tuple[Entry, ...] = ()
        self.most = 1  # tokens of the longest entry

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._entries)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        entry = self._entries[index.row()]
        if role == EntryRole:
            return entry
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.excerpt
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{entry_sentence(entry)}: {entry.excerpt}"
        return None

    def show_ledger(self, ledger: Ledger) -> None:
        """Takes the entries of a ledger; rows that are there already stay selected and in place."""
        before, after = len(self._entries), len(ledger.entries)
        if after < before:
            self.beginRemoveRows(QModelIndex(), after, before - 1)
            self._entries = self._entries[:after]
            self.endRemoveRows()
        elif after > before:
            self.beginInsertRows(QModelIndex(), before, after - 1)
            self._entries = ledger.entries
            self.endInsertRows()
        self._entries = ledger.entries
        self.most = max((entry.tokens for entry in ledger.entries), default=1) or 1
        if after:
            self.dataChanged.emit(self.index(0), self.index(after - 1))

    def row_of(self, id: str) -> int:
        """Returns the row of a message, -1 where it has none."""
        return next((row for row, entry in enumerate(self._entries) if id and entry.id == id), -1)


class LedgerDelegate(QStyledItemDelegate):
    """Paints an entry in two lines, with its share as a thin bar under them."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: _Index) -> QSize:
        theme = current_theme()
        lines = QFontMetrics(theme.body_font).height() + QFontMetrics(theme.quiet_font).height()
        return QSize(0, lines + _BAR + 2 * Space.SMALL)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        entry: Entry = index.data(EntryRole)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        _paint_ground(painter, option)
        inner = option.rect.adjusted(Space.LARGE, Space.TINY, -Space.LARGE, -Space.TINY)
        self._paint_first_line(painter, inner, entry)
        self._paint_second_line(painter, inner, entry)
        model = index.model()
        most = model.most if isinstance(model, LedgerRows) else entry.tokens
        self._paint_share(painter, QRectF(inner), entry, entry.tokens / max(most, 1))
        painter.restore()

    def _paint_first_line(self, painter: QPainter, inner: QRect, entry: Entry) -> None:
        theme = current_theme()
        painter.setFont(theme.body_font)
        metrics = painter.fontMetrics()
        line = QRect(inner.left(), inner.top(), inner.width(), metrics.height())
        number = whole_number(entry.tokens)
        painter.setPen(theme.quiet if entry.left_out else theme.text)
        painter.drawText(line, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, number)
        line.setRight(line.right() - metrics.horizontalAdvance(number) - Space.MEDIUM)
        if entry.pinned:
            picture = icons.pixmap("pin", theme.accent, size=_PIN, ratio=painter.device().devicePixelRatioF())
            painter.drawPixmap(line.left(), line.center().y() - _PIN // 2, picture)
            line.setLeft(line.left() + _PIN + Space.TINY)
        words = metrics.elidedText(entry.excerpt, Qt.TextElideMode.ElideRight, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, words)

    def _paint_second_line(self, painter: QPainter, inner: QRect, entry: Entry) -> None:
        theme = current_theme()
        top = inner.top() + QFontMetrics(theme.body_font).height()
        painter.setFont(theme.quiet_font)
        metrics = painter.fontMetrics()
        line = QRect(inner.left(), top, inner.width(), metrics.height())
        standing = metrics.elidedText(entry.standing, Qt.TextElideMode.ElideRight, line.width() * 2 // 3)
        painter.setPen(theme.caution if entry.next or entry.loose else theme.quiet)
        painter.drawText(line, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, standing)
        line.setRight(line.right() - metrics.horizontalAdvance(standing) - Space.SMALL)
        painter.setPen(theme.quiet)
        author = metrics.elidedText(entry.author, Qt.TextElideMode.ElideRight, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, author)

    def _paint_share(self, painter: QPainter, inner: QRectF, entry: Entry, share: float) -> None:
        """The whole share pale, and what of it is read already in full colour."""
        theme = current_theme()
        width = max(inner.width() * share, _LEAST_BAR) if entry.tokens else 0.0
        read = width * entry.reused / entry.tokens if entry.tokens else 0.0
        painter.setPen(Qt.PenStyle.NoPen)
        for length, faded in ((width, True), (read, False)):
            if length > 0:
                painter.setBrush(colour_of(entry.kind, theme, faded=faded))
                painter.drawRoundedRect(QRectF(inner.left(), inner.bottom() - _BAR, length, _BAR), 1.5, 1.5)


def _paint_ground(painter: QPainter, option: QStyleOptionViewItem) -> None:
    theme = current_theme()
    ground = QRectF(option.rect).adjusted(Space.TINY, 1, -Space.TINY, -1)
    chosen = bool(option.state & QStyle.StateFlag.State_Selected)
    if chosen or option.state & QStyle.StateFlag.State_MouseOver:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.raised)
        painter.drawRoundedRect(ground, Corner.CONTROL, Corner.CONTROL)
    if chosen and option.state & QStyle.StateFlag.State_HasFocus:
        painter.setPen(theme.accent)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(ground.adjusted(0.5, 0.5, -0.5, -0.5), Corner.CONTROL, Corner.CONTROL)
