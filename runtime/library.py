"""The models on this computer: finds them, describes them from their headers, and knows them by name.

Reads no weights. Where models are looked for is the table `SOURCES`; `describe.py` says what a single one is.
"""

from __future__ import annotations

import difflib
import os
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runtime import describe, starter
from runtime.describe import ModelInfo
from runtime.errors import UserError
from runtime.header_cache import HeaderCache
from runtime.model_errors import ModelMissing, ModelUnreadable, UnsupportedModel
from runtime.places import places, shown_path
from runtime.text import _

__all__ = ["SOURCES", "AmbiguousModel", "Library", "ModelInfo", "Source", "UnknownModel", "resolve"]

_MAX_DEPTH = 8
_MAX_ENTRIES = 100_000  # files and folders looked at below one folder


class UnknownModel(UserError):
    """No model has that name. `nearest` are names that look like it."""

    code = "unknown_model"

    def __init__(self, text: str, nearest: Sequence[str] = ()) -> None:
        names = ", ".join(nearest)
        super().__init__(
            _("There is no model called “{name}”.").format(name=text),
            _("Similar names: {names}.").format(names=names) if nearest else "",
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


@dataclass(frozen=True, slots=True)
class Source:
    """A place where models are looked for: a word for programs, and the folders or files it consists of."""

    name: str
    roots: Callable[[], list[Path]]


def _starter_roots() -> list[Path]:
    try:
        return [starter.starter_path()]
    except starter.StarterMissing:
        return []


SOURCES = (
    Source(starter.NAME, _starter_roots),
    Source("quern", lambda: [places().models]),
)


@dataclass
class Library:
    """The models of all sources and of `folders`. Holds no state but what could not be read at the last look."""

    folders: Sequence[Path] = ()
    problems: list[str] = field(default_factory=list)  # sentences

    def models(self) -> list[ModelInfo]:
        """Returns every model once, the starter first, then by name; split sets are one entry.

        Files that cannot be run are listed with the reason. Raises nothing for what is wrong with single files.
        """
        self.problems.clear()
        cache = HeaderCache(places().cache / "headers.json")
        found: dict[Path, ModelInfo] = {}
        for source in (*SOURCES, Source("folder", lambda: list(self.folders))):
            for root in source.roots():
                for model in self._below(root, source.name, cache):
                    found.setdefault(Path(os.path.realpath(model.path)), model)
        cache.save()
        return sorted(found.values(), key=lambda model: (model.source != starter.NAME, _folded(model.name)))

    def find(self, text: str) -> ModelInfo:
        """Returns the model with this name, or the only one whose name begins like it; case does not matter.

        Raises `UnknownModel` or `AmbiguousModel`.
        """
        models = self.models()
        wanted = _folded(text.removesuffix(".gguf"))
        for fits in (str.__eq__, str.startswith):
            matches = [model for model in models if wanted and fits(_folded(model.name), wanted)]
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise AmbiguousModel(text, matches)
        names = {_folded(model.name): model.name for model in models}
        near = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
        raise UnknownModel(text, [names[name] for name in near])

    def _below(self, root: Path, source: str, cache: HeaderCache) -> Iterator[ModelInfo]:
        if root.is_file():
            name = starter.NAME if source == starter.NAME else ""
            yield describe.gguf_file(root, source=source, cache=cache, name=name)
            return
        for folder, files in self._walk(root):
            yield from describe.folder(folder, files, source=source, cache=cache)

    def _walk(self, root: Path) -> Iterator[tuple[Path, list[str]]]:
        """Yields each folder with the names of its files; links are followed, loops are not."""
        seen: set[tuple[int, int]] = set()
        waiting = [(root, 0)]
        entries = 0
        while waiting:
            folder, depth = waiting.pop()
            listing = self._list(folder, seen)
            entries += len(listing)
            if entries > _MAX_ENTRIES:
                self.problems.append(
                    _("{folder} holds too many files; only a part was looked at.").format(folder=shown_path(root))
                )
                return
            files = sorted(entry.name for entry in listing if not _is_folder(entry))
            yield folder, files
            if depth < _MAX_DEPTH:
                inner = (Path(entry.path) for entry in listing if _is_folder(entry))
                waiting += [(path, depth + 1) for path in inner if not path.name.startswith(".")]

    def _list(self, folder: Path, seen: set[tuple[int, int]]) -> list[os.DirEntry[str]]:
        try:
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in seen:
                return []
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                return [entry for _n, entry in zip(range(_MAX_ENTRIES + 1), entries, strict=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.problems.append(
                _("The folder {folder} cannot be read: {error}.").format(
                    folder=shown_path(folder), error=error.strerror or str(error)
                )
            )
            return []


def resolve(text: str, library: Library | None = None) -> ModelInfo:
    """Returns the model that a person named: a path (`~` is the home folder), a name in the library, or "starter".

    A folder stands for the only model in it. What the file holds is checked when it is loaded.
    Raises `ModelMissing`, `ModelUnreadable`, `UnknownModel`, `AmbiguousModel`, `StarterMissing`, or
    `UnsupportedModel` for a folder that this version does not run.
    """
    if text.strip().casefold() == starter.NAME:
        return describe.gguf_file(starter.starter_path(), source=starter.NAME, name=starter.NAME)
    path = Path(os.path.expanduser(text))
    if _exists(path):
        here = _in_folder(path, text) if path.is_dir() else describe.gguf_file(path.absolute(), source="path")
        if here:
            return here
    elif _is_path(text):
        raise ModelMissing(path.absolute())
    return (library or Library()).find(text)


def _in_folder(folder: Path, text: str) -> ModelInfo | None:
    """Returns the only model in a folder; None where there is none."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    except OSError as error:
        raise ModelUnreadable(folder, _("The system says: {error}.").format(error=error.strerror)) from error
    models = list(describe.folder(folder.absolute(), names, source="path"))
    runnable = [model for model in models if model.runnable]
    if len(runnable) > 1:
        raise AmbiguousModel(text, runnable)
    if models and not runnable:
        raise UnsupportedModel(folder, models[0].reason)
    return runnable[0] if runnable else None


def _exists(path: Path) -> bool:
    try:
        return bool(path.parts) and os.path.exists(path)
    except ValueError:  # a NUL in the name
        return False


def _is_path(text: str) -> bool:
    return "/" in text or os.sep in text or text.startswith("~")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
