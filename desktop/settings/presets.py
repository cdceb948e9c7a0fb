"""Presets: named sets of settings as small JSON files, to keep and to share. For threads; knows no widget.

    {"quern_preset": 1, "name": "…", "sampling": {…}, "load": {…}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from runtime.errors import UserError
from runtime.file_names import file_stem, fit_words
from runtime.params import LoadParams, SamplingParams
from runtime.places import UnwritablePlace, atomic_write, write_reason
from runtime.settings import layered, read_layer
from runtime.small_files import as_utf8
from runtime.text import _

FORMAT = 1
_LONGEST, _MOST_BYTES = 60, 1 << 20
_PATHS = ("lora", "draft_model", "devices", "tensor_split", "main_gpu", "threads", "prompt_threads")


class NotAPreset(UserError):
    """A file that holds no settings."""

    code = "not_a_preset"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            _("“{name}” is no preset.").format(name=name), reason, _("Choose a file that was saved as a preset.")
        )


@dataclass(frozen=True, slots=True)
class Preset:
    """A name and what it changes. `notes` are sentences about what of a file could not be used."""

    name: str
    sampling: Mapping[str, Any] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def encoded(preset: Preset) -> bytes:
    """Returns a preset as a file to share: without paths and without what belongs to one computer."""
    load = {name: value for name, value in preset.load.items() if name not in _PATHS}
    document = {"quern_preset": FORMAT, "name": preset.name, "sampling": dict(preset.sampling), "load": load}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def read(path: Path) -> Preset:
    """Returns the preset in a file; what this version does not know is left out with a note. Raises `NotAPreset`."""
    try:
        with path.open("rb") as file:
            document: Any = msgspec.json.decode(as_utf8(file.read(_MOST_BYTES)))
    except OSError as error:
        raise NotAPreset(path.name, write_reason(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAPreset(path.name, _("It is no JSON: {error}").format(error=error)) from error
    if not isinstance(document, dict) or not isinstance(document.get("quern_preset"), int):
        raise NotAPreset(path.name, _("It has no “quern_preset” in it."))
    return _checked(document, path)


def _checked(document: dict[str, Any], path: Path) -> Preset:
    sampling, notes = read_layer(SamplingParams, document.get("sampling", {}), where=path.name)
    load, more = read_layer(LoadParams, document.get("load", {}), where=path.name)
    for group, layer in ((SamplingParams, sampling), (LoadParams, load)):
        try:
            layered(group, layer)
        except UserError as error:
            raise NotAPreset(path.name, error.info.title) from error
    name = document.get("name")
    return Preset(shown(name if isinstance(name, str) else path.stem), sampling, load, tuple([*notes, *more]))


def shown(name: str) -> str:
    """Returns a preset's name as it may be shown and be a file's name."""
    return fit_words(name, longest=_LONGEST) or _("Preset")


class PresetFolder:
    """The presets that are kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> list[Preset]:
        """Returns the presets by name; files that are none are passed over."""
        found = []
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []:
            try:
                found.append(read(path))
            except NotAPreset:
                continue
        return sorted(found, key=lambda preset: preset.name.casefold())

    def keep(self, preset: Preset) -> Preset:
        """Stores a preset, in place of one with the same name. Raises `UnwritablePlace`."""
        atomic_write(self._path(preset.name), encoded(preset))
        return preset

    def remove(self, name: str) -> None:
        """Forgets a preset. Raises `UnwritablePlace`."""
        path = self._path(name)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UnwritablePlace(path, write_reason(error)) from error

    def _path(self, name: str) -> Path:
        return self._folder / f"{file_stem(shown(name), longest=_LONGEST)}.json"
