"""Notebooks in the database: saved as a whole, listed, searched, deleted with a way back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store import notebooks
from desktop.store.database import ChatDatabase
from desktop.store.keeper import Keeper
from desktop.store.records import NotebookRecord, NotebookSummary
from desktop.store.schema import MIGRATIONS


def opened(path: Path | None = None) -> ChatDatabase:
    database = ChatDatabase(path)
    database.recover()
    return database


def save(database: ChatDatabase, id: str, text: str, *, title: str = "", at: float = 1.0) -> None:
    record = NotebookRecord(id=id, title=title, text=text, mark=(2, 5), created=1.0, updated=at)
    notebooks.SaveNotebook(record)(database)


def test_a_notebook_survives_closing_and_opening(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "chats.db")) as database:
        save(database, "a", "Es war einmal 模型 🦙\n\n", title="Tale")
        save(database, "a", "Es war einmal ein Müller.", title="Tale", at=2.0)
    with closing(opened(tmp_path / "chats.db")) as database:
        found = notebooks.read_notebook(database.connection, "a")
    assert found == NotebookRecord(
        id="a", title="Tale", text="Es war einmal ein Müller.", mark=(2, 5), created=1.0, updated=2.0
    )


def test_the_latest_comes_first_and_an_untitled_one_is_called_by_its_first_line() -> None:
    with closing(opened()) as database:
        save(database, "a", "\n  Once   upon a time\nthere was", at=1.0)
        save(database, "b", "x" * 100, at=2.0)
        save(database, "c", "text", title="Named", at=0.5)
        found = notebooks.list_notebooks(database.connection)
    assert [(book.id, book.title) for book in found] == [
        ("b", "x" * 59 + "…"), ("a", "Once upon a time"), ("c", "Named"),
    ]  # fmt: skip


def test_a_deleted_notebook_can_be_restored_until_the_next_start(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "chats.db")) as database:
        save(database, "a", "kept")
        save(database, "b", "gone")
        for id in ("a", "b"):
            notebooks.delete_notebook(database, id, 3.0)
        assert notebooks.list_notebooks(database.connection) == []
        assert notebooks.read_notebook(database.connection, "a") is None
        assert database.search("kept") == []
        notebooks.delete_notebook(database, "a", None)
    with closing(opened(tmp_path / "chats.db")) as database:
        assert notebooks.list_notebooks(database.connection) == [NotebookSummary(id="a", title="kept", updated=1.0)]
        assert database.connection.execute("SELECT count(*) FROM notebooks").fetchone()[0] == 1


@pytest.mark.parametrize("words", ["MÜLLER mehl", "水车", "tale", "水"])
def test_search_finds_notebooks_in_any_case_and_script(words: str) -> None:
    with closing(opened()) as database:
        save(database, "a", "Der Müller mahlt Mehl. 水车在转。", title="A tale")
        save(database, "b", "Something else")
        found = database.search(words)
    assert [(hit.notebook_id, hit.chat_id, hit.title) for hit in found] == [("a", "", "A tale")]


def test_a_profile_of_the_format_before_notebooks_gets_them_and_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    before = 3  # the last format without notebooks
    with closing(ChatDatabase(path, migrations=MIGRATIONS[:before])) as database:
        database.connection.execute("INSERT INTO chats (id, title, created, updated) VALUES ('c', 'Golden', 1, 2)")
        database.connection.execute("INSERT INTO receipts VALUES ('m', x'00')")
        with pytest.raises(sqlite3.OperationalError):
            notebooks.list_notebooks(database.connection)
    with closing(opened(path)) as database:
        save(database, "a", "new")
        assert [chat.title for chat in database.list_chats()] == ["Golden"]
        assert len(notebooks.list_notebooks(database.connection)) == 1
    assert path.with_name(f"chats.db.backup-v{before}").exists()


def test_a_text_that_waits_for_the_disk_waits_once(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_bytes(b"in the way")  # no folder can be made here
    problems: list[object] = []
    keeper = Keeper(place / "chats.db", on_problem=problems.append, on_saved=lambda: None, retry_seconds=0.0)
    keeper.open()
    for number in range(50):
        keeper.write(notebooks.SaveNotebook(NotebookRecord(id="a", text=f"text {number}")))
    keeper.write(notebooks.SaveNotebook(NotebookRecord(id="b", text="another")))
    assert len(keeper._waiting) == 2
    place.unlink()
    listed = keeper.read(lambda database: notebooks.list_notebooks(database.connection))
    keeper.close()
    assert len(problems) == 1
    assert len(listed) == 2
    with closing(opened(place / "chats.db")) as database:
        found = notebooks.read_notebook(database.connection, "a")
    assert found is not None
    assert found.text == "text 49"
