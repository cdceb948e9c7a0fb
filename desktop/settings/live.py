"""The settings in use, and their way to disk. Knows no widget and no engine; writing never happens in a slot.

Three layers lie over the declared defaults: what holds everywhere, what holds for the present model, and (for how
answers are made) for the present chat. The narrower one wins. A change goes into the layer that is chosen as `scope`;
narrower values of the same setting are dropped then, so that a change is never without effect.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

from runtime.errors import UserError
from runtime.params import AppSettings, LoadParams, SamplingParams
from runtime.saved_settings import GroupName, SavedSettings
from runtime.settings import SettingsGroup, field_of, fields_of, layered, read_layer

Group = TypeVar("Group", bound=SettingsGroup)
_NAMES: Mapping[type[SettingsGroup], GroupName] = {AppSettings: "app", SamplingParams: "sampling", LoadParams: "load"}
_WRITE_AFTER_MS = 400
_FLUSH_SECONDS = 1.0
_Layer = dict[str, Any]


class Scope(StrEnum):
    """How far a change reaches."""

    EVERYWHERE = "everywhere"
    MODEL = "model"
    CHAT = "chat"


_WIDTH = (Scope.EVERYWHERE, Scope.MODEL, Scope.CHAT)
_SCOPES: Mapping[type[SettingsGroup], tuple[Scope, ...]] = {
    AppSettings: (Scope.EVERYWHERE,), LoadParams: (Scope.EVERYWHERE, Scope.MODEL), SamplingParams: _WIDTH,
}  # fmt: skip


class LiveSettings(QObject):
    """Holds one value of every settings group; every change is checked, announced, and written a little later."""

    changed = Signal(type, str)  # group, name of the setting
    scope_changed = Signal(object)  # Scope
    chat_layer_changed = Signal(object)  # what the present chat is to keep
    write_failed = Signal(object)  # UserError

    def __init__(self, saved: SavedSettings, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._saved, self._path = saved, path
        self._scope, self._model = Scope.EVERYWHERE, ""
        self._layers: dict[tuple[Scope, type[SettingsGroup]], _Layer] = {
            (scope, group): {} for group, scopes in _SCOPES.items() for scope in scopes
        }
        for group, name in _NAMES.items():
            self._layers[Scope.EVERYWHERE, group] = dict(getattr(saved, name))
        self._groups: dict[type[SettingsGroup], Any] = {group: self._usable(group) for group in _NAMES}
        self._writers: list[threading.Thread] = []
        self._one_at_a_time = threading.Lock()
        self._later = QTimer(self, singleShot=True, interval=_WRITE_AFTER_MS)
        self._later.timeout.connect(self._write)

    # --- reading ---------------------------------------------------------------------------------------------------

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

    @property
    def scope(self) -> Scope:
        """The layer that changes go into, where a setting has it."""
        return self._scope

    @property
    def model(self) -> str:
        """The key of the model whose own settings are in use; empty where none is chosen."""
        return self._model

    def value(self, group: type[SettingsGroup], name: str) -> Any:
        """Returns the value in use."""
        return getattr(self._groups[group], name)

    def is_changed(self, group: type[SettingsGroup], name: str) -> bool:
        """True where resetting would do something: the value differs from the default, or is one of the scope's own."""
        if (scope := self._scope_of(group)) is not Scope.EVERYWHERE:
            return name in self._layers[scope, group]
        return bool(self.value(group, name) != field_of(group, name).default)

    def source_of(self, group: type[SettingsGroup], name: str) -> Scope | None:
        """Returns the layer that a value comes from; None for the declared default."""
        scopes = reversed(_SCOPES[group])
        return next((scope for scope in scopes if name in self._layers[scope, group]), None)

    def own(self, scope: Scope) -> bool:
        """Whether a layer holds anything."""
        return any(self._layers.get((scope, group)) for group in _NAMES)

    # --- choosing layers -------------------------------------------------------------------------------------------

    def choose_scope(self, scope: Scope) -> None:
        """Sets how far the next changes reach."""
        if scope is not self._scope:
            self._scope = scope
            self.scope_changed.emit(scope)
            for group in (SamplingParams, LoadParams):  # values stay; what can be reset does not
                for declared in fields_of(group):
                    self.changed.emit(group, declared.name)

    def use_model(self, key: str) -> None:
        """Puts a model's own settings over those that hold everywhere."""
        sampling, load = self._saved.for_model(key) if key else ({}, {})
        self._model = key
        self._swap({(Scope.MODEL, SamplingParams): sampling, (Scope.MODEL, LoadParams): load})

    def use_chat(self, layer: Mapping[str, Any]) -> None:
        """Puts a chat's own settings over all others; what of it is unusable is left out."""
        good, _notes = read_layer(SamplingParams, layer, where="chat")
        self._swap({(Scope.CHAT, SamplingParams): good})

    def move_model(self, before: str, after: str) -> None:
        """A model has another key now, since its file was renamed: its own settings go with it."""
        sampling, load = self._saved.for_model(before)
        for name, layer in (("sampling", sampling), ("load", load)):
            if layer:
                group: GroupName = "sampling" if name == "sampling" else "load"
                self._saved = self._saved.with_layer(group, layer, model=after).with_layer(group, {}, model=before)
                self._later.start()

    def _swap(self, layers: dict[tuple[Scope, type[SettingsGroup]], _Layer]) -> None:
        before = dict(self._groups)
        for place, layer in layers.items():
            self._layers[place] = dict(layer)
        for _scope, group in layers:
            self._groups[group] = self._usable(group)
        self._announce(before)

    # --- changing --------------------------------------------------------------------------------------------------

    def set_values(self, group: type[SettingsGroup], **values: Any) -> None:
        """Changes settings together, in the layer that is chosen. Raises `BadSetting`, and then changes none."""
        scope = self._scope_of(group)
        layers = self._copied(group)
        for narrower in _SCOPES[group][_SCOPES[group].index(scope) :]:
            layers[narrower] = {name: value for name, value in layers[narrower].items() if name not in values}
        below = self._below(layers, scope)
        for name, value in values.items():
            if value != below.get(name, field_of(group, name).default):
                layers[scope][name] = value
        self._take(group, layers)

    def set_for_model(self, group: type[SettingsGroup], **values: Any) -> None:
        """Changes settings of the present model, whatever scope is chosen. Raises `BadSetting`."""
        scope, self._scope = self._scope, Scope.MODEL
        try:
            self.set_values(group, **values)
        finally:
            self._scope = scope

    def reset(self, group: type[SettingsGroup], name: str) -> None:
        """Lets the wider layer or the default decide again. Raises `BadSetting` where another value forbids it."""
        scope = self._scope_of(group)
        layers = self._copied(group)
        reach = _SCOPES[group] if scope is Scope.EVERYWHERE else (scope,)
        for each in reach:
            layers[each].pop(name, None)
        self._take(group, layers)

    def clear(self, scope: Scope) -> None:
        """Takes everything out of a layer."""
        for group in (SamplingParams, LoadParams):
            if scope in _SCOPES[group]:
                self._take(group, {**self._copied(group), scope: {}})

    def replace_layer(self, group: type[SettingsGroup], layer: Mapping[str, Any]) -> None:
        """Puts other values in the place of the chosen layer's. Raises `BadSetting`, and then changes none."""
        self._take(group, {**self._copied(group), self._scope_of(group): dict(layer)})

    def _take(self, group: type[SettingsGroup], layers: dict[Scope, _Layer]) -> None:
        after = layered(group, *(layers[scope] for scope in _SCOPES[group]))
        before = dict(self._groups)
        changed_layers = [scope for scope, layer in layers.items() if layer != self._layers[scope, group]]
        for scope in changed_layers:
            self._layers[scope, group] = layers[scope]
            self._keep(scope, group)
        self._groups[group] = after
        if changed_layers:
            self._announce(before)

    def _keep(self, scope: Scope, group: type[SettingsGroup]) -> None:
        layer = self._layers[scope, group]
        if scope is Scope.CHAT:
            self.chat_layer_changed.emit(dict(layer))
            return
        model = self._model if scope is Scope.MODEL else ""
        if scope is Scope.EVERYWHERE or model:
            self._saved = self._saved.with_layer(_NAMES[group], layer, model=model)
            self._later.start()

    def _scope_of(self, group: type[SettingsGroup]) -> Scope:
        """Returns the narrowest layer of a group that is not narrower than the chosen one."""
        usable = [scope for scope in _SCOPES[group] if _WIDTH.index(scope) <= _WIDTH.index(self._scope)]
        return usable[-1]

    def _copied(self, group: type[SettingsGroup]) -> dict[Scope, _Layer]:
        return {scope: dict(self._layers[scope, group]) for scope in _SCOPES[group]}

    def _below(self, layers: dict[Scope, _Layer], scope: Scope) -> _Layer:
        merged: _Layer = {}
        for wider in _WIDTH[: _WIDTH.index(scope)]:
            merged |= layers.get(wider, {})
        return merged

    def _usable(self, group: type[Group]) -> Group:
        """Returns the group as the layers say; without those that exclude each other, the narrower ones first."""
        layers = [self._layers[scope, group] for scope in _SCOPES[group]]
        for count in range(len(layers), 0, -1):
            try:
                return layered(group, *layers[:count])
            except UserError:
                continue
        return group()

    def _announce(self, before: Mapping[type[SettingsGroup], Any]) -> None:
        for group, older in before.items():
            for declared in fields_of(group):
                if getattr(older, declared.name) != getattr(self._groups[group], declared.name):
                    self.changed.emit(group, declared.name)

    # --- writing ---------------------------------------------------------------------------------------------------

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
