"""Settings that are lists of files or folders, as rows to add and remove. Know one declared setting each, and no panel.

Whether a file is there is looked up in a thread.
"""

from __future__ import annotations

import os
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from desktop.background import Background
from desktop.chat.plain_text import one_line
from desktop.controls.buttons import Button, ElidedWords, IconButton, Words, repolish
from desktop.theme import Space, current_theme
from runtime.adapters import BadAdapter, ChosenAdapter, read_adapter
from runtime.places import path_of, shown_path, spelled_path
from runtime.settings import SettingField
from runtime.text import _

_FACTOR_WIDTH = 56


class PathRow(QWidget):
    """One path: its name, what is wrong with it, and the button that takes it out."""

    removed = Signal()
    changed = Signal()

    def __init__(self, written: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.written = written
        self.path = self._path()
        self.name = ElidedWords(one_line(self._name(), limit=200))
        self.name.setToolTip(one_line(shown_path(self.path), limit=500))
        self.remove = IconButton("close", _("Remove “{name}”").format(name=one_line(self.path.name, limit=60)))
        self.remove.clicked.connect(self.removed)
        self.missing = Words("", tone="caution")
        self.missing.setFont(current_theme().quiet_font)
        self.missing.hide()
        self._row = QHBoxLayout()
        self._row.setSpacing(Space.TINY)
        self._row.addWidget(self.name, 1)
        self._row.addWidget(self.remove)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self._row)
        column.addWidget(self.missing)

    def _path(self) -> Path:
        return path_of(self.written).expanduser()

    def _name(self) -> str:
        return shown_path(self.path)

    def show_there(self, there: bool) -> None:
        """Says where the path leads nowhere."""
        self.missing.setVisible(not there)
        words = _("Not found: {path}").format(path=one_line(shown_path(self.path), limit=300))
        self.missing.setText("" if there else words)


class AdapterRow(PathRow):
    """A path and the factor by which its changes are taken."""

    def __init__(self, written: str, parent: QWidget | None = None) -> None:
        super().__init__(written, parent)
        self.factor = QLineEdit(f"{self._chosen().scale:g}")
        self.factor.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.factor.setFixedWidth(_FACTOR_WIDTH)
        words = _("How much of “{name}” is taken: 1 is all of it").format(name=one_line(self.path.name, limit=60))
        self.factor.setAccessibleName(words)
        self.factor.setToolTip(words)
        self.factor.editingFinished.connect(self._take_factor)
        self._row.insertWidget(1, Words("×", tone="quiet", wrap=False))
        self._row.insertWidget(2, self.factor)
        QWidget.setTabOrder(self.factor, self.remove)

    def _chosen(self) -> ChosenAdapter:
        try:
            return read_adapter(self.written)
        except BadAdapter:  # from a settings file of another version
            return ChosenAdapter(path_of(self.written), 1.0)

    def _path(self) -> Path:
        return self._chosen().path

    def _name(self) -> str:
        return self.path.name

    def _take_factor(self) -> None:
        if not self.factor.isModified():
            return
        self.factor.setModified(False)
        try:
            scale = float(self.factor.text().strip().replace(",", "."))
            written = written_adapter(self.path, scale)
            wrong = read_adapter(written).scale != scale  # as of what is no number
        except (ValueError, BadAdapter):
            wrong = True
        self._show_wrong(wrong)
        if not wrong:
            self.written = written
            self.changed.emit()

    def _show_wrong(self, wrong: bool) -> None:
        self.factor.setProperty("wrong", "true" if wrong else None)
        repolish(self.factor)


def written_adapter(path: Path, scale: float) -> str:
    """Returns an adapter as the setting holds it."""
    spelled = spelled_path(path)
    return spelled if scale == 1 and "=" not in spelled else f"{spelled}={scale:g}"


class PathListField(QWidget):
    """The rows, and the button that adds one."""

    changed = Signal(object)
    row_type: type[PathRow] = PathRow

    def __init__(self, declared: SettingField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.beside_title = False
        self._title = _(declared.setting.title)
        self._background = Background(self)
        self.rows: list[PathRow] = []
        self._nothing = Words(_("none"), tone="quiet")
        self.add = Button(self._add_words(), icon="add")
        self.add.clicked.connect(self.ask)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(Space.TINY)
        self._column.addWidget(self._nothing)
        self._column.addWidget(self.add, 0, Qt.AlignmentFlag.AlignLeft)
        self.setFocusProxy(self.add)
        self.setAccessibleName(self._title)

    def _add_words(self) -> str:
        return _("Add a folder…")

    def value(self) -> tuple[str, ...]:
        """Returns what the rows say."""
        return tuple(row.written for row in self.rows)

    def set_value(self, value: tuple[str, ...]) -> None:
        if value != self.value():
            for row in self.rows:
                self._column.removeWidget(row)
                row.hide()
                row.deleteLater()
            self.rows = [self._made(written) for written in value]
            for place, row in enumerate(self.rows):
                self._column.insertWidget(place, row)
        self._nothing.setVisible(not self.rows)
        self._look()

    def show_error(self, wrong: bool) -> None:
        """The line under the list says what is wrong."""

    def _made(self, written: str) -> PathRow:
        row = self.row_type(written, self)
        row.removed.connect(lambda: self._remove(row))
        row.changed.connect(lambda: self.changed.emit(self.value()))
        return row

    def _remove(self, row: PathRow) -> None:
        self.changed.emit(tuple(other.written for other in self.rows if other is not row))
        self.add.setFocus()

    def _look(self) -> None:
        """Looks which paths lead somewhere, in a thread."""
        paths = [row.path for row in self.rows]
        if paths:
            self._background.run(lambda: [self._is_there(path) for path in paths], self._show_there)

    def _is_there(self, path: Path) -> bool:
        return os.path.isdir(path)

    def _show_there(self, there: list[bool]) -> None:
        if len(there) == len(self.rows):
            for row, is_there in zip(self.rows, there, strict=True):
                row.show_there(is_there)

    def ask(self) -> QFileDialog:
        """Asks for one more."""
        dialog = QFileDialog(self, self._title)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        return self._opened(dialog)

    def _opened(self, dialog: QFileDialog) -> QFileDialog:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.take)
        dialog.open()
        return dialog

    def take(self, path: str) -> None:
        """Adds a path, unless it is there."""
        written = self._written(Path(path))
        if written not in self.value():
            self.changed.emit((*self.value(), written))

    def _written(self, path: Path) -> str:
        return spelled_path(path)


class AdapterListField(PathListField):
    """LoRA adapters, each with its factor."""

    row_type = AdapterRow

    def _add_words(self) -> str:
        return _("Add an adapter…")

    def _is_there(self, path: Path) -> bool:
        return os.path.isfile(path)

    def ask(self) -> QFileDialog:
        dialog = QFileDialog(self, self._title, "", _("LoRA adapters (*.gguf);;All files (*)"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        return self._opened(dialog)

    def _written(self, path: Path) -> str:
        return written_adapter(path, 1.0)
