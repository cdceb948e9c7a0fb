"""The models on this computer: finds them, describes them from their headers, and knows them by name.

Reads no weights. Other programs' folders are the table of `model_sources.py`, how models lie in a folder is in
`model_layouts.py`, and `describe.py` says what a single one is.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from runtime import describe, folder_reader, memory, model_layouts, starter
from runtime.describe import ModelInfo
from runtime.errors import UserError
from runtime.folder_reader import FolderReader
from runtime.header_cache import HeaderCache
from runtime.model_errors import ModelMissing, ModelUnreadable, UnsupportedModel
from runtime.model_sources import OTHER_PROGRAMS, System
from runtime.places import NoHome, places, shown_path
from runtime.saved_settings import SavedSettings
from runtime.text import _

__all__ = ["AmbiguousModel", "Library", "ModelInfo", "UnknownModel", "resolve"]

_LATEST = ":latest"  # what Ollama understands where a name has no tag


class UnknownModel(UserError):
    """No model has that name. `nearest` are names that look like it; `folder` is one that is called so, and empty."""

    code = "unknown_model"

    def __init__(self, text: str, nearest: Sequence[str] = (), *, folder: Path | None = None) -> None:
        found = _("The folder “{folder}” holds no model.").format(folder=shown_path(folder)) if folder else ""
        similar = _("Similar names: {names}.").format(names=", ".join(nearest)) if nearest else ""
        super().__init__(
            _("There is no model called “{name}”.").format(name=text),
            "\n".join(filter(None, (found, similar))),
            _("List the models with `quern models`, or give the path of a GGUF file."),
        )
        self.text = text
        self.nearest = tuple(nearest)


class AmbiguousModel(UserError):
    """Several models fit the name."""

    code = "ambiguous_model"

    def __init__(self, text: str, candidates: Sequence[ModelInfo]) -> None:
        super().__init__(
            _("“{name}” fits several models.").format(name=text),
            "\n".join(f"{model.name}  {shown_path(model.path)}" for model in candidates),
            _("Give more of the name, or the path."),
        )
        self.candidates = tuple(candidates)


@dataclass
class Library:
    """The models of Quern, of other programs, and of `folders`; those of the saved settings where none are given.

    Holds no state but `problems`: sentences about what could not be read at the last look.
    """

    folders: Sequence[Path | str] | None = None
    problems: list[str] = field(default_factory=list)

    def models(self) -> list[ModelInfo]:
        """Returns every model once, the starter first, then by name; split sets are one entry.

        A file that is reached over several ways is the one that was met first; its other names become aliases. Files
        that cannot be run are listed with the reason. Raises nothing for what is wrong with single files.
        """
        cache = HeaderCache(_cache_file())
        reader = FolderReader()
        found: dict[tuple[object, ...], ModelInfo] = {}
        for model in self._all(reader, cache):
            identity = _identity(model.path)
            found[identity] = _joined(found[identity], model) if identity in found else model
        cache.save()
        self.problems[:] = reader.problems
        return sorted(_with_cautions(found.values()), key=_order)

    def find(self, text: str) -> ModelInfo:
        """Returns the model with this name, or the only one whose name begins like it; case does not matter.

        Raises `UnknownModel` or `AmbiguousModel`.
        """
        models = self.models()
        wanted = _folded(text.removesuffix(".gguf"))
        for fits in (str.__eq__, _is_latest, str.startswith):
            matches = [model for model in models if wanted and any(fits(name, wanted) for name in _names(model))]
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise AmbiguousModel(text, matches)
        names = {name: model.name for model in models for name in _names(model)}
        near = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
        raise UnknownModel(text, list(dict.fromkeys(names[name] for name in near)))

    def _all(self, reader: FolderReader, cache: HeaderCache) -> Iterator[ModelInfo]:
        """Yields what lies in all places; their order decides which name a model has that lies in several."""
        with contextlib.suppress(starter.StarterMissing):
            yield describe.gguf_file(starter.starter_path(), source=starter.NAME, cache=cache, name=starter.NAME)
        for source, root in self._roots(reader):
            if os.path.isfile(root):
                yield describe.gguf_file(root, source=source, cache=cache)
            for listing in model_layouts.search(root, reader):
                yield from describe.folder(listing, source=source, cache=cache)

    def _roots(self, reader: FolderReader) -> Iterator[tuple[str, Path]]:
        system = System.here()
        with contextlib.suppress(NoHome):
            yield "quern", places().models
        for program in OTHER_PROGRAMS:
            for root in program.roots(system):
                yield program.name, root
        for added in _saved_folders() if self.folders is None else self.folders:
            root = system.home / os.path.expanduser(added)
            if _is_missing(root):
                missing = _("The folder {folder} is missing. It may have been moved, or its drive is not connected.")
                reader.problems.append(missing.format(folder=shown_path(root)))
            yield "folder", root


def _cache_file() -> Path | None:
    with contextlib.suppress(NoHome):
        return places().cache / "headers.json"
    return None


def _saved_folders() -> tuple[str, ...]:
    folders: tuple[str, ...] = ()
    with contextlib.suppress(NoHome):
        folders = SavedSettings.read(places().settings_file).app.get("model_folders", ())
    return folders


def _is_missing(folder: Path) -> bool:
    try:
        os.stat(folder)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False
    return False


def _identity(path: Path) -> tuple[object, ...]:
    """Returns what is the same for all ways to a file or folder: links of both kinds lead to one place on a disk."""
    try:
        status = os.stat(path)
    except OSError:
        return (os.path.abspath(path),)
    return (status.st_dev, status.st_ino) if status.st_ino else (os.path.realpath(path),)


def _joined(known: ModelInfo, again: ModelInfo) -> ModelInfo:
    """Returns one entry for two ways to a file. A name that means more than the file (it with an adapter) is none."""
    if known.runnable != again.runnable:
        return known if known.runnable else again
    names = dict.fromkeys((known.name, *known.aliases, again.name, *again.aliases))
    return msgspec.structs.replace(known, aliases=tuple(names)[1:])


def _with_cautions(models: Iterable[ModelInfo]) -> Iterator[ModelInfo]:
    total = memory.total_memory()
    for model in models:
        yield _with_caution(model, total) if model.memory_bytes > total else model


def _with_caution(model: ModelInfo, total: int) -> ModelInfo:
    sentence = _("It needs about {needed} GB of memory; this computer has {total} GB.")
    numbers = {"needed": f"{model.memory_bytes / 1e9:.1f}", "total": f"{total / 1e9:.1f}"}
    caution = " ".join(filter(None, (model.caution, sentence.format(**numbers))))
    return msgspec.structs.replace(model, caution=caution)


def _order(model: ModelInfo) -> tuple[bool, str, str]:
    return model.source != starter.NAME, _folded(model.name), model.key


def _names(model: ModelInfo) -> list[str]:
    return [_folded(name) for name in (model.name, *model.aliases)]


def _is_latest(name: str, wanted: str) -> bool:
    return name == wanted + _LATEST


def resolve(text: str, library: Library | None = None) -> ModelInfo:
    """Returns the model that a person named: a path (`~` is the home folder), a name in the library, or "starter".

    A folder stands for the only model in it. What the file holds is checked when it is loaded.
    Raises `ModelMissing`, `ModelUnreadable`, `UnknownModel`, `AmbiguousModel`, `StarterMissing`, or
    `UnsupportedModel` for a folder that this version does not run.
    """
    if text.strip().casefold() == starter.NAME:
        return describe.gguf_file(starter.starter_path(), source=starter.NAME, name=starter.NAME)
    path = Path(os.path.expanduser(text))
    exists = _exists(path)
    if exists:
        here = _in_folder(path, text) if os.path.isdir(path) else describe.gguf_file(path.absolute(), source="path")
        if here is not None:
            return here
    try:
        return (library or Library()).find(text)
    except UnknownModel as unknown:
        if exists:
            raise UnknownModel(text, unknown.nearest, folder=path.absolute()) from None
        if _is_path(text):
            raise ModelMissing(path.absolute()) from None
        raise


def _in_folder(folder: Path, text: str) -> ModelInfo | None:
    """Returns the only model in a folder; None where there is none."""
    try:
        listing = folder_reader.list_folder(folder.absolute())
    except OSError as error:
        raise ModelUnreadable(folder, _("The system says: {error}.").format(error=error.strerror)) from error
    laid_out = model_layouts.laid_out(listing, [], FolderReader())
    models = [model for found in laid_out for model in describe.folder(found, source="path")]
    usable = [model for model in models if model.runnable]
    runnable = [model for model in usable if model.kind == "gguf"] or usable  # llama.cpp runs what it can
    if len(runnable) > 1:
        raise AmbiguousModel(text, runnable)
    if runnable or not models:
        return runnable[0] if runnable else None
    if len(models) == 1 and models[0].kind == "folder":  # it may make vectors; what opens it says what it cannot do
        return models[0]
    raise UnsupportedModel(folder, models[0].reason)


def _exists(path: Path) -> bool:
    try:
        return bool(path.parts) and os.path.exists(path)
    except ValueError:  # a NUL in the name
        return False


def _is_path(text: str) -> bool:
    return "/" in text or os.sep in text or text.startswith("~")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
