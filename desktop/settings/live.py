"""The settings in use, and their way to disk. Knows no widget and no engine; writing never happens in a slot."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

from runtime.errors import UserError
from runtime.params import AppSettings, LoadParams, SamplingParams
from runtime.saved_settings import GroupName, SavedSettings
from runtime.settings import SettingsGroup, changed, field_of, layered

Group = TypeVar("Group", bound=SettingsGroup)
_NAMES: Mapping[type[SettingsGroup], GroupName] = {AppSettings: "app", SamplingParams: "sampling", LoadParams: "load"}
_WRITE_AFTER_MS = 400
_FLUSH_SECONDS = 1.0


class LiveSettings(QObject):
    """Holds one value of every settings group; every change is checked, announced, and written a little later."""

    changed = Signal(type, str)  # group, name of the setting
    write_failed = Signal(object)  # UserError

    def __init__(self, saved: SavedSettings, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._saved, self._path = saved, path
        self._groups: dict[type[SettingsGroup], Any] = {
            AppSettings: _usable(AppSettings, saved.app),
            SamplingParams: _usable(SamplingParams, saved.sampling),
            LoadParams: _usable(LoadParams, saved.load),
        }
        self._writers: list[threading.Thread] = []
        self._one_at_a_time = threading.Lock()
        self._later = QTimer(self, singleShot=True, interval=_WRITE_AFTER_MS)
        self._later.timeout.connect(self._write)

    @property
    def app(self) -> AppSettings:
        """The window's own settings."""
        group: AppSettings = self._groups[AppSettings]
        return group

    @property
    def sampling(self) -> SamplingParams:
        """What the next message uses."""
        group: SamplingParams = self._groups[SamplingParams]
        return group

    @property
    def load(self) -> LoadParams:
        """What the next load uses."""
        group: LoadParams = self._groups[LoadParams]
        return group

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read from the file, in sentences."""
        return self._saved.notes

    def value(self, group: type[SettingsGroup], name: str) -> Any:
        """Returns the value in use."""
        return getattr(self._groups[group], name)

    def is_changed(self, group: type[SettingsGroup], name: str) -> bool:
        """True where the value differs from the declared default."""
        return bool(self.value(group, name) != field_of(group, name).default)

    def set_values(self, group: type[SettingsGroup], **values: Any) -> None:
        """Changes settings together. Raises `BadSetting`, and then changes none."""
        before = self._groups[group]
        after = before.replace(**values)
        if after == before:
            return
        self._groups[group] = after
        self._saved = self._saved.with_layer(_NAMES[group], changed(after))
        self._later.start()
        for name in values:
            if getattr(before, name) != getattr(after, name):
                self.changed.emit(group, name)

    def reset(self, group: type[SettingsGroup], name: str) -> None:
        """Sets a setting back to its default. Raises `BadSetting` where another setting forbids it."""
        self.set_values(group, **{name: field_of(group, name).default})

    def flush(self) -> None:
        """Writes what is still waiting and returns when it is on disk; called once, when the application ends."""
        if self._later.isActive():
            self._later.stop()
            self._write()
        for writer in self._writers:
            writer.join(_FLUSH_SECONDS)

    def _write(self) -> None:
        self._writers = [writer for writer in self._writers if writer.is_alive()]
        writer = threading.Thread(target=self._write_newest, name="settings", daemon=True)
        self._writers.append(writer)
        writer.start()

    def _write_newest(self) -> None:
        with self._one_at_a_time:  # whoever comes last writes what is newest
            try:
                self._saved.write(self._path)
            except UserError as error:
                self.write_failed.emit(error)


def _usable(group: type[Group], layer: Mapping[str, Any]) -> Group:
    """Returns the group with its saved values; the defaults where saved values exclude each other."""
    try:
        return layered(group, layer)
    except UserError:
        return group()
