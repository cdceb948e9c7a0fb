"""The library's models as rows: searched, sorted, marked. Scans nothing; a thousand rows cost what is on the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from desktop.chat.model_names import shown_name
from desktop.human import data_size
from desktop.library import facts
from runtime.text import N_

if TYPE_CHECKING:
    from runtime.library import ModelInfo

_Index = QModelIndex | QPersistentModelIndex
InfoRole = Qt.ItemDataRole.UserRole + 1
SORTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "name": (N_("Name"), lambda info: ()),
    "size": (N_("Largest first"), lambda info: (-info.size_bytes,)),
    "memory": (N_("Least memory first"), lambda info: (not info.memory_bytes, info.memory_bytes)),
    "context": (N_("Longest context first"), lambda info: (-info.context_length,)),
    "family": (N_("Family"), lambda info: (info.architecture.lower(),)),
    "place": (N_("Place"), lambda info: (facts.place(info).lower(),)),
}


class LibraryRows(QAbstractListModel):
    """Rows of `ModelInfo`. What cannot run comes after what can, in every order."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._all: tuple[ModelInfo, ...] = ()
        self._texts: dict[str, str] = {}
        self._shown: list[ModelInfo] = []
        self._words: list[str] = []
        self._sort = "name"
        self._free, self._total = 0, 0
        self.loaded = ""

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        info = self._shown[index.row()]
        if role == InfoRole:
            return info
        if role == Qt.ItemDataRole.DisplayRole:
            return shown_name(info)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return self._spoken(info)
        if role == Qt.ItemDataRole.ToolTipRole:
            return "\n".join(filter(None, (info.reason or info.caution, str(info.path))))
        return None

    def _spoken(self, info: ModelInfo) -> str:
        parts = (shown_name(info), info.quantization, data_size(info.size_bytes), facts.family(info),
                 facts.place(info), info.reason or facts.fit_words(info.memory_bytes, self.fit(info)))  # fmt: skip
        return ", ".join(filter(None, parts))

    @property
    def total(self) -> int:
        """How many models there are, shown or not."""
        return len(self._all)

    def fit(self, info: ModelInfo) -> facts.Fit:
        """Returns whether a model finds room."""
        return facts.fit(info.memory_bytes, free=self._free, total=self._total)

    def is_loaded(self, info: ModelInfo) -> bool:
        """True for the model that the engine has."""
        return bool(self.loaded) and str(info.path) == self.loaded

    def set_models(self, models: Sequence[ModelInfo], *, free: int, total: int) -> None:
        """Takes what a scan found, and the bytes of memory that are free and in all."""
        self._all, self._free, self._total = tuple(models), free, total
        self._texts = {info.key: _searched(info) for info in self._all}
        self._refresh()

    def set_loaded(self, path: str) -> None:
        """Marks the loaded model."""
        self.loaded = path
        if self._shown:
            self.dataChanged.emit(self.index(0), self.index(len(self._shown) - 1))

    def search(self, words: str) -> None:
        """Shows only what holds all words in its name, family, type, place or path."""
        self._words = words.lower().split()
        self._refresh()

    def sort_by(self, name: str) -> None:
        """Takes a key of `SORTS`."""
        self._sort = name
        self._refresh()

    def _refresh(self) -> None:
        found = [info for info in self._all if all(word in self._texts[info.key] for word in self._words)]
        order = SORTS[self._sort][1]
        found.sort(key=lambda info: (not info.runnable, order(info), shown_name(info).lower()))
        if found == self._shown:
            return
        self.beginResetModel()
        self._shown = found
        self.endResetModel()

    def info(self, index: _Index) -> ModelInfo:
        """Returns the record of a row."""
        return self._shown[index.row()]

    def index_of(self, path: str) -> QModelIndex:
        """Returns the row of a path; an invalid index where it is not shown."""
        for number, info in enumerate(self._shown):
            if str(info.path) == path:
                return self.index(number)
        return QModelIndex()


def _searched(info: ModelInfo) -> str:
    names = " ".join((info.name, *info.aliases, shown_name(info)))
    return f"{names} {info.quantization} {info.architecture} {facts.place(info)} {info.path}".lower()
