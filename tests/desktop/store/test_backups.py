"""Backups of the chats: what is listed, and that putting one back loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store.backups import BackupFailed, BackupKind, list_backups, make_backup, restore
from desktop.store.database import ChatDatabase
from desktop.store.records import ChatRecord
from desktop.store.schema import MIGRATIONS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "Ünï 模型 'q\" %d#?"
    folder.mkdir()
    return folder / "chats.db"


def opened(path: Path) -> ChatDatabase:
    database = ChatDatabase(path)
    database.recover()
    return database


def add(database: ChatDatabase, title: str) -> None:
    database.create_chat(ChatRecord(id=title, title=title, created=1.0, updated=1.0))


def titles(database: ChatDatabase) -> set[str]:
    return {chat.title for chat in database.list_chats()}


def test_backups_are_listed_with_what_is_in_them(path: Path) -> None:
    with closing(ChatDatabase(path, migrations=MIGRATIONS[:3])) as database:
        add(database, "old")
    with closing(opened(path)) as database:
        add(database, "new")
        make_backup(database)
    path.with_name("chats.db.backup-asked-broken").write_bytes(b"no database at all" * 100)
    path.with_name("chats.db.backup-asked.part").write_bytes(b"half")
    found = {(backup.kind, backup.chats) for backup in list_backups(path)}
    assert found == {(BackupKind.FORMAT, 1), (BackupKind.ASKED, 2), (BackupKind.ASKED, None)}
    assert list_backups(path.with_name("none") / "chats.db") == []


def test_restoring_brings_the_chats_of_then_and_keeps_those_of_now(path: Path) -> None:
    with closing(opened(path)) as database:
        add(database, "then")
        backup = make_backup(database)
        database.delete_chat("then", 2.0)
        add(database, "now")
        kept = restore(database, backup)
        assert titles(database) == {"then"}
        add(database, "later")
        assert database.search("then")[0].chat_id == "then"
        restore(database, kept)
        assert titles(database) == {"now"}
    with closing(opened(path)) as database:
        assert titles(database) == {"now"}, "it is on disk"
    assert not list(path.parent.glob("*restoring*"))


def test_a_backup_of_an_older_format_is_brought_to_the_present_one(path: Path) -> None:
    with closing(ChatDatabase(path, migrations=MIGRATIONS[:1])) as database:
        database.connection.execute("INSERT INTO chats (id, title, created, updated) VALUES ('c', 'Golden', 1, 2)")
    with closing(opened(path)) as database:
        add(database, "now")
        (backup,) = list_backups(path)
        before = backup.path.read_bytes()
        restore(database, backup.path)
        assert titles(database) == {"Golden"}
        add(database, "after")
        assert database.connection.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
    assert backup.path.read_bytes() == before, "the backup stays as it is"


def torn(backup: Path) -> None:
    data = bytearray(backup.read_bytes())
    data[4096:8192] = b"\xa5" * 4096
    backup.write_bytes(data)


def other(backup: Path) -> None:
    backup.write_bytes(b"x" * 5000)


def empty(backup: Path) -> None:
    backup.write_bytes(b"")


def newer(backup: Path) -> None:
    with closing(ChatDatabase(backup)) as database:
        database.connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        database.connection.execute("PRAGMA journal_mode = DELETE").fetchone()


@pytest.mark.parametrize("spoil", [torn, newer, other, empty, Path.unlink])
def test_a_backup_that_is_of_no_use_changes_nothing(path: Path, spoil: Callable[[Path], None]) -> None:
    with closing(opened(path)) as database:
        add(database, "then")
        backup = make_backup(database)
        add(database, "now")
        spoil(backup)
        with pytest.raises(BackupFailed, match="could not be used"):
            restore(database, backup)
        assert titles(database) == {"then", "now"}
    assert not list(path.parent.glob("*restoring*"))


def test_only_the_latest_copies_made_before_a_restore_are_kept(path: Path) -> None:
    with closing(opened(path)) as database:
        backup = make_backup(database)
        for number in range(8):
            add(database, f"chat {number}")
            restore(database, backup)
    assert len([found for found in list_backups(path) if found.kind is BackupKind.RESTORE]) == 5
    assert backup.exists()
