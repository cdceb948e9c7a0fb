"""Keeps chats through trouble with the disk: what cannot be saved lives in memory until it can. No Qt, no threads.

Each change is a function of the database, so that what happened in memory is repeated on disk once that works again.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from desktop.store.database import ChatDatabase, connect
from desktop.store.schema import NewerChats, is_damage
from runtime.errors import UserError
from runtime.places import UnwritablePlace, make_folder, set_aside, shown_path, write_reason
from runtime.text import N_, _

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
Operation = Callable[[ChatDatabase], _T]

RETRY_SECONDS = 5.0
_REASONS = {
    sqlite3.SQLITE_FULL: N_("the disk is full"),
    sqlite3.SQLITE_READONLY: N_("the file is read-only"),
    sqlite3.SQLITE_PERM: N_("Quern has no permission to write there"),
    sqlite3.SQLITE_CANTOPEN: N_("the file cannot be opened"),
    sqlite3.SQLITE_BUSY: N_("another program is using the file"),
    sqlite3.SQLITE_LOCKED: N_("another program is using the file"),
    sqlite3.SQLITE_IOERR: N_("the disk reports an error"),
    sqlite3.SQLITE_CORRUPT: N_("the file is damaged"),
    sqlite3.SQLITE_NOTADB: N_("the file is damaged"),
}


class ChatsNotSaved(UserError):
    """The chats go on in memory because the disk does not take them."""

    code = "chats_not_saved"

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            _("New messages are not being saved."),
            _("“{path}” cannot be written: {reason}.").format(path=shown_path(path), reason=reason),
            _("You can go on: messages stay while Quern is open, and are saved as soon as the disk allows it."),
        )


class ChatsDamaged(UserError):
    """The file of chats is no database any more."""

    code = "chats_damaged"

    def __init__(self, path: Path, kept: Path) -> None:
        super().__init__(
            _("Your saved chats could not be read."),
            _("“{path}” is damaged. It was kept as “{kept}”, and a new file was started.").format(
                path=shown_path(path), kept=kept.name
            ),
            _("If there is a backup, it can be restored."),
        )


class Keeper:
    """The database in use, on disk or in memory, and the changes that wait for the disk."""

    def __init__(
        self,
        path: Path | None,
        *,
        on_problem: Callable[[UserError], None],
        on_saved: Callable[[], None],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """`on_problem` is called once each time saving stops working, `on_saved` when all of it is on disk again."""
        self._path = path
        self._on_problem, self._on_saved = on_problem, on_saved
        self.retry_seconds = retry_seconds
        self._disk: ChatDatabase | None = None
        self._memory: ChatDatabase | None = None
        self._waiting: list[Operation[object]] = []
        self._tried = 0.0

    def open(self) -> None:
        """Opens the file, or goes on in memory and says so."""
        if self._path is None:
            self._memory = ChatDatabase()
            return
        try:
            self._disk = _opened(self._path)
        except NewerChats as error:
            self._path = None  # never written by this version
            self._use_memory(ChatDatabase(), error)
        except UnwritablePlace as error:
            self._use_memory(ChatDatabase(), ChatsNotSaved(self._path, error.reason))
        except OSError as error:  # the copy before a migration could not be made
            self._use_memory(_copy_read_only(self._path), ChatsNotSaved(self._path, write_reason(error)))
        except sqlite3.Error as error:
            self._open_troubled(self._path, error)

    def _open_troubled(self, path: Path, error: sqlite3.Error) -> None:
        if not is_damage(error):
            self._use_memory(_copy_read_only(path), ChatsNotSaved(path, reason(error)))
            return
        try:
            kept = _set_aside(path)
            self._disk = _opened(path)
        except (OSError, sqlite3.Error):
            self._use_memory(ChatDatabase(), ChatsNotSaved(path, reason(error)))
        else:
            self._on_problem(ChatsDamaged(path, kept))

    def read(self, operation: Operation[_T]) -> _T:
        """Returns what `operation` reads. Raises sqlite3.Error where the file cannot be read."""
        self._try_disk()
        return operation(self._current())

    def write(self, operation: Operation[_T]) -> _T:
        """Makes a change, on disk or else in memory. Raises sqlite3.Error only where the change itself is wrong."""
        self._try_disk()
        if self._memory is None:
            try:
                return operation(self._current())
            except sqlite3.Error as error:
                if _code(error) not in _REASONS:
                    raise
                self._leave_disk(error)
        result = operation(self._current())
        if self._path is not None:
            self._wait(operation)
        return result

    def _wait(self, operation: Operation[object]) -> None:
        """Notes what is to be repeated on disk; a text that is saved again and again only once."""
        if (same := getattr(operation, "replaces", None)) is not None:
            self._waiting = [older for older in self._waiting if getattr(older, "replaces", None) != same]
        self._waiting.append(operation)

    def on_disk(self, operation: Operation[_T]) -> _T:
        """Does what needs the file itself. Raises `ChatsNotSaved` where the chats are only in memory."""
        self._try_disk()
        if self._disk is None or self._memory is not None:
            raise ChatsNotSaved(self._path or Path(), _("the chats are only in memory"))
        return operation(self._disk)

    @property
    def in_trouble(self) -> bool:
        """Whether something lives only in memory that belongs on the disk."""
        return self._memory is not None and self._path is not None

    def retry(self) -> None:
        """Saves what waits, if the disk takes it again."""
        self._try_disk()

    def close(self) -> None:
        """Saves what waits, where that is possible, and closes the files."""
        self._tried = 0.0
        self._try_disk()
        for database in (self._memory, self._disk):
            if database is not None:
                database.close()
        self._memory = self._disk = None

    def _current(self) -> ChatDatabase:
        database = self._memory or self._disk
        assert database is not None, "the keeper is not open"
        return database

    def _leave_disk(self, error: sqlite3.Error) -> None:
        assert self._path is not None
        assert self._disk is not None
        try:
            memory = ChatDatabase.copy_of(self._disk.connection)
        except sqlite3.Error as unreadable:
            _log.warning("the chats on disk cannot be read either: %s", unreadable)
            memory = ChatDatabase()
        self._use_memory(memory, ChatsNotSaved(self._path, reason(error)))

    def _use_memory(self, memory: ChatDatabase, problem: UserError) -> None:
        self._memory = memory
        self._tried = time.monotonic()
        self._on_problem(problem)

    def _try_disk(self) -> None:
        """Repeats on disk what happened in memory, all of it or nothing; at most every few seconds."""
        due = not self._tried or time.monotonic() - self._tried >= self.retry_seconds
        if self._memory is None or self._path is None or not due:
            return
        self._tried = time.monotonic()
        try:
            disk = self._disk = self._disk or _opened(self._path)
            with disk.transaction():
                for operation in self._waiting:
                    operation(disk)
        except (UnwritablePlace, NewerChats, OSError, sqlite3.Error) as error:
            _log.info("the chats still cannot be saved: %s", error)
            return
        self._memory.close()
        self._memory, self._waiting = None, []
        self._on_saved()


def reason(error: sqlite3.Error) -> str:
    """Returns why SQLite could not do it, in words, translated."""
    known = _REASONS.get(_code(error))
    return _(known) if known else str(error)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # the upper bits hold details


def _opened(path: Path) -> ChatDatabase:
    make_folder(path.parent)
    database = ChatDatabase(path)
    try:
        database.recover()
    except BaseException:
        database.close()
        raise
    return database


def _copy_read_only(path: Path) -> ChatDatabase:
    """Returns what a file that cannot be written holds, in memory; nothing where it cannot be read either."""
    for mode in ("mode=ro", "immutable=1"):  # the second also where the write-ahead log cannot be opened
        try:
            source = connect(f"{path.absolute().as_uri()}?{mode}", uri=True)
        except sqlite3.Error:
            continue
        try:
            copy = ChatDatabase.copy_of(source)
            copy.recover()
            return copy
        except (sqlite3.Error, NewerChats) as error:
            _log.info("%s with %s: %s", path, mode, error)
        finally:
            source.close()
    return ChatDatabase()


def _set_aside(path: Path) -> Path:
    kept = set_aside(path)
    for suffix in ("-wal", "-shm"):
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            companion.rename(kept.with_name(kept.name + suffix))
    return kept
