"""The shape of the chat database and how it changes from version to version. Knows no chat.

Each migration is the SQL that leads from version N to N + 1; the database says its version in `PRAGMA user_version`.
A migration once released is never edited. Before one runs on a file with content, a copy of the file is made.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from runtime.errors import UserError
from runtime.places import shown_path
from runtime.text import _

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE chats (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL,
        updated REAL NOT NULL,
        deleted REAL,
        system_prompt TEXT NOT NULL DEFAULT '',
        draft TEXT NOT NULL DEFAULT '',
        leaf TEXT
    );
    CREATE TABLE messages (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        chat_id TEXT NOT NULL,
        parent_id TEXT,
        role TEXT NOT NULL,
        content TEXT NOT NULL,
        created REAL NOT NULL,
        state TEXT NOT NULL,
        model TEXT NOT NULL DEFAULT '',
        receipt TEXT,
        error TEXT
    );
    CREATE INDEX messages_of_chat ON messages (chat_id);
    CREATE TABLE journal (
        seq INTEGER PRIMARY KEY,
        message_id TEXT NOT NULL,
        text TEXT NOT NULL
    );
    CREATE INDEX journal_of_message ON journal (message_id);
    CREATE INDEX chats_by_time ON chats (updated);
    """,
    """
    ALTER TABLE chats ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE chats ADD COLUMN folder TEXT NOT NULL DEFAULT '';
    ALTER TABLE chats ADD COLUMN settings TEXT NOT NULL DEFAULT '';
    """,
    """
    CREATE TABLE receipts (
        message_id TEXT PRIMARY KEY,
        receipt BLOB NOT NULL
    );
    """,
    """
    CREATE TABLE notebooks (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL DEFAULT '',
        text TEXT NOT NULL DEFAULT '',
        mark_start INTEGER NOT NULL DEFAULT 0,
        mark_end INTEGER NOT NULL DEFAULT 0,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        deleted REAL
    );
    """,
    """
    ALTER TABLE messages ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
    """,
    """
    ALTER TABLE chats ADD COLUMN edit_of TEXT NOT NULL DEFAULT '';
    ALTER TABLE chats ADD COLUMN edit TEXT NOT NULL DEFAULT '';
    """,
)


class NewerChats(UserError):
    """The chats were written by a newer Quern."""

    code = "newer_chats"

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            _("Your chats were saved by a newer version of Quern."),
            _("“{path}” has format {found}; this version knows formats up to {known}. It was left as it is.").format(
                path=shown_path(path), found=found, known=known
            ),
            _("Install the newer version to see them. Until then, chats are kept only while Quern is open."),
        )


def refuse_newer(connection: sqlite3.Connection, path: Path | None, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Raises `NewerChats` where the file has a format that this version does not know."""
    if (found := _version(connection)) > len(migrations):
        raise NewerChats(path or Path(), found, len(migrations))


def migrate(connection: sqlite3.Connection, path: Path | None, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Brings the database to the newest version, each step whole or not at all. Raises sqlite3.Error."""
    found = _version(connection)
    if 0 < found < len(migrations) and path is not None:
        back_up(connection, path.with_name(f"{path.name}.backup-v{found}"))
    for version, script in enumerate(migrations[found:], start=found + 1):
        _run(connection, script, version)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file's content is the reason, not the disk or the rights."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _run(connection: sqlite3.Connection, script: str, version: int) -> None:
    try:
        # executescript commits an open transaction first, so the script brings its own.
        connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {version}; COMMIT;")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def back_up(connection: sqlite3.Connection, copy: Path) -> None:
    """Copies the whole database, the write-ahead log included; an older copy of that name is replaced."""
    part = copy.with_name(copy.name + ".part")
    part.unlink(missing_ok=True)
    target = sqlite3.connect(part)
    try:
        connection.backup(target)
    finally:
        target.close()
    part.replace(copy)
