"""Writes files that are there whole or not at all: beside the target, flushed, then renamed. Knows no format."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import psutil

from runtime.errors import UserError
from runtime.places import shown_path, why_not_writable
from runtime.text import _

_PART = re.compile(r"\.quern-[0-9a-f]{16}\.(?P<pid>\d+)\.part")
_IN_USE = (5, 32, 1224)  # Windows' ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_USER_MAPPED_FILE
_ON_ITS_WAY = 32 << 20  # bytes
ASIDE = "replaced"  # where what was there waits while what is new gets its names
_SCRATCH = "scratch"
_LEAVE_AFTER = 1.0  # seconds
_RESERVE = 16 << 20  # bytes left free for everybody else


class TargetIsSource(UserError):
    """The file to write is the one being read, perhaps by another name."""

    code = "target_is_source"

    def __init__(self, target: Path) -> None:
        super().__init__(
            _("The result would overwrite its own source."),
            _("“{path}” is the file or folder that is read, perhaps through a link.").format(path=shown_path(target)),
            _("Choose another name for the result."),
        )


class TargetExists(UserError):
    """Something is already there."""

    code = "target_exists"

    def __init__(self, target: Path) -> None:
        super().__init__(
            _("There already is a file with the result's name."),
            shown_path(target),
            _("Choose another name, or agree to replace it with --yes."),
        )


class FolderInTheWay(UserError):
    """A folder has the name of the file to write; folders are not replaced by files."""

    code = "folder_in_the_way"

    def __init__(self, target: Path) -> None:
        super().__init__(
            _("A folder has the result's name."), shown_path(target), _("Choose another name for the result."),
        )  # fmt: skip


class TargetIsDevice(UserError):
    """The name belongs to something that is neither a file nor a folder, which the result would put out of place."""

    code = "target_is_device"

    def __init__(self, target: Path) -> None:
        super().__init__(
            _("The result cannot be written to a device or a pipe."), shown_path(target),
            _("Choose another name for the result."),
        )  # fmt: skip


class NoRoom(UserError):
    """The disk cannot hold the result."""

    code = "no_room"

    def __init__(self, folder: Path, needed: int, free: int) -> None:
        message = _("{needed} MB are needed in “{folder}”, and {free} MB are free.")
        super().__init__(
            _("There is not enough room for the result."),
            message.format(needed=_megabytes(needed), folder=shown_path(folder), free=_megabytes(free)),
            _("Free some room, or write to another disk."),
        )


class NotWritten(UserError):
    """The system refused to write."""

    code = "not_written"

    def __init__(self, target: Path, error: OSError) -> None:
        hint = _("Choose a folder that you may write in.")
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = _("Free some room, or write to another disk.")
        elif error.errno == errno.ENOENT:
            hint = _("Make the folder first, or choose another one.")
        super().__init__(
            _("“{path}” could not be written.").format(path=shown_path(target)), error.strerror or str(error), hint
        )


class TargetInUse(UserError):
    """The system does not let the file go that is to be replaced: another program has it open."""

    code = "target_in_use"

    def __init__(self, target: Path) -> None:
        super().__init__(
            _("“{path}” is in use and was not replaced.").format(path=shown_path(target)),
            _("A program holds it open, perhaps Quern itself with the model in it loaded."),
            _("Unload the model or close the program, or choose another name for the result."),
        )


def require_target(target: Path, *, sources: Iterable[Path], replace: bool, folder: bool = False) -> None:
    """Raises `TargetIsSource`, `TargetIsDevice`, where a folder has the name of a file `FolderInTheWay`, and unless it
    may be replaced, `TargetExists`; `NotWritten` without a folder for it.
    """
    for source in sources:
        if _same(target, source) or _inside(target, source) or _part_of(target, source):
            raise TargetIsSource(target)
    if target.exists() and not target.is_file() and not target.is_dir():
        raise TargetIsDevice(target)
    if target.is_dir() and not folder:
        raise FolderInTheWay(target)
    if (target.exists() or target.is_symlink()) and not replace:
        raise TargetExists(target)
    refused = why_not_writable(target.parent)
    if refused:
        raise NotWritten(target, OSError(refused, os.strerror(refused)))


def require_room(folder: Path, needed: int) -> None:
    """Raises `NoRoom` unless `needed` bytes fit on the folder's disk."""
    free = shutil.disk_usage(folder).free
    if free < needed + _RESERVE:
        raise NoRoom(folder, needed + _RESERVE, free)


