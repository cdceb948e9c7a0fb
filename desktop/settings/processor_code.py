"""The setting that names a build of the processor code, as a list of those that there are. Knows no panel.

Which there are is looked up in a thread; until then, and where the library holds only one, the list has two at most:
the automatic choice and what is set.
"""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from desktop.background import Background
from desktop.chat.plain_text import one_line
from desktop.controls.buttons import Choice
from runtime.llama.files import EngineLibraryMissing, backend_files
from runtime.llama.variants import names_here
from runtime.settings import SettingField
from runtime.text import _

_LONGEST = 40  # characters of a name that came from a settings file


class ProcessorCodeField(QWidget):
    """A drop-down of names; one that is set and not here stays in the list, and says so."""

    changed = Signal(object)

    def __init__(self, declared: SettingField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.beside_title = True
        self._automatic = str(declared.default)
        self._here: tuple[str, ...] | None = None  # not looked up yet
        self._value = self._automatic
        self.box = Choice()
        self.box.setAccessibleName(_(declared.setting.title))
        self.box.activated.connect(lambda row: self.changed.emit(self.box.itemData(row)))
        self.setFocusProxy(self.box)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.box)
        self._fill()
        Background(self).run(_found, self._take)

    def set_value(self, value: str) -> None:
        """Shows what is set; letters of any case name the same."""
        self._value = value.strip().lower() or self._automatic
        self._fill()

    def show_error(self, _wrong: bool) -> None:
        """The list offers nothing wrong, and says what is not here."""

    def _take(self, names: tuple[str, ...]) -> None:
        self._here = names
        self._fill()

    def _fill(self) -> None:
        self.box.clear()
        self.box.addItem(_("automatic"), self._automatic)
        for name in self._here or ():
            self.box.addItem(name, name)
        if self.box.findData(self._value) < 0:
            shown = one_line(self._value, limit=_LONGEST)
            missing = _("{name} (not here)").format(name=shown) if self._here is not None else shown
            self.box.addItem(missing, self._value)
        self.box.setCurrentIndex(self.box.findData(self._value))


def _found() -> tuple[str, ...]:
    try:
        return names_here(backend_files())
    except EngineLibraryMissing:  # which every attempt to load a model says
        return ()
