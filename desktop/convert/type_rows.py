"""The offered types as rows: size, bits per weight, fit, and what to expect. Filled as the plans come."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from desktop.convert.types import OFFERED
from desktop.human import data_size
from desktop.library import facts
from desktop.theme import current_theme
from runtime.text import N_, _

_Index = QModelIndex | QPersistentModelIndex
_HEADINGS = (N_("Type"), N_("Size"), N_("Bits per weight"), N_("In memory"), N_("What to expect"))
_EXTRA = 1.15  # weights, and what a short conversation takes beside them


class TypeRows(QAbstractTableModel):
    """One row for each offered type."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._plans: dict[str, dict[str, Any]] = {}
        self._memory = (0, 0)

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(OFFERED)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(_HEADINGS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _(_HEADINGS[section])
        if role == Qt.ItemDataRole.TextAlignmentRole and section in (1, 2):
            return int(Qt.AlignmentFlag.AlignTrailing | Qt.AlignmentFlag.AlignVCenter)
        return None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        kind = OFFERED[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return self._cells(index.row())[index.column()]
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() in (1, 2):
            return int(Qt.AlignmentFlag.AlignTrailing | Qt.AlignmentFlag.AlignVCenter)
        if role == Qt.ItemDataRole.ForegroundRole and index.column() == 3:
            return getattr(current_theme(), self._fit(kind.name).value)
        return None

    def _cells(self, row: int) -> tuple[str, ...]:
        kind = OFFERED[row]
        plan = self._plans.get(kind.name)
        if plan is None:
            return kind.name, "…" if self._memory[1] else "", "", "", _(kind.words)
        needed = int(plan["size_bytes"] * _EXTRA)
        return (
            kind.name, data_size(plan["size_bytes"]), f"{plan['bits_per_weight']:.2f}",
            facts.fit_words(needed, self._fit(kind.name)), _(kind.words),
        )  # fmt: skip

    def _fit(self, name: str) -> facts.Fit:
        plan = self._plans.get(name)
        if plan is None:
            return facts.Fit.UNKNOWN
        return facts.fit(int(plan["size_bytes"] * _EXTRA), free=self._memory[0], total=self._memory[1])

    def plan(self, name: str) -> dict[str, Any] | None:
        """Returns what is known of a type."""
        return self._plans.get(name)

    def clear(self) -> None:
        """Forgets the plans: another source was chosen."""
        self._plans.clear()
        self._announce()

    def set_plan(self, name: str, plan: dict[str, Any]) -> None:
        """Takes a plan."""
        self._plans[name] = plan
        self._announce()

    def set_memory(self, memory: tuple[int, int]) -> None:
        """Takes the bytes of memory that are free and in all."""
        self._memory = memory
        self._announce()

    def _announce(self) -> None:
        self.dataChanged.emit(self.index(0, 0), self.index(len(OFFERED) - 1, len(_HEADINGS) - 1))
