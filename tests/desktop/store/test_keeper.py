"""Chats when the disk does not do as it should: full, read-only, missing, busy, damaged, newer."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store.database import ChatDatabase, connect
from desktop.store.keeper import Keeper
from desktop.store.records import ChatRecord, MessageRecord, MessageState
from desktop.store.schema import MIGRATIONS
from runtime.errors import UserError
from runtime.messages import Role

Open = Callable[..., "Told"]


class Told:
    """A keeper, and what it told the person."""

    def __init__(self, path: Path | None, retry_seconds: float) -> None:
        self.problems: list[UserError] = []
        self.saved = 0
        self.keeper = Keeper(path, on_problem=self.problems.append, on_saved=self._note, retry_seconds=retry_seconds)

    def _note(self) -> None:
        self.saved += 1

    def chat(self, id: str) -> None:
        self.keeper.write(lambda database: database.create_chat(ChatRecord(id=id, title=id, created=1.0, updated=1.0)))

    def ids(self) -> set[str]:
        return {item.id for item in self.keeper.read(ChatDatabase.list_chats)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "profile" / "chats.db"


@pytest.fixture
def open_keeper() -> Iterator[Open]:
    opened: list[Told] = []

    def make(path: Path | None, retry_seconds: float = 0.0) -> Told:
        opened.append(Told(path, retry_seconds))
        opened[-1].keeper.open()
        return opened[-1]

    yield make
    for told in opened:
        told.keeper.close()


def on_disk(path: Path) -> set[str]:
    with closing(ChatDatabase(path)) as database:
        return {item.id for item in database.list_chats()}


def test_a_full_disk_is_told_once_and_nothing_stored_is_lost(open_keeper: Open, path: Path) -> None:
    told = open_keeper(path)
    told.chat("before")
    disk = told.keeper._disk
    assert disk is not None
    pages = disk.connection.execute("PRAGMA page_count").fetchone()[0]
    disk.connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite itself then says that the disk is full

    def long_message(database: ChatDatabase) -> None:
        database.add_message(
            MessageRecord(id="m", chat_id="before", parent_id=None, role=Role.USER, content="x" * 50_000, created=1.0)
        )

    told.keeper.write(long_message)
    told.chat("while full")
    assert told.ids() == {"before", "while full"}
    assert [error.info.code for error in told.problems] == ["chats_not_saved"]
    assert "the disk is full" in str(told.problems[0])
    assert str(path) in str(told.problems[0])
    assert on_disk(path) == {"before"}

    disk.connection.execute("PRAGMA max_page_count = 1000000")
    told.chat("after")
    assert told.saved == 1
    assert on_disk(path) == {"before", "while full", "after"}
    found = told.keeper.read(lambda database: database.open_chat("before"))
    assert found is not None
    assert len(found.messages[0].content) == 50_000


def test_a_disk_that_becomes_read_only_keeps_what_it_has(open_keeper: Open, path: Path) -> None:
    told = open_keeper(path)
    told.chat("before")
    assert told.keeper._disk is not None
    told.keeper._disk.connection.execute("PRAGMA query_only = ON")
    told.chat("in memory")
    told.chat("in memory too")
    assert told.ids() == {"before", "in memory", "in memory too"}
    assert [error.info.code for error in told.problems] == ["chats_not_saved"]
    assert on_disk(path) == {"before"}


def test_an_answer_that_streams_through_the_trouble_stays_whole(open_keeper: Open, path: Path) -> None:
    told = open_keeper(path)
    told.chat("c")
    answer = MessageRecord(
        id="a", chat_id="c", parent_id=None, role=Role.ASSISTANT, content="", created=1.0, state=MessageState.WRITING
    )
    told.keeper.write(lambda database: database.add_message(answer))
    told.keeper.write(lambda database: database.append_answer("a", "One "))
    disk = told.keeper._disk
    assert disk is not None
    disk.connection.execute("PRAGMA query_only = ON")
    told.keeper.write(lambda database: database.append_answer("a", "two "))
    found = told.keeper.read(lambda database: database.open_chat("c"))
    assert found is not None
    assert found.messages[0].state is MessageState.WRITING, "moving to memory interrupts nothing"
    told.keeper.write(lambda database: database.finish_answer("a", "One two three", MessageState.DONE, at=2.0))
    disk.connection.execute("PRAGMA query_only = OFF")
    told.keeper.close()
    with closing(ChatDatabase(path)) as database:
        saved = database.open_chat("c")
    assert saved is not None
    assert saved.messages[0].content == "One two three"
    assert told.saved == 1


@pytest.mark.parametrize("obstacle", ["file for folder", "folder for file"])
def test_a_profile_that_cannot_be_written_leaves_chats_in_memory(
    open_keeper: Open, path: Path, obstacle: str
) -> None:
    if obstacle == "file for folder":
        path.parent.write_text("a file")
    else:
        path.mkdir(parents=True)
    told = open_keeper(path)
    told.chat("a")
    told.chat("b")
    assert told.ids() == {"a", "b"}
    assert [error.info.code for error in told.problems] == ["chats_not_saved"]


def test_chats_are_saved_once_the_place_can_be_written(open_keeper: Open, path: Path) -> None:
    path.parent.write_text("a file")
    told = open_keeper(path)
    told.chat("a")
    path.parent.unlink()
    told.chat("b")
    assert told.saved == 1
    assert on_disk(path) == {"a", "b"}


def test_another_program_that_holds_the_file_only_delays_saving(open_keeper: Open, path: Path) -> None:
    told = open_keeper(path)
    told.chat("before")
    with closing(connect(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        told.chat("meanwhile")
        assert told.ids() == {"before", "meanwhile"}
        other.execute("ROLLBACK")
    told.chat("after")
    assert on_disk(path) == {"before", "meanwhile", "after"}
    assert "another program is using the file" in str(told.problems[0])


@pytest.mark.parametrize("content", [b"this is no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_kept_aside(open_keeper: Open, path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    told = open_keeper(path)
    told.chat("new")
    assert [error.info.code for error in told.problems] == ["chats_damaged"]
    assert "chats.db.damaged-1" in str(told.problems[0])
    assert path.with_name("chats.db.damaged-1").read_bytes() == content
    assert on_disk(path) == {"new"}


def test_an_empty_file_is_a_fresh_start(open_keeper: Open, path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    told = open_keeper(path)
    told.chat("new")
    assert told.problems == []


def test_a_newer_file_is_told_politely_and_never_written(open_keeper: Open, path: Path) -> None:
    first = open_keeper(path)
    first.chat("old")
    first.keeper.write(lambda database: database.connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}"))
    first.keeper.close()
    before = path.read_bytes()
    told = open_keeper(path)
    told.chat("in memory")
    assert told.ids() == {"in memory"}
    told.keeper.close()
    assert [error.info.code for error in told.problems] == ["newer_chats"]
    assert path.read_bytes() == before


def test_a_mistake_in_a_change_is_no_reason_to_leave_the_disk(open_keeper: Open, path: Path) -> None:
    told = open_keeper(path)
    with pytest.raises(sqlite3.OperationalError):
        told.keeper.write(lambda database: database.connection.execute("SELECT no_such_column"))
    assert told.problems == []


def test_a_read_only_disk_still_shows_old_chats(open_keeper: Open, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("a disk cannot be mounted here")
    try:
        first = open_keeper(disk / "chats.db")
        first.chat("old")
        first.keeper.close()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        told = open_keeper(disk / "chats.db")
        told.chat("new")
        assert told.ids() == {"old", "new"}
        assert [error.info.code for error in told.problems] == ["chats_not_saved"]
        told.keeper.close()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_really_full_disk_loses_nothing_stored(open_keeper: Open, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("a disk cannot be mounted here")
    try:
        told = open_keeper(disk / "chats.db", retry_seconds=60.0)
        for number in range(500):
            told.chat(f"chat {number}")
            told.keeper.write(lambda database, number=number: database.set_draft(f"chat {number}", "x" * 5000))
        assert len(told.ids()) == 500
        assert [error.info.code for error in told.problems] == ["chats_not_saved"]
        told.keeper.close()
        with closing(ChatDatabase(disk / "chats.db")) as database:
            stored = database.list_chats()
            assert len(stored) >= 20
            assert database.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    finally:
        subprocess.run(["umount", disk], check=True)
