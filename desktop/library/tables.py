"""Rows of texts in a table that is searched; asked only for what is on the screen. Knows not what the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QApplication, QHeaderView, QTableView, QWidget

from desktop.chat.plain_text import cleaned, one_line
from desktop.theme import Space, current_theme

_Index = QModelIndex | QPersistentModelIndex


class TextRows(QAbstractTableModel):
    """Rows of texts under headings; columns named in `right` stand at the right."""

    def __init__(self, headings: Sequence[str], *, right: Sequence[int] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._headings, self._right = tuple(headings), frozenset(right)
        self._all: Sequence[Sequence[str]] = ()
        self._shown: Sequence[Sequence[str]] = ()
        self._words: list[str] = []

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._shown)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._headings)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        text = self._shown[index.row()][index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return one_line(text, limit=300)
        if role == Qt.ItemDataRole.ToolTipRole:
            return cleaned(text)
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() in self._right:
            return int(Qt.AlignmentFlag.AlignTrailing | Qt.AlignmentFlag.AlignVCenter)
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self._headings[section]
        return None

    def set_rows(self, rows: Sequence[Sequence[str]]) -> None:
        """Shows other rows."""
        self._all = rows
        self._refresh()

    def search(self, words: str) -> None:
        """Shows only rows that hold all words."""
        self._words = words.lower().split()
        self._refresh()

    def whole(self, row: int) -> str:
        """Returns a row's texts as they are, set apart by tabs."""
        return "\t".join(self._shown[row])

    def _refresh(self) -> None:
        self.beginResetModel()
        self._shown = [row for row in self._all if _holds(row, self._words)] if self._words else self._all
        self.endResetModel()


class TextTable(QTableView):
    """A table to read in. Copy takes the selected rows."""

    def __init__(self, rows: TextRows, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows = rows
        self.setModel(rows)
        self.setAccessibleName(name)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + Space.SMALL)
        self.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeading | Qt.AlignmentFlag.AlignVCenter)
        self.horizontalHeader().setHighlightSections(False)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        self.setFont(current_theme().quiet_font)

    def spread(self, widths: Sequence[int]) -> None:
        """Sets the columns' widths; the one with 0 takes the rest."""
        for column, width in enumerate(widths):
            mode = QHeaderView.ResizeMode.Interactive if width else QHeaderView.ResizeMode.Stretch
            self.horizontalHeader().setSectionResizeMode(column, mode)
            if width:
                self.setColumnWidth(column, width)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            rows = sorted({index.row() for index in self.selectedIndexes()})
            QApplication.clipboard().setText("\n".join(self._rows.whole(row) for row in rows))
        else:
            super().keyPressEvent(event)


def _holds(row: Sequence[str], words: Sequence[str]) -> bool:
    text = "\n".join(row).lower()
    return all(word in text for word in words)
