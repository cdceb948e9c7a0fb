"""The list of models under the model's name: what is here, what can run and why not. Scans nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from desktop import fonts, icons
from desktop.chat.model_names import shown_name
from desktop.chat.plain_text import one_line
from desktop.controls.buttons import Button, SearchField, Words
from desktop.human import data_size, whole_number
from desktop.theme import Corner, Space, current_theme
from runtime.text import _

if TYPE_CHECKING:
    from runtime.library import ModelInfo

_Index = QModelIndex | QPersistentModelIndex
InfoRole = Qt.ItemDataRole.UserRole + 1
_WIDTH, _FEWEST_ROWS, _MOST_ROWS = 460, 3, 8
_MOST_NOTES, _LONGEST_NOTE = 3, 300


def facts(info: ModelInfo) -> str:
    """Returns a model's quantization, size and context in one line, or why it cannot run or needs care."""
    if not info.runnable:
        return one_line(info.reason) or _("It cannot run here.")
    if info.caution:
        return one_line(info.caution)
    parts = [one_line(info.quantization, limit=40), data_size(info.size_bytes) if info.size_bytes else ""]
    if info.context_length:
        parts.append(_("{n} tokens of context").format(n=whole_number(info.context_length)))
    return "  ·  ".join(part for part in parts if part)


class ModelListModel(QAbstractListModel):
    """The models that match what is searched for; those that one can talk to come first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._all: tuple[ModelInfo, ...] = ()
        self._shown: list[ModelInfo] = []
        self._words: list[str] = []
        self.current = ""

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        info = self._shown[index.row()]
        if role == InfoRole:
            return info
        if role == Qt.ItemDataRole.DisplayRole:
            return shown_name(info)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{shown_name(info)}, {facts(info)}"
        if role == Qt.ItemDataRole.ToolTipRole:
            return "\n".join(filter(None, (info.reason or info.caution, str(info.path))))
        return None

    def flags(self, index: _Index) -> Qt.ItemFlag:
        usable = index.isValid() and self._shown[index.row()].can_chat
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable if usable else Qt.ItemFlag.NoItemFlags

    def set_models(self, models: Sequence[ModelInfo]) -> None:
        """Takes what the library found."""
        self._all = tuple(models)
        self._refresh()

    def search(self, words: str) -> None:
        """Shows only models whose name, kind or path holds all words."""
        self._words = words.lower().split()
        self._refresh()

    def _refresh(self) -> None:
        self.beginResetModel()
        found = [info for info in self._all if all(word in _searched(info) for word in self._words)]
        self._shown = sorted(found, key=lambda info: (not info.can_chat, shown_name(info).lower()))
        self.endResetModel()

    def info(self, index: _Index) -> ModelInfo:
        """Returns the record of a row."""
        return self._shown[index.row()]

    def is_current(self, info: ModelInfo) -> bool:
        """True for the model that is loaded."""
        return bool(self.current) and str(info.path) == self.current


def _searched(info: ModelInfo) -> str:
    names = " ".join((info.name, *info.aliases, shown_name(info)))
    return f"{names} {info.quantization} {info.architecture} {info.path}".lower()


class ModelDelegate(QStyledItemDelegate):
    """Paints a model in two lines, with a mark on the one that is loaded."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: _Index) -> QSize:
        theme = current_theme()
        lines = QFontMetrics(theme.body_font).height() + QFontMetrics(theme.quiet_font).height()
        return QSize(0, lines + Space.LARGE)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        info: ModelInfo = index.data(InfoRole)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        _paint_ground(painter, option)
        model = index.model()
        current = isinstance(model, ModelListModel) and model.is_current(info)
        self._paint_words(painter, option.rect.adjusted(Space.MEDIUM, Space.SMALL, -Space.MEDIUM, -Space.SMALL), info)
        if current:
            side = 16
            picture = icons.pixmap("check", current_theme().good, size=side, ratio=painter.device().devicePixelRatioF())
            place = QPoint(option.rect.right() - side - Space.MEDIUM, option.rect.center().y() - side // 2)
            painter.drawPixmap(place, picture)
        painter.restore()

    def _paint_words(self, painter: QPainter, rect: QRect, info: ModelInfo) -> None:
        theme = current_theme()
        inner = rect.adjusted(0, 0, -Space.WIDE, 0)
        name_font = fonts.strong() if info.can_chat else theme.body_font
        painter.setFont(name_font)
        painter.setPen(theme.text if info.can_chat else theme.quiet)
        name = painter.fontMetrics().elidedText(shown_name(info), Qt.TextElideMode.ElideMiddle, inner.width())
        painter.drawText(inner, Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeading, name)
        painter.setFont(theme.quiet_font)
        painter.setPen(theme.quiet if info.runnable and not info.caution else theme.caution)
        line = painter.fontMetrics().elidedText(facts(info), Qt.TextElideMode.ElideRight, inner.width())
        painter.drawText(inner, Qt.AlignmentFlag.AlignBottom | Qt.AlignmentFlag.AlignLeading, line)


def _paint_ground(painter: QPainter, option: QStyleOptionViewItem) -> None:
    theme, state = current_theme(), option.state
    if not state & QStyle.StateFlag.State_Enabled:
        return
    selected = bool(state & QStyle.StateFlag.State_Selected)
    if selected or state & QStyle.StateFlag.State_MouseOver:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.pressed if selected else theme.raised)
        painter.drawRoundedRect(option.rect.adjusted(1, 1, -1, -1), Corner.CONTROL, Corner.CONTROL)


