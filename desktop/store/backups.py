"""Backups of the chats: copies of the whole file beside it. Lists, makes and puts them back. No Qt, no threads.

A copy is made before the format changes, before another one is put back, and when a person asks for it.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import closing
from enum import StrEnum
from pathlib import Path

import msgspec

from desktop.store.database import ChatDatabase, connect
from desktop.store.schema import NewerChats, back_up
from runtime.errors import UserError
from runtime.places import write_reason
from runtime.text import _

_log = logging.getLogger(__name__)
_MIDDLE = ".backup-"
_KEPT_OF_EACH = 5  # copies of those that Quern makes by itself before another is put back
_STAMP = "%Y%m%d-%H%M%S"


class BackupKind(StrEnum):
    """Why a copy was made."""

    FORMAT = "v"  # followed by the format's number
    RESTORE = "restore"  # before another one was put back
    ASKED = "asked"


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """One copy. `chats` and `notebooks` are counts; None where the copy cannot be read."""

    path: Path
    kind: BackupKind
    made: float
    size_bytes: int
    chats: int | None = None
    notebooks: int = 0


class BackupFailed(UserError):
    """A copy could not be made or put back; the chats are as they were."""

    code = "backup_failed"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            _("“{name}” could not be used as a backup.").format(name=name),
            _("The reason: {reason}.").format(reason=reason),
            _("Your chats are as they were."),
        )


def list_backups(chats_file: Path) -> list[Backup]:
    """Returns the copies beside the file, the latest first. Reads each; a place that cannot be read holds none."""
    try:
        files = [file for file in chats_file.parent.glob(f"{chats_file.name}{_MIDDLE}*") if file.suffix != ".part"]
        found = [backup for file in files if (backup := _described(file)) is not None]
    except OSError as error:
        _log.warning("backups cannot be listed: %s", error)
        return []
    return sorted(found, key=lambda backup: backup.made, reverse=True)


def _described(file: Path) -> Backup | None:
    kind = next((kind for kind in BackupKind if file.name.partition(_MIDDLE)[2].startswith(kind)), None)
    try:
        stat = file.stat()
    except OSError:
        return None
    if kind is None:
        return None
    backup = Backup(path=file, kind=kind, made=stat.st_mtime, size_bytes=stat.st_size)
    try:
        with closing(_open_copy(file)) as connection:
            chats = _count(connection, "chats")
            return msgspec.structs.replace(backup, chats=chats, notebooks=_count(connection, "notebooks", missing=0))
    except sqlite3.Error as error:
        _log.info("%s cannot be read: %s", file, error)
        return backup


def _open_copy(file: Path) -> sqlite3.Connection:
    return connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def _count(connection: sqlite3.Connection, table: str, *, missing: int | None = None) -> int:
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table} WHERE deleted IS NULL").fetchone()[0])
    except sqlite3.OperationalError:
        if missing is None:
            raise
        return missing


def make_backup(database: ChatDatabase, kind: BackupKind = BackupKind.ASKED) -> Path:
    """Copies the chats as they are now, and returns where. Raises `BackupFailed`."""
    assert database.path is not None, "chats in memory have no backups"
    copy = _unused(database.path, kind)
    try:
        back_up(database.connection, copy)
    except (OSError, sqlite3.Error) as error:
        raise BackupFailed(copy.name, write_reason(error) if isinstance(error, OSError) else str(error)) from error
    return copy


def _unused(chats_file: Path, kind: BackupKind) -> Path:
    """Returns a name with the time in it that no other copy has."""
    stem, number = f"{chats_file.name}{_MIDDLE}{kind}-{time.strftime(_STAMP)}", 1
    copy = chats_file.with_name(stem)
    while copy.exists():
        number += 1
        copy = chats_file.with_name(f"{stem}-{number}")
    return copy


def restore(database: ChatDatabase, backup: Path) -> Path:
    """Puts a copy in the place of all chats and returns where those were copied to before.

    All or nothing, also where the process ends meanwhile: SQLite writes it as one transaction. Raises `BackupFailed`.
    """
    assert database.path is not None, "chats in memory have no backups"
    working = database.path.with_name(f"{database.path.name}.restoring")
    try:
        _prepare(backup, working)
        kept = make_backup(database, BackupKind.RESTORE)
        with closing(connect(str(working))) as source:
            source.backup(database.connection)
    except NewerChats as error:
        raise BackupFailed(backup.name, error.info.message) from error
    except (OSError, sqlite3.Error) as error:
        raise BackupFailed(backup.name, write_reason(error) if isinstance(error, OSError) else str(error)) from error
    finally:
        for suffix in ("", "-wal", "-shm", ".part"):
            working.with_name(working.name + suffix).unlink(missing_ok=True)
    _let_go_of_the_oldest(database.path)
    return kept


def _prepare(backup: Path, working: Path) -> None:
    """Makes a copy of a copy in the present format, and looks whether it is whole."""
    with closing(_open_copy(backup)) as source:
        if not source.execute("PRAGMA user_version").fetchone()[0]:
            raise sqlite3.DatabaseError(_("it holds no chats"))
        back_up(source, working)
    with closing(ChatDatabase(working, backs_up=False)) as copy:
        damage = copy.connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise sqlite3.DatabaseError(damage)
        copy.recover()


def _let_go_of_the_oldest(chats_file: Path) -> None:
    files = sorted(chats_file.parent.glob(f"{chats_file.name}{_MIDDLE}{BackupKind.RESTORE}-*"))
    for file in files[:-_KEPT_OF_EACH]:
        file.unlink(missing_ok=True)
