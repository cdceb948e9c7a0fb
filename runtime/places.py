"""Where Quern keeps things, and how a file is replaced without ever holding less. Knows no file's content."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes

import platformdirs

from runtime.errors import UserError
from runtime.installation import installation
from runtime.text import N_, _

HOME_VARIABLE = "QUERN_HOME"
_APP = "quern"

_REASONS = {
    errno.ENOSPC: N_("the disk is full"),
    errno.EDQUOT: N_("the disk quota is used up"),
    errno.EROFS: N_("the disk is read-only"),
    errno.ENOENT: N_("there is no such folder"),
    errno.EACCES: N_("Quern has no permission to write there"),
    errno.EPERM: N_("Quern has no permission to write there"),
    errno.ENOTDIR: N_("a file stands where a folder should be"),
    errno.EEXIST: N_("a file stands where a folder should be"),
    errno.EISDIR: N_("a folder stands where a file should be"),
    errno.ENAMETOOLONG: N_("the name is too long"),
    errno.EIO: N_("the disk reports an error"),
}


class UnwritablePlace(UserError):
    """A file or folder that cannot be written."""

    code = "unwritable_place"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("“{path}” cannot be written.").format(path=shown_path(path)),
            _("The reason: {reason}.").format(reason=reason),
            _("Make room or give permission there, or set QUERN_HOME to a folder that can be written."),
        )
        self.path = path
        self.reason = reason


class UnwritableFile(UserError):
    """A file that a person named for a result, and that cannot be written."""

    code = "unwritable_file"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("“{path}” cannot be written.").format(path=shown_path(path)),
            _("The reason: {reason}.").format(reason=reason),
            _("Name another file, or make room or give permission there."),
        )
        self.path = path


class NoHome(UserError):
    """The system does not say where a person's files belong."""

    code = "no_home"

    def __init__(self) -> None:
        super().__init__(
            _("Quern does not know where to keep its files."),
            _("This account has no home folder, and HOME is not set."),
            _("Set HOME, or set QUERN_HOME to a folder that can be written."),
        )


@dataclass(frozen=True, slots=True)
class Places:
    """The folders in use. None of them needs to exist yet; whoever writes makes them."""

    config: Path
    data: Path
    cache: Path
    logs: Path
    models: Path
    state: Path

    @property
    def settings_file(self) -> Path:
        return self.config / "settings.json"

    @property
    def chats_file(self) -> Path:
        return self.data / "chats.db"

    @property
    def state_file(self) -> Path:
        """What the application remembers about itself: window size, models that ended their engine."""
        return self.state / "state.json"


def places() -> Places:
    """Returns where things lie: below QUERN_HOME where that is set, in the folder of a portable copy, or as usual here.

    Raises `NoHome` where the system names no absolute folder.
    """
    override = os.environ.get(HOME_VARIABLE, "").strip()
    if override:
        return _portable(Path(os.path.abspath(os.path.expanduser(override))))
    if beside := installation().portable_home:
        return _portable(beside)
    try:
        found = _of_the_system(platformdirs.PlatformDirs(_APP, appauthor=False))
    except RuntimeError as error:  # newer versions of platformdirs; older ones return a path that begins with "~"
        raise NoHome from error
    if not all(path.is_absolute() for path in (found.config, found.data, found.cache, found.logs, found.state)):
        raise NoHome
    return found


def _of_the_system(dirs: platformdirs.PlatformDirs) -> Places:
    data = dirs.user_data_path
    return Places(
        config=dirs.user_config_path,
        data=data,
        cache=dirs.user_cache_path,
        logs=dirs.user_log_path,
        models=data / "models",
        state=dirs.user_state_path,
    )


def _portable(home: Path) -> Places:
    return Places(
        config=home, data=home, cache=home / "cache", logs=home / "logs", models=home / "models", state=home
    )


def make_folder(folder: Path) -> Path:
    """Returns the folder, made with its parents where missing. Raises `UnwritablePlace`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritablePlace(folder, write_reason(error)) from error
    return folder


def atomic_write(path: Path, data: bytes) -> None:
    """Replaces a file by `data`, or leaves it as it was and raises `UnwritablePlace`.

    The new content is written beside the target under a short name (a name of 250 bytes leaves no room for a suffix),
    reaches the disk, and takes the target's place in one step. A link stays a link, and permissions stay.
    """
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, data)
    except OSError as error:
        raise UnwritablePlace(path, write_reason(error)) from error


def replace_file(path: Path, data: bytes) -> None:
    """Does what `atomic_write` does with a file that a person named: its folder has to be there.

    Raises `UnwritableFile`.
    """
    require_replaceable(path)
    try:
        _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise UnwritableFile(path, write_reason(error)) from error


def require_replaceable(path: Path) -> None:
    """Raises `UnwritableFile` where it is clear beforehand that `replace_file` cannot work, or would do harm."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise UnwritableFile(path, _(_REASONS[errno.ENOENT]))
    if why := _why_not_replaced(target):
        raise UnwritableFile(path, why)
    if number := why_not_writable(target.parent):
        raise UnwritableFile(path, _(_REASONS[number]))


def why_not_writable(folder: Path) -> int:
    """Returns the system's number for why nothing can be written in a folder; 0 where nothing is known against it."""
    if not folder.is_dir():
        return errno.ENOENT
    if os.access(folder, os.W_OK):
        return 0
    read_only = hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY
    return errno.EROFS if read_only else errno.EACCES


def _replace(target: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=".quern-", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(name, target.stat().st_mode & 0o777)
        put_in_place(Path(name), target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(target.parent)


def _why_not_replaced(target: Path) -> str:
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return ""
    except OSError as error:  # a name that is too long, a link that leads to itself
        return write_reason(error)
    return "" if stat.S_ISREG(mode) else _("it is no ordinary file")


def put_in_place(part: Path, target: Path) -> None:
    """Gives a finished file the name of the target, which may exist. Raises `OSError`.

    A device or a pipe is never replaced: an administrator may do it, and then the computer lacks its /dev/null.
    """
    if why := _why_not_replaced(target):
        raise OSError(errno.EINVAL, why)
    os.replace(part, target)


def _sync_folder(folder: Path) -> None:
    """Makes the new name itself durable; Windows and some network disks cannot, and need not."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def set_aside(path: Path) -> Path:
    """Renames a damaged file to the first free `NAME.damaged-N` beside it, and returns that name. Raises OSError."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(kept)
    return kept


def write_reason(error: OSError) -> str:
    """Returns why writing failed, in words, translated."""
    known = _REASONS.get(error.errno or 0)
    return _(known) if known else (error.strerror or str(error))


_BYTES = "bytes:"


def spelled_path(path: str | os.PathLike[str]) -> str:
    """Returns the path as text that JSON can carry; `path_of` gives it back.

    A name on Linux may hold bytes that are no UTF-8. Such a path is spelled with percent signs after "bytes:".
    """
    text = os.fspath(path)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _BYTES + quote_from_bytes(os.fsencode(text))
    return text


def path_of(spelled: str) -> Path:
    """Returns the path that `spelled_path` spelled."""
    if spelled.startswith(_BYTES):
        return Path(os.fsdecode(unquote_to_bytes(spelled.removeprefix(_BYTES))))
    return Path(spelled)


def shown_path(path: Path) -> str:
    """Returns the path as text that can be shown and stored, also where its name is not valid UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")