class ModelPicker(QFrame):
    """A list that opens under the model's button. It closes itself when something is chosen."""

    chosen = Signal(str)  # path
    file_requested = Signal()
    eject_requested = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setProperty("kind", "popup")
        self.setAccessibleName(_("Models"))
        self.model = ModelListModel(self)
        self.search = SearchField(_("Search models"))
        self.search.installEventFilter(self)
        self.list = QListView()
        self._note = Words(_("Looking for models on this computer…"), tone="quiet")
        self._note.setContentsMargins(Space.SMALL, 0, Space.SMALL, 0)
        self._eject = Button(_("Eject"), kind="plain", icon="eject")
        self._lay_out()
        self._connect()

    def _lay_out(self) -> None:
        self.list.setModel(self.model)
        self.list.setItemDelegate(ModelDelegate(self.list))
        self.list.setMouseTracking(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setAccessibleName(_("Models"))
        self._open = Button(_("Open file…"), kind="plain", icon="folder")
        foot = QHBoxLayout()
        foot.addWidget(self._open)
        foot.addStretch(1)
        foot.addWidget(self._eject)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.SMALL, Space.SMALL, Space.SMALL, Space.SMALL)
        column.setSpacing(Space.SMALL)
        column.addWidget(self.search)
        column.addWidget(self._note)
        column.addWidget(self.list, 1)
        column.addLayout(foot)
        self.setFixedWidth(_WIDTH)
        self._fit()

    def _fit(self) -> None:
        """As high as its rows, within reason."""
        rows = min(max(self.model.rowCount(), _FEWEST_ROWS), _MOST_ROWS)
        theme = current_theme()
        row = QFontMetrics(theme.body_font).height() + QFontMetrics(theme.quiet_font).height() + Space.LARGE
        self.list.setFixedHeight(rows * row)
        self.adjustSize()

    def _connect(self) -> None:
        self.search.textChanged.connect(self._find)
        self.list.clicked.connect(self._choose)
        self.list.activated.connect(self._choose)
        self._open.clicked.connect(lambda: self._close_and(self.file_requested))
        self._eject.clicked.connect(lambda: self._close_and(self.eject_requested))

    def set_models(self, models: Sequence[ModelInfo], *, problems: Sequence[str] = ()) -> None:
        """Shows what the library found, and in sentences what it could not read."""
        self.model.set_models(models)
        nothing = _("No models were found. Open a .gguf file, or put one into the models folder.")
        notes = [*([] if models else [nothing]), *(one_line(problem, limit=_LONGEST_NOTE) for problem in problems)]
        self._note.setText("\n".join(notes[:_MOST_NOTES]))
        self._note.setVisible(bool(notes))
        self._fit()
        self._select_first()

    def open_under(self, button: QWidget, *, current: str) -> None:
        """Opens below a button; `current` is the path of the loaded model, or empty."""
        self.model.current = current
        self._eject.setEnabled(bool(current))
        self.search.clear()
        screen = button.screen().availableGeometry()
        place = button.mapToGlobal(QPoint(0, button.height() + Space.TINY))
        place.setX(max(screen.left(), min(place.x(), screen.right() - self.width())))
        place.setY(max(screen.top(), min(place.y(), screen.bottom() - self.height())))
        self.move(place)
        self.show()
        self.search.setFocus()
        self._select_first()

    def _find(self, words: str) -> None:
        self.model.search(words)
        self._select_first()

    def _select_first(self) -> None:
        rows = range(self.model.rowCount())
        usable = [row for row in rows if self.model.info(self.model.index(row)).can_chat]
        current = [row for row in usable if self.model.is_current(self.model.info(self.model.index(row)))]
        if usable:
            self.list.setCurrentIndex(self.model.index((current or usable)[0]))

    def _choose(self, index: QModelIndex) -> None:
        info = self.model.info(index)
        if info.can_chat:
            self.hide()
            self.chosen.emit(str(Path(info.path)))

    def _close_and(self, signal: Any) -> None:
        self.hide()
        signal.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Arrow keys and Enter in the search move and choose in the list."""
        if watched is self.search and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_PageDown, Qt.Key.Key_PageUp):
                self.list.event(event)
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.list.currentIndex().isValid():
                self._choose(self.list.currentIndex())
                return True
        return super().eventFilter(watched, event)
