"""Lists folders for the library: names only, each folder once, within bounds. Knows no model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runtime.places import shown_path
from runtime.text import _

_MAX_DEPTH = 8
_MAX_ENTRIES = 100_000  # files and folders looked at below one folder


@dataclass(frozen=True, slots=True)
class Naming:
    """What a file is called where its own name does not tell; the first name is shown, all of them find it.

    `reason` says why it cannot be run although its header does not tell; empty where it can.
    """

    names: tuple[str, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The sorted names in a folder. `title` is a better name than the folder's own, where there is one.

    `named` holds files that are models whatever they are called, by their names or paths.
    """

    folder: Path
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    title: str = ""
    named: Mapping[str, Naming] = field(default_factory=dict)


class FolderReader:
    """Reads folders for one search. `problems` are sentences about those that could not be read."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._seen: set[tuple[int, int]] = set()

    def walk(self, root: Path) -> Iterator[tuple[Listing, list[Path]]]:
        """Yields each folder from `root` down, with the list of those to go on with, from which a caller may take.

        Links are followed, loops are not, and hidden folders are passed over.
        """
        waiting = [(root, 0)]
        entries = 0
        while waiting:
            folder, depth = waiting.pop()
            listing = self.read(folder)
            entries += len(listing.files) + len(listing.folders)
            if entries > _MAX_ENTRIES:
                self._note(_("{folder} holds too many files; only a part was looked at."), root)
                return
            inner = [folder / name for name in listing.folders if not name.startswith(".")]
            inner = inner if depth < _MAX_DEPTH else []
            yield listing, inner
            waiting += [(path, depth + 1) for path in reversed(inner)]

    def read(self, folder: Path) -> Listing:
        """Returns what lies in a folder; nothing where there is none, or where it was read before."""
        try:
            status = os.stat(folder)
            place = (status.st_dev, status.st_ino)
            if place in self._seen:
                return Listing(folder)
            self._seen.add(place)
            return list_folder(folder)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return Listing(folder)
        except OSError as error:
            reason = error.strerror or str(error)
            self._note(_("The folder {folder} cannot be read: {error}."), folder, error=reason)
            return Listing(folder)

    def _note(self, sentence: str, folder: Path, **values: str) -> None:
        self.problems.append(sentence.format(folder=shown_path(folder), **values))


def list_folder(folder: Path) -> Listing:
    """Returns the names in a folder. Raises `OSError`."""
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(folder) as entries:
        for _n, entry in zip(range(_MAX_ENTRIES + 1), entries, strict=False):
            (folders if _is_folder(entry) else files).append(entry.name)
    return Listing(folder, tuple(sorted(folders)), tuple(sorted(files)))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
