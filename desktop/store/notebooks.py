"""Notebooks in the database: texts that a model goes on with. No Qt, no threads.

A notebook is saved as a whole. It has no index for searching: there are few of them, and they change with each word.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from desktop.store.reading import as_number, as_text
from desktop.store.records import NotebookRecord, NotebookSummary, SearchHit, clean_text
from desktop.store.search import contains, excerpt, fold, words_of

if TYPE_CHECKING:
    from desktop.store.database import ChatDatabase

_LIMIT = 50
_FIRST = 400  # characters in which the first line of an untitled notebook is looked for
_LONGEST_TITLE = 60


def list_notebooks(connection: sqlite3.Connection) -> list[NotebookSummary]:
    """Returns the notebooks that are not deleted, the latest first."""
    query = f"""
        SELECT id, title, substr(text, 1, {_FIRST}) AS beginning, updated FROM notebooks
        WHERE deleted IS NULL ORDER BY updated DESC, seq DESC
    """
    return [
        NotebookSummary(id=as_text(row["id"]), title=_title(row), updated=as_number(row["updated"]))
        for row in connection.execute(query)
    ]


def read_notebook(connection: sqlite3.Connection, id: str) -> NotebookRecord | None:
    """Returns a notebook; None where there is none, or where it is deleted."""
    row = connection.execute("SELECT * FROM notebooks WHERE id = ? AND deleted IS NULL", (id,)).fetchone()
    if row is None:
        return None
    return NotebookRecord(
        id=as_text(row["id"]), title=as_text(row["title"]), text=as_text(row["text"]),
        created=as_number(row["created"]), updated=as_number(row["updated"]),
        mark=(int(as_number(row["mark_start"])), int(as_number(row["mark_end"]))),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SaveNotebook:
    """Saves a notebook as it is now. Of several that wait for the disk, only the last is of use."""

    notebook: NotebookRecord

    @property
    def replaces(self) -> str:
        """What an earlier operation has in common that this one makes needless."""
        return f"notebook {self.notebook.id}"

    def __call__(self, database: ChatDatabase) -> None:
        book = self.notebook
        with database.transaction():
            database.connection.execute(
                """INSERT INTO notebooks (id, title, text, mark_start, mark_end, created, updated)
                   VALUES (?, ?, ?, ?, ?, ?, ?)
                   ON CONFLICT (id) DO UPDATE SET title = excluded.title, text = excluded.text,
                   mark_start = excluded.mark_start, mark_end = excluded.mark_end, updated = excluded.updated""",
                (book.id, clean_text(book.title), clean_text(book.text), *book.mark, book.created, book.updated),
            )


def delete_notebook(database: ChatDatabase, id: str, at: float | None) -> None:
    """Takes a notebook out of every list until the database is opened the next time; None brings it back."""
    with database.transaction():
        database.connection.execute("UPDATE notebooks SET deleted = ? WHERE id = ?", (at, id))


def forget_deleted(connection: sqlite3.Connection) -> None:
    """Removes what was deleted for good."""
    connection.execute("DELETE FROM notebooks WHERE deleted IS NOT NULL")


def search_notebooks(connection: sqlite3.Connection, text: str) -> list[SearchHit]:
    """Returns the notebooks that hold all words of `text` in their title or text, the latest first."""
    words = words_of(text)
    if not words:
        return []
    query = f"""
        SELECT id, title, text, substr(text, 1, {_FIRST}) AS beginning, updated FROM notebooks
        WHERE deleted IS NULL AND {contains("title || char(10) || text", words)}
        ORDER BY updated DESC LIMIT {_LIMIT}
    """
    rows = connection.execute(query, [fold(word) for word in words])
    return [
        SearchHit(
            chat_id="", notebook_id=as_text(row["id"]), title=_title(row), message_id=None,
            snippet=excerpt(as_text(row["text"]), words), updated=as_number(row["updated"]),
        )
        for row in rows
    ]  # fmt: skip


def _title(row: sqlite3.Row) -> str:
    return as_text(row["title"]) or title_from(as_text(row["beginning"]))


def title_from(text: str) -> str:
    """Returns what a notebook is called that has no name of its own: its first line, as far as a list shows it."""
    first = next((line for line in (" ".join(line.split()) for line in text[:_FIRST].splitlines()) if line), "")
    return first if len(first) <= _LONGEST_TITLE else first[: _LONGEST_TITLE - 1] + "…"