class HiddenFolder:
    """A folder beside a target for what is not to be seen; it goes away at the end. Raises `NotWritten`."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.path = hidden_folder(target)

    def __enter__(self) -> Self:
        remove_remains(self.path.parent)
        try:
            self.path.mkdir()
        except OSError as error:
            raise NotWritten(self._target, error) from error
        return self

    def __exit__(self, *_error: object) -> None:
        if _put_back(self.path):
            shutil.rmtree(self.path, ignore_errors=True)


class SafeFiles:
    """Files that appear under their names together at the end; after a failure none of them, and no remains.

    Until then they lie, under the same names, in a hidden folder beside their targets, where they can be opened and
    tried. All targets lie in one folder. Raises `NotWritten` wherever the system refuses. A process that was killed
    leaves its hidden folder, which the next one that writes to the same place takes away.
    """

    def __init__(self, targets: Sequence[Path]) -> None:
        assert len({target.parent for target in targets}) == 1
        self._targets = tuple(targets)
        self._files: list[BinaryIO] = []
        self._begun = [0] * len(targets)  # bytes of each file that are on their way to the disk
        self._hidden = HiddenFolder(targets[0])
        self._folder = self._hidden.path

    def __enter__(self) -> Self:
        self._hidden.__enter__()
        try:
            for target in self._targets:
                self._files.append((self._folder / target.name).open("xb"))
        except BaseException as error:
            self._discard()
            if isinstance(error, OSError):
                raise NotWritten(target, error) from error
            raise
        return self

    def parts(self) -> tuple[Path, ...]:
        """Returns where the files lie until the end."""
        return tuple(self._folder / target.name for target in self._targets)

    def scratch(self, name: str) -> Path:
        """Returns a place for a file that goes away at the end. Raises `NotWritten`."""
        folder = self._folder / _SCRATCH
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise NotWritten(self._targets[0], error) from error
        return folder / name

    def write(self, data: bytes | memoryview, *, file: int = 0) -> None:
        """Appends bytes to a file."""
        try:
            opened = self._files[file]
            opened.write(data)
            if opened.tell() - self._begun[file] >= _ON_ITS_WAY:
                self._begun[file] = _sent_to_disk(opened, self._begun[file])
        except OSError as error:
            raise NotWritten(self._targets[file], error) from error

    def overwrite(self, data: bytes, *, at: int, file: int = 0) -> None:
        """Puts bytes in the place of others; the file keeps its length."""
        try:
            opened = self._files[file]
            end = opened.tell()
            assert at + len(data) <= end
            opened.seek(at)
            opened.write(data)
            opened.seek(end)
        except OSError as error:
            raise NotWritten(self._targets[file], error) from error

    def flush(self) -> None:
        """Brings everything written to the disk itself."""
        for target, opened in zip(self._targets, self._files, strict=True):
            try:
                opened.flush()
                os.fsync(opened.fileno())
            except OSError as error:
                raise NotWritten(target, error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush()
                self._publish()
        finally:
            self._discard()

    def _publish(self) -> None:
        for opened in self._files:
            opened.close()
        if len(self._targets) > 1 or not _replaced(self._folder / self._targets[0].name, self._targets[0]):
            self._publish_around()
        _flush_folder(self._folder.parent)

    def _publish_around(self) -> None:
        """Puts what was there aside and the files in its place; what was there comes back where one cannot be.

        The first goes first and comes last: without it a set is plainly not whole, so that a crash in between never
        leaves one of old and new parts that opens. On Windows, files that a program only maps let themselves be
        put aside, but not overwritten.
        """
        aside = self._folder / ASIDE
        undo: list[tuple[Path, Path]] = []  # what lies where, and where it was
        try:
            aside.mkdir()
            for target in filter(os.path.lexists, self._targets):
                _move(target, aside / target.name, undo)
            for target in reversed(self._targets):
                _move(self._folder / target.name, target, undo)
        except OSError as error:
            for now, before in reversed(undo):
                with suppress(OSError):
                    os.replace(now, before)
            raise refusal(target, error) from error

    def _discard(self) -> None:
        for opened in self._files:
            with suppress(OSError):  # the buffered rest of a full disk; the part goes away anyway
                opened.close()
        self._files.clear()
        self._hidden.__exit__()


def hidden_folder(target: Path) -> Path:
    """Returns the folder in which this process writes a target."""
    digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    return target.with_name(f".quern-{digest}.{os.getpid()}.part")


def remove_remains(folder: Path) -> None:
    """Takes away hidden folders whose process is gone, after what it had put aside lies where it was."""
    for part in folder.glob(".quern-*.part"):
        found = _PART.fullmatch(part.name)
        if found and int(found["pid"]) != os.getpid() and not psutil.pid_exists(int(found["pid"])) and _put_back(part):
            shutil.rmtree(part, ignore_errors=True)


def _put_back(part: Path) -> bool:
    """Undoes a publication that ended in its middle; false where something could not be put back.

    As long as a new file still lies in the hidden folder, the old ones are the whole that there is.
    """
    aside = part / ASIDE
    if not aside.is_dir() or {each.name for each in part.iterdir()} <= {ASIDE, _SCRATCH}:
        return True
    try:
        for old in sorted(aside.iterdir(), reverse=True):  # the first part of a set comes last, as in publishing
            os.replace(old, part.parent / old.name)
    except OSError:
        return False
    return True


def _replaced(part: Path, target: Path) -> bool:
    """Gives a file its name in one step; False where what has the name is in use. Raises `NotWritten`."""
    try:
        os.replace(part, target)
    except OSError as error:
        if _in_use(target, error):
            return False
        raise NotWritten(target, error) from error
    return True


def _move(now: Path, after: Path, undo: list[tuple[Path, Path]]) -> None:
    os.replace(now, after)
    undo.append((after, now))


def refusal(target: Path, error: OSError) -> UserError:
    """Returns what to say where a target could not be replaced."""
    return TargetInUse(target) if _in_use(target, error) else NotWritten(target, error)


def _in_use(target: Path, error: OSError) -> bool:
    """Whether the system refused to replace what somebody has open, as only Windows does."""
    return getattr(error, "winerror", 0) in _IN_USE and os.access(target, os.W_OK)


def remove_own(folder: Path) -> None:
    """Takes away this process's hidden folders, for one that must end in the middle of its work.

    One that is just giving its files their names is left alone: what was there before lies in it.
    """
    for part in folder.glob(f".quern-*.{os.getpid()}.part"):
        if not (part / ASIDE).exists():
            shutil.rmtree(part, ignore_errors=True)


def end_soon(target: Path, *, code: int) -> None:
    """Ends this process, which was told to stop, a moment from now; nothing of what it writes to `target` is left.

    For a thread beside the work: that may be deaf, in the middle of a large block perhaps.
    """
    time.sleep(_LEAVE_AFTER)
    remove_own(target.parent)
    os._exit(code)


def _sent_to_disk(opened: BinaryIO, start: int) -> int:
    """Has the system begin to write what is new in a file, without waiting; returns where that ends.

    Otherwise all of it would wait for the flush at the end, while the disk idles. On Linux this advice does it.
    """
    end = opened.tell()
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(opened.fileno(), start, end - start, os.POSIX_FADV_DONTNEED)
    return end


def _same(target: Path, source: Path) -> bool:
    return target.exists() and source.exists() and target.samefile(source)


def _inside(target: Path, source: Path) -> bool:
    """Whether the target is a folder that the source lies in."""
    return target.is_dir() and target.resolve() in source.resolve().parents


def _part_of(target: Path, source: Path) -> bool:
    """Whether the target is a file that is there in a folder to be read."""
    return target.is_file() and source.is_dir() and target.resolve().parent == source.resolve()


def _flush_folder(folder: Path) -> None:
    if os.name != "posix":
        return  # elsewhere a folder cannot be opened
    handle = os.open(folder, os.O_RDONLY)
    with suppress(OSError):  # some file systems do not know how; the rename itself is whole all the same
        os.fsync(handle)
    os.close(handle)


def _megabytes(n_bytes: int) -> str:
    return f"{max(n_bytes, 0) / 1e6:,.0f}"
