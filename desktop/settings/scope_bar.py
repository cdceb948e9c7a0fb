"""How far a change reaches, and the presets: the lines under the panel's heading."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QMenu, QVBoxLayout, QWidget

from desktop.background import Background
from desktop.controls.ask_bar import AskBar
from desktop.controls.buttons import Button, Words
from desktop.controls.notice import Notice
from desktop.controls.segments import Segments
from desktop.settings.live import LiveSettings, Scope
from desktop.settings.presets import Preset, PresetFolder, encoded, read, shown
from desktop.theme import Space, current_theme
from runtime.errors import ErrorInfo, UserError
from runtime.params import LoadParams, SamplingParams
from runtime.places import atomic_write
from runtime.settings import changed
from runtime.text import N_, _

_SCOPES = (Scope.EVERYWHERE, Scope.MODEL, Scope.CHAT)
_WORDS = (N_("Everywhere"), N_("This model"), N_("This chat"))
_HELP = {
    Scope.EVERYWHERE: N_("Changes hold for every model and chat."),
    Scope.MODEL: N_("Changes hold whenever this model is used."),
    Scope.CHAT: N_("Changes hold in this chat; how a model is loaded stays the model’s."),
}


class ScopeBar(QWidget):
    """Over `LiveSettings` and a folder of presets."""

    applied = Signal(str)  # name of a preset

    def __init__(self, live: LiveSettings, presets: PresetFolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._live, self._presets = live, presets
        self._background = Background(self)
        self._background.failed.connect(self._fail)
        self.scopes = Segments([_(word) for word in _WORDS])
        self._help = Words(tone="quiet")
        self._help.setFont(current_theme().quiet_font)
        self.clear = Button(_("Use the wider settings again"), kind="link")
        self.presets = Button(_("Presets"), kind="plain", icon="chevron_down")
        self.ask, self.notice = AskBar(), Notice()
        self._lay_out()
        self.scopes.chosen.connect(self._choose)
        self.clear.clicked.connect(lambda: live.clear(live.scope))
        self.presets.clicked.connect(self._list_presets)
        live.scope_changed.connect(self._follow)
        live.changed.connect(self._follow)
        self.refresh()

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        line.addWidget(self.clear)
        line.addStretch(1)
        line.addWidget(self.presets)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(Space.TINY)
        column.addWidget(self.scopes)
        column.addWidget(self._help)
        column.addLayout(line)
        column.addWidget(self.ask)
        column.addWidget(self.notice)

    def _choose(self, number: int) -> None:
        self._live.choose_scope(_SCOPES[number])

    def _follow(self, *_what: object) -> None:
        self.refresh()

    def refresh(self) -> None:
        """Shows how far changes reach now."""
        scope = self._live.scope
        self.scopes.choose(_SCOPES.index(scope))
        self._help.setText(_(_HELP[scope]))
        self.clear.setVisible(scope is not Scope.EVERYWHERE and self._live.own(scope))

    # --- presets ---------------------------------------------------------------------------------------------------

    def _list_presets(self) -> None:
        self._background.run(self._presets.all, self._open_menu)

    def _open_menu(self, found: list[Preset]) -> None:
        self.menu_for(found).popup(self.presets.mapToGlobal(QPoint(0, self.presets.height())))

    def menu_for(self, found: list[Preset]) -> QMenu:
        """Returns the menu of presets."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for preset in found:
            menu.addAction(preset.name).triggered.connect(lambda _on=False, one=preset: self.apply(one))
        if found:
            menu.addSeparator()
        menu.addAction(_("Save as a preset…")).triggered.connect(lambda: self._ask_name())
        if found:
            removal = menu.addMenu(_("Remove"))
            for preset in found:
                removal.addAction(preset.name).triggered.connect(lambda _on=False, one=preset: self.remove(one.name))
        menu.addSeparator()
        menu.addAction(_("Share as a file…")).triggered.connect(lambda: self._ask_file(save=True))
        menu.addAction(_("Take from a file…")).triggered.connect(lambda: self._ask_file(save=False))
        return menu

    def current(self, name: str) -> Preset:
        """Returns the settings in use as a preset."""
        return Preset(shown(name), changed(self._live.sampling), changed(self._live.load))

    def apply(self, preset: Preset) -> None:
        """Puts a preset's settings in the place of the present ones, as far as changes reach."""
        try:
            self._live.replace_layer(SamplingParams, preset.sampling)
            if self._live.scope is not Scope.CHAT:
                self._live.replace_layer(LoadParams, preset.load)
        except UserError as error:
            self._fail(error.info)
            return
        self.notice.dismiss(about="preset")
        if preset.notes:
            left = ErrorInfo(title=_("A part of the preset could not be used."), message="\n".join(preset.notes))
            self.notice.show_error(left, tone="caution", about="preset")
        self.applied.emit(preset.name)

    def keep(self, name: str) -> None:
        """Keeps the settings in use under a name."""
        preset = self.current(name)
        self._background.run(lambda: self._presets.keep(preset))

    def remove(self, name: str) -> None:
        """Forgets a preset."""
        self._background.run(lambda: self._presets.remove(name))

    def _ask_name(self) -> None:
        self.ask.ask(_("Name of the preset:"), _("Save"), self.keep, text="")

    def _ask_file(self, *, save: bool) -> None:
        title = _("Share the settings") if save else _("Take settings from a file")
        dialog = QFileDialog(self, title, "", _("Presets (*.json)"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if save:
            dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
            dialog.setDefaultSuffix("json")
            dialog.fileSelected.connect(lambda path: self.share(Path(path)))
        else:
            dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
            dialog.fileSelected.connect(lambda path: self.take(Path(path)))
        dialog.open()

    def share(self, path: Path) -> None:
        """Writes the settings in use to a file, without anything that belongs to this computer alone."""
        data = encoded(self.current(path.stem))
        self._background.run(lambda: atomic_write(path, data))

    def take(self, path: Path) -> None:
        """Keeps the preset of a file, and applies it."""
        self._background.run(lambda: self._presets.keep(read(path)), self.apply)

    def _fail(self, error: ErrorInfo) -> None:
        self.notice.show_error(error, tone="caution", about="preset")
