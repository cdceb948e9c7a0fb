"""The chat database: every change is one transaction, streamed text is journaled. No Qt, no threads.

A connection belongs to the thread that opened it. Errors of SQLite pass through; `keeper.py` decides what they mean.
"""

from __future__ import annotations

import logging
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from desktop.store import notebooks, reading, search
from desktop.store.records import (
    NO_EDIT,
    ChatRecord,
    ChatSummary,
    Edit,
    MessageRecord,
    MessageState,
    OpenChat,
    Receipt,
    SearchHit,
    clean_text,
)
from desktop.store.schema import MIGRATIONS, is_damage, migrate, refuse_newer
from runtime.errors import ErrorInfo

_log = logging.getLogger(__name__)
_LARGEST_RECEIPT = 1 << 20  # bytes, packed: an answer at the end of a million tokens is not worth more
_BUSY_SECONDS = 1.0  # closing may meet a busy file twice and still ends within three seconds


class ChatDatabase:
    """All chats of one profile in a file, or in memory where `path` is None."""

    def __init__(
        self, path: Path | None = None, *, migrations: Sequence[str] = MIGRATIONS, backs_up: bool = True
    ) -> None:
        """Opens or makes the file and migrates it; a copy is made before that, unless `backs_up` is False.

        Raises `NewerChats`; sqlite3.OperationalError where the place cannot be used; another sqlite3.DatabaseError
        where the file is damaged.
        """
        self.path = path
        self._connection = connect(str(path) if path is not None else ":memory:")
        try:
            self._set_up(migrations, backs_up=backs_up)
        except BaseException:
            self._connection.close()
            raise

    @classmethod
    def copy_of(cls, source: sqlite3.Connection) -> ChatDatabase:
        """Returns a database in memory with everything that `source` holds."""
        copy = cls.__new__(cls)
        copy.path = None
        copy._connection = connect(":memory:")
        source.backup(copy._connection)
        copy._set_up(MIGRATIONS)
        return copy

    def _set_up(self, migrations: Sequence[str], *, backs_up: bool = True) -> None:
        refuse_newer(self._connection, self.path, migrations)
        # A killed process loses nothing with NORMAL in a write-ahead log; a power cut may lose the last moments.
        self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute("PRAGMA secure_delete = ON")  # a deleted chat is gone from the file as well
        migrate(self._connection, self.path if backs_up else None, migrations)
        self._indexed = search.prepare(self._connection)

    def recover(self) -> None:
        """Finishes what the last run left: answers being written keep their journaled text, deleted chats go.

        To be called once, before anything is written. A damaged page costs this step, not the opening.
        """
        for step in (self._forget_deleted, self._finish_interrupted):
            try:
                with self.transaction():
                    step()
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    _log.warning("recovery left something out: %s", error)
                else:
                    raise

    @property
    def connection(self) -> sqlite3.Connection:
        return self._connection

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside happens, or nothing does. Inside another transaction it is part of that one."""
        if self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    # --- reading ---------------------------------------------------------------------------------------------------

    def list_chats(self) -> list[ChatSummary]:
        """Returns the chats that are not deleted, the latest first."""
        return reading.list_chats(self._connection)

    def open_chat(self, chat_id: str, *, reveal: str | None = None) -> OpenChat | None:
        """Returns a chat with the branch that is shown; with `reveal`, the branch that holds that message."""
        if reveal is not None:
            self._reveal(chat_id, reveal)
        return reading.open_chat(self._connection, chat_id)

    def search(self, text: str) -> list[SearchHit]:
        """Returns where all words of `text` occur, in chats and then in notebooks; what is deleted is left out."""
        chats = search.search(self._connection, text, indexed=self._indexed)
        return chats + notebooks.search_notebooks(self._connection, text)

    # --- chats -----------------------------------------------------------------------------------------------------

    def create_chat(self, chat: ChatRecord) -> None:
        """Adds a chat; one that is there already stays as it is."""
        self._change(
            "INSERT OR IGNORE INTO chats (id, title, created, updated, system_prompt, draft, pinned, folder, settings)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            chat.id, clean_text(chat.title), chat.created, chat.updated, clean_text(chat.system_prompt),
            clean_text(chat.draft), chat.pinned, clean_text(chat.folder), _layer(chat.settings),
        )  # fmt: skip

    def rename_chat(self, chat_id: str, title: str) -> None:
        self._change("UPDATE chats SET title = ? WHERE id = ?", clean_text(title), chat_id)

    def delete_chat(self, chat_id: str, at: float) -> None:
        """Takes a chat out of every list. It can be restored until the database is opened the next time."""
        self._change("UPDATE chats SET deleted = ? WHERE id = ?", at, chat_id)

    def restore_chat(self, chat_id: str) -> None:
        """Undoes `delete_chat`."""
        self._change("UPDATE chats SET deleted = NULL WHERE id = ?", chat_id)

    def set_system_prompt(self, chat_id: str, text: str) -> None:
        self._change("UPDATE chats SET system_prompt = ? WHERE id = ?", clean_text(text), chat_id)

    def pin_chat(self, chat_id: str, pinned: bool) -> None:
        self._change("UPDATE chats SET pinned = ? WHERE id = ?", pinned, chat_id)

    def move_chat(self, chat_id: str, folder: str) -> None:
        """Puts a chat into a folder; the empty name takes it out of any."""
        self._change("UPDATE chats SET folder = ? WHERE id = ?", clean_text(folder), chat_id)

    def set_settings(self, chat_id: str, settings: Mapping[str, Any]) -> None:
        """Keeps the settings that are a chat's own."""
        self._change("UPDATE chats SET settings = ? WHERE id = ?", _layer(settings), chat_id)

    def whole_chat(self, chat_id: str) -> OpenChat | None:
        """Returns a chat with every message of every branch."""
        return reading.whole_chat(self._connection, chat_id)

    def import_chat(self, found: OpenChat) -> str:
        """Adds a chat with its messages, all or nothing. Returns its id."""
        with self.transaction():
            self.create_chat(found.chat)
            for message in found.messages:
                self.add_message(message)
            if found.chat.leaf is not None:
                self._set_leaf(found.chat.id, found.chat.leaf)
            self.set_draft(found.chat.id, found.chat.draft, found.chat.edit)
            self._change("UPDATE chats SET updated = ? WHERE id = ?", found.chat.updated, found.chat.id)
        return found.chat.id

    def set_draft(self, chat_id: str, text: str, edit: Edit = NO_EDIT) -> None:
        """Keeps what is typed and not sent; the chat does not move in the list for it."""
        self._change(
            "UPDATE chats SET draft = ?, edit_of = ?, edit = ? WHERE id = ?",
            clean_text(text), edit.message_id, clean_text(edit.text), chat_id,
        )  # fmt: skip

    def choose_version(self, chat_id: str, message_id: str, step: int) -> OpenChat | None:
        """Shows the sibling `step` places further, with the newest branch below it; stays at either end."""
        shape = reading.tree(self._connection, chat_id)
        if message_id in shape.parent:
            versions = shape.siblings(message_id)
            at = min(max(versions.index(message_id) + step, 0), len(versions) - 1)
            self._set_leaf(chat_id, shape.newest_below(versions[at]))
        return reading.open_chat(self._connection, chat_id)

    # --- messages --------------------------------------------------------------------------------------------------

    def add_message(self, message: MessageRecord) -> None:
        """Adds a message at the end of the branch that is shown from now on."""
        with self.transaction():
            self._connection.execute(
                """INSERT INTO messages
                   (id, chat_id, parent_id, role, content, created, state, model, receipt, error, pinned)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    message.id, message.chat_id, message.parent_id, message.role.value, clean_text(message.content),
                    message.created, message.state.value, clean_text(message.model), _json(message.receipt),
                    _json(message.error), message.pinned,
                ),
            )  # fmt: skip
            self._set_leaf(message.chat_id, message.id, touched=message.created)

    def pin_messages(self, message_ids: Sequence[str], pinned: bool) -> None:
        """Keeps messages in every prompt, or lets them be left out again; the chat does not move in the list for it."""
        with self.transaction():
            for message_id in message_ids:
                self._change("UPDATE messages SET pinned = ? WHERE id = ?", pinned, message_id)

    def resume_answer(self, message_id: str) -> None:
        """Marks an answer as being written again, to go on where it ended."""
        self._change("UPDATE messages SET state = ?, error = NULL WHERE id = ?", MessageState.WRITING.value, message_id)

    def append_answer(self, message_id: str, text: str) -> None:
        """Journals the next piece of an answer that is being written."""
        self._change("INSERT INTO journal (message_id, text) VALUES (?, ?)", message_id, clean_text(text))

    def finish_answer(
        self,
        message_id: str,
        text: str,
        state: MessageState,
        *,
        at: float,
        receipt: Receipt | None = None,
        error: ErrorInfo | None = None,
    ) -> None:
        """Stores the whole answer in place of its journal."""
        with self.transaction():
            self._connection.execute(
                "UPDATE messages SET content = ?, state = ?, receipt = ?, error = ? WHERE id = ?",
                (clean_text(text), state.value, _json(receipt), _json(error), message_id),
            )
            self._connection.execute("DELETE FROM journal WHERE message_id = ?", (message_id,))
            self._connection.execute(
                "UPDATE chats SET updated = ? WHERE id = (SELECT chat_id FROM messages WHERE id = ?)", (at, message_id)
            )

    def keep_receipt(self, message_id: str, receipt: msgspec.Struct) -> None:
        """Keeps what an answer can be made again with. Apart from the message: a chat is read without them."""
        packed = zlib.compress(msgspec.json.encode(receipt))
        if len(packed) <= _LARGEST_RECEIPT:
            self._change("INSERT OR REPLACE INTO receipts (message_id, receipt) VALUES (?, ?)", message_id, packed)

    def receipt(self, message_id: str) -> bytes | None:
        """Returns a kept receipt as JSON; None where there is none, or where it cannot be read."""
        query = "SELECT receipt FROM receipts WHERE message_id = ?"
        row = self._connection.execute(query, (message_id,)).fetchone()
        try:
            return zlib.decompress(row["receipt"]) if row is not None else None
        except (zlib.error, TypeError):
            return None

    def remove_message(self, message_id: str) -> None:
        """Removes a message that nothing follows, and shows its newest other version, or else its parent."""
        with self.transaction():
            query = "SELECT chat_id FROM messages WHERE id = ?"
            row = self._connection.execute(query, (message_id,)).fetchone()
            if row is None:
                return
            shape = reading.tree(self._connection, row["chat_id"])
            if shape.children.get(message_id):
                return
            self._connection.execute(
                "UPDATE chats SET leaf = ? WHERE id = ? AND leaf = ?",
                (shape.without(message_id), row["chat_id"], message_id),
            )
            self._connection.execute("DELETE FROM messages WHERE id = ?", (message_id,))
            self._connection.execute("DELETE FROM receipts WHERE message_id = ?", (message_id,))
            self._connection.execute("DELETE FROM journal WHERE message_id = ?", (message_id,))

    # --- inside ----------------------------------------------------------------------------------------------------

    def _change(self, statement: str, *values: object) -> None:
        with self.transaction():
            self._connection.execute(statement, values)

    def _set_leaf(self, chat_id: str, leaf: str, *, touched: float | None = None) -> None:
        self._change("UPDATE chats SET leaf = ?, updated = coalesce(?, updated) WHERE id = ?", leaf, touched, chat_id)

    def _reveal(self, chat_id: str, message_id: str) -> None:
        chat, shape = reading.read_chat(self._connection, chat_id), reading.tree(self._connection, chat_id)
        if chat is not None and message_id in shape.parent and message_id not in shape.branch(chat.leaf):
            self._set_leaf(chat_id, shape.newest_below(message_id))

    def _forget_deleted(self) -> None:
        gone = "SELECT id FROM chats WHERE deleted IS NOT NULL"
        self._connection.execute(
            f"DELETE FROM receipts WHERE message_id IN (SELECT id FROM messages WHERE chat_id IN ({gone}))"
        )
        self._connection.execute(f"DELETE FROM messages WHERE chat_id IN ({gone})")
        self._connection.execute("DELETE FROM chats WHERE deleted IS NOT NULL")
        notebooks.forget_deleted(self._connection)

    def _finish_interrupted(self) -> None:
        query = "SELECT id, content FROM messages WHERE state = ?"
        for row in self._connection.execute(query, (MessageState.WRITING.value,)).fetchall():
            text = reading.as_text(row["content"]) + self._journaled(row["id"])
            _log.info("recovered %d characters of an unfinished answer", len(text))
            if not text:
                self.remove_message(row["id"])
                continue
            change = "UPDATE messages SET content = ?, state = ? WHERE id = ?"
            self._connection.execute(change, (text, MessageState.INTERRUPTED.value, row["id"]))
        self._connection.execute("DELETE FROM journal")

    def _journaled(self, message_id: str) -> str:
        query = "SELECT text FROM journal WHERE message_id = ? ORDER BY seq"
        return "".join(reading.as_text(row["text"]) for row in self._connection.execute(query, (message_id,)))


def connect(name: str, *, uri: bool = False) -> sqlite3.Connection:
    """Returns a connection that commits only when told and reads text that is not valid UTF-8 as well as it can."""
    connection = sqlite3.connect(name, timeout=_BUSY_SECONDS, isolation_level=None, uri=uri)
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _layer(settings: Mapping[str, Any]) -> str:
    return msgspec.json.encode(dict(settings)).decode() if settings else ""


def _json(value: msgspec.Struct | ErrorInfo | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
