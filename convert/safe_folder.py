"""Writes a folder that is there whole or not at all: beside the target, flushed, then renamed. Knows no format."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from convert.safe_file import ASIDE, HiddenFolder, NotWritten, refusal, require_target
from runtime.errors import UserError
from runtime.places import shown_path
from runtime.text import _


class HoldsOtherThings(UserError):
    """The folder to replace holds what a conversion does not write, and would take with it."""

    code = "holds_other_things"

    def __init__(self, target: Path, name: Path) -> None:
        super().__init__(
            _("“{path}” holds other things and is not replaced.").format(path=shown_path(target)),
            _("“{name}” is not part of what would be written.").format(name=shown_path(name)),
            _("Choose another name for the result, or take the folder away yourself."),
        )


def require_folder(target: Path, *, sources: Iterable[Path], replace: bool, own: Collection[str]) -> None:
    """Does what `require_target` does for a folder; what it replaces may only hold files whose names match `own`.

    Raises `HoldsOtherThings` besides.
    """
    require_target(target, sources=sources, replace=True, folder=True)
    foreign = next(_foreign(target, own), None)
    if foreign is not None:
        raise HoldsOtherThings(target, foreign)
    require_target(target, sources=(), replace=replace, folder=True)


def _foreign(target: Path, own: Collection[str]) -> Iterator[Path]:
    """Yields the files in a folder, as they are called from there, that match none of the patterns."""
    for place, _folders, names in os.walk(target) if not target.is_symlink() else ():
        for name in names:
            path = Path(place, name).relative_to(target)
            if not any(fnmatchcase(path.as_posix(), pattern) for pattern in own):
                yield path


class SafeFolder:
    """A folder that appears under its name at the end; after a failure nothing of it. Raises `NotWritten`.

    What is replaced goes away last.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._hidden = HiddenFolder(target)
        self._part = self._hidden.path / "folder"
        self._open: BinaryIO | None = None

    def __enter__(self) -> Self:
        self._hidden.__enter__()
        return self

    def begin(self, name: str) -> None:
        """Begins a file, perhaps in a folder inside; the one before is whole."""
        try:
            self._end()
            (self._part / name).parent.mkdir(exist_ok=True)
            self._open = (self._part / name).open("xb")
        except OSError as error:
            raise NotWritten(self._target, error) from error

    def write(self, data: bytes | memoryview) -> None:
        """Appends bytes to the file that was begun last."""
        assert self._open is not None
        try:
            self._open.write(data)
        except OSError as error:
            raise NotWritten(self._target, error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._publish()
        except OSError as failure:
            raise refusal(self._target, failure) from failure
        finally:
            if self._open is not None:
                self._open.close()
            self._hidden.__exit__()

    def _end(self) -> None:
        if self._open is None:
            return
        self._open.flush()
        os.fsync(self._open.fileno())
        self._open.close()
        self._open = None

    def _publish(self) -> None:
        self._end()
        if not os.path.lexists(self._target):
            os.replace(self._part, self._target)
            return
        old = self._hidden.path / ASIDE / self._target.name
        old.parent.mkdir()
        os.replace(self._target, old)  # the hidden folder puts it back where the next step fails
        os.replace(self._part, self._target)
