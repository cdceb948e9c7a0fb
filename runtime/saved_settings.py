"""The settings file: one JSON object that holds only what differs from the defaults. Knows no window.

    {"version": 1, "app": {…}, "sampling": {…}, "load": {…}, "models": {KEY: {"sampling": {…}, "load": {…}}}}
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from runtime.params import AppSettings, LoadParams, SamplingParams
from runtime.places import UnwritablePlace, atomic_write, set_aside, shown_path, write_reason
from runtime.settings import SettingsGroup, fields_of, read_layer
from runtime.small_files import as_utf8
from runtime.text import _

VERSION = 1
Layer = dict[str, Any]
GroupName = Literal["app", "sampling", "load"]

_GROUPS: dict[str, type[SettingsGroup]] = {"app": AppSettings, "sampling": SamplingParams, "load": LoadParams}


@dataclass(frozen=True, slots=True)
class SavedSettings:
    """What the settings file says. Immutable: `with_layer` returns a changed copy, `write` stores it.

    `notes` are sentences about what could not be used. Keys that a newer version wrote stay in the file.
    """

    document: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unread: str = ""  # why an existing file could not be read; such a file is never replaced

    @classmethod
    def read(cls, path: Path) -> SavedSettings:
        """Returns the saved settings; the defaults where the file is missing, unreadable or damaged, with a note."""
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return cls()
        except OSError as error:
            return cls(unread=write_reason(error), notes=(_unreadable(path, error),))
        return cls._parsed(path, data)

    @classmethod
    def _parsed(cls, path: Path, data: bytes) -> SavedSettings:
        try:
            document = msgspec.json.decode(as_utf8(data))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            document = None
        if not isinstance(document, dict):
            return cls._damaged(path)
        read = cls(document=document)
        return cls(document=document, notes=tuple(read._all_notes(path.name)))

    @classmethod
    def _damaged(cls, path: Path) -> SavedSettings:
        try:
            kept = set_aside(path)
        except OSError as error:
            return cls(unread=write_reason(error), notes=(_unreadable(path, error),))
        note = _("The settings in “{path}” are damaged. They were kept as “{kept}”, and the defaults are used.")
        return cls(notes=(note.format(path=shown_path(path), kept=kept.name),))

    @property
    def app(self) -> Layer:
        return self._layer("app")

    @property
    def sampling(self) -> Layer:
        return self._layer("sampling")

    @property
    def load(self) -> Layer:
        return self._layer("load")

    @property
    def model_keys(self) -> tuple[str, ...]:
        """The models that have settings of their own."""
        models = self.document.get("models")
        return tuple(models) if isinstance(models, dict) else ()

    def for_model(self, key: str) -> tuple[Layer, Layer]:
        """Returns one model's own sampling and load layers, empty where it has none."""
        return self._layer("sampling", key), self._layer("load", key)

    def with_layer(self, group: GroupName, layer: Mapping[str, Any], *, model: str = "") -> SavedSettings:
        """Returns a copy in which `layer` takes the place of a group's values, for one model where `model` is given."""
        document = copy.deepcopy(dict(self.document))
        section = _section(document, group, model, create=True)
        kept = {name: value for name, value in section.items() if self._belongs_to_newer(group, name)}
        section.clear()
        section.update(kept | dict(layer))
        return SavedSettings(document=_without_empty(document, model), notes=self.notes, unread=self.unread)

    def write(self, path: Path) -> None:
        """Stores the settings in one step. Raises `UnwritablePlace`; the file then holds what it held before."""
        if self.unread:
            raise UnwritablePlace(path, self.unread)
        document = {"version": max(VERSION, self._version), **_without(self.document, "version")}
        atomic_write(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")

    @property
    def _version(self) -> int:
        version = self.document.get("version")
        return version if isinstance(version, int) and not isinstance(version, bool) else VERSION

    def _belongs_to_newer(self, group: str, name: str) -> bool:
        """Whether a saved key means something only to a newer version: its name, or its value, is unknown here."""
        known = any(declared.name == name for declared in fields_of(_GROUPS[group]))
        return not known or (self._version > VERSION and name not in self._layer(group))

    def _layer(self, group: str, model: str = "") -> Layer:
        return read_layer(_GROUPS[group], _section(dict(self.document), group, model), where=group)[0]

    def _all_notes(self, where: str) -> list[str]:
        notes = []
        for group, declared in _GROUPS.items():
            if group in self.document:
                notes += read_layer(declared, self.document[group], where=f"{where}: {group}")[1]
        for key in self.model_keys:
            for group in ("sampling", "load"):
                section = _section(dict(self.document), group, key)
                notes += read_layer(_GROUPS[group], section, where=f"{where}: {key}: {group}")[1]
        return notes


def _section(document: dict[str, Any], group: str, model: str, *, create: bool = False) -> dict[str, Any]:
    """Returns the object that holds a group's values; with `create`, the one inside `document`, made where missing."""
    owner: Any = document
    steps = ("models", model, group) if model else (group,)
    for step in steps:
        found = owner.get(step)
        if not isinstance(found, dict):
            found = {}
            if create:
                owner[step] = found
        owner = found
    return owner if isinstance(owner, dict) else {}


def _without_empty(document: dict[str, Any], model: str) -> dict[str, Any]:
    """Drops what no longer says anything, so that the file holds only what differs from the defaults."""
    models = document.get("models")
    if isinstance(models, dict) and isinstance(models.get(model), dict):
        models[model] = {name: value for name, value in models[model].items() if value != {}}
    if isinstance(models, dict):
        document["models"] = {key: value for key, value in models.items() if value != {}}
    return {name: value for name, value in document.items() if value != {}}


def _without(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != name}


def _unreadable(path: Path, error: OSError) -> str:
    sentence = _("The settings in “{path}” could not be read ({reason}). The defaults are used and nothing is saved.")
    return sentence.format(path=shown_path(path), reason=write_reason(error))
