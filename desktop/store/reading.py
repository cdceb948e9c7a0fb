"""Reads chats out of the database. A damaged value costs that value, a damaged row that row, never the rest."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from desktop.store.records import ChatRecord, ChatSummary, Edit, MessageRecord, MessageState, OpenChat, Receipt
from desktop.store.schema import is_damage
from runtime.errors import ErrorInfo
from runtime.messages import Role

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_SNIPPET = 120  # characters of the last message in the list
_MESSAGE = "seq, id, chat_id, parent_id, role, content, created, state, model, receipt, error, pinned"
MESSAGE_KEYS = "SELECT seq FROM messages INDEXED BY messages_of_chat"
_CHAT_KEYS = "SELECT seq FROM chats INDEXED BY chats_by_time ORDER BY updated DESC"
_SHAPE = "SELECT seq, id, parent_id FROM messages WHERE {where} ORDER BY seq"
_LISTED = """
    SELECT seq, id, title, updated, pinned, folder,
           (SELECT substr(content, 1, 200) FROM messages WHERE messages.id = chats.leaf) AS last
    FROM chats WHERE {where} ORDER BY updated DESC, seq DESC
"""


class Tree:
    """Who follows whom in one chat: ids, parents and order, without any text."""

    def __init__(self, rows: list[tuple[str, str | None]]) -> None:
        """`rows` are (id, parent) in the order of writing. A parent that is missing makes its child a first message."""
        known = {id for id, _parent in rows}
        self.parent = {id: parent if parent in known and parent != id else None for id, parent in rows}
        self.children: dict[str | None, list[str]] = {}
        for id, parent in self.parent.items():
            self.children.setdefault(parent, []).append(id)

    def branch(self, leaf: str | None) -> list[str]:
        """Returns the ids from the first message to `leaf`; to the newest message where the leaf is unknown."""
        at = leaf if leaf in self.parent else next(reversed(self.parent), None)
        found: dict[str, None] = {}
        while at is not None and at not in found:  # a damaged file may hold a ring
            found[at] = None
            at = self.parent[at]
        return list(reversed(found))

    def siblings(self, id: str) -> list[str]:
        """Returns the versions of a message, itself included, in the order of writing."""
        return self.children[self.parent[id]]

    def without(self, id: str) -> str | None:
        """Returns where the branch would end if the last message `id` were not there."""
        others = [other for other in self.siblings(id) if other != id]
        return self.newest_below(others[-1]) if others else self.parent[id]

    def newest_below(self, id: str) -> str:
        """Returns the end of the branch that goes through `id` and takes the newest child each time."""
        seen = {id}
        while (children := self.children.get(id)) and children[-1] not in seen:
            id = children[-1]
            seen.add(id)
        return id


def tree(connection: sqlite3.Connection, chat_id: str) -> Tree:
    """Returns the shape of one chat."""
    rows = tolerant(connection, _SHAPE, "chat_id = ?", (chat_id,), MESSAGE_KEYS + " WHERE chat_id = ?", (chat_id,))
    return Tree([(as_text(row["id"]), None if row["parent_id"] is None else as_text(row["parent_id"])) for row in rows])


def list_chats(connection: sqlite3.Connection) -> list[ChatSummary]:
    """Returns the chats that are not deleted, the latest first."""
    rows = tolerant(connection, _LISTED, "deleted IS NULL", (), _CHAT_KEYS)
    return [
        ChatSummary(
            id=as_text(row["id"]),
            title=as_text(row["title"]),
            updated=as_number(row["updated"]),
            snippet=" ".join(as_text(row["last"]).split())[:_SNIPPET],
            pinned=bool(as_number(row["pinned"])),
            folder=as_text(row["folder"]),
        )
        for row in rows
    ]


def read_chat(connection: sqlite3.Connection, chat_id: str) -> ChatRecord | None:
    """Returns one chat without its messages; None where there is none, or where it is deleted."""
    query = "SELECT * FROM chats WHERE id = ? AND deleted IS NULL"
    row = connection.execute(query, (chat_id,)).fetchone()
    if row is None:
        return None
    return ChatRecord(
        id=as_text(row["id"]),
        title=as_text(row["title"]),
        created=as_number(row["created"]),
        updated=as_number(row["updated"]),
        system_prompt=as_text(row["system_prompt"]),
        draft=as_text(row["draft"]),
        edit=Edit(as_text(row["edit_of"]), as_text(row["edit"])),
        leaf=None if row["leaf"] is None else as_text(row["leaf"]),
        pinned=bool(as_number(row["pinned"])),
        folder=as_text(row["folder"]),
        settings=_json(row["settings"], dict) or {},
    )


def open_chat(connection: sqlite3.Connection, chat_id: str) -> OpenChat | None:
    """Returns a chat with the branch that is shown; None where there is none."""
    chat = read_chat(connection, chat_id)
    if chat is None:
        return None
    shape = tree(connection, chat_id)
    messages = []
    for id in shape.branch(chat.leaf):
        message = read_message(connection, id)
        if message is not None:
            versions = shape.siblings(id)
            counted = msgspec.structs.replace(message, version=versions.index(id) + 1, versions=len(versions))
            messages.append(counted)
    return OpenChat(chat=chat, messages=tuple(messages))


def whole_chat(connection: sqlite3.Connection, chat_id: str) -> OpenChat | None:
    """Returns a chat with every message of every branch, in the order of writing; None where there is none."""
    chat = read_chat(connection, chat_id)
    if chat is None:
        return None
    found = (read_message(connection, id) for id in tree(connection, chat_id).parent)
    return OpenChat(chat=chat, messages=tuple(message for message in found if message is not None))


def read_message(connection: sqlite3.Connection, id: str) -> MessageRecord | None:
    """Returns one message; None where there is none, or where its row cannot be read."""
    try:
        row = connection.execute(f"SELECT {_MESSAGE} FROM messages WHERE id = ?", (id,)).fetchone()
    except sqlite3.DatabaseError as error:
        _log.warning("message %s cannot be read: %s", id, error)
        return None
    return None if row is None else _message(row)


def _message(row: sqlite3.Row) -> MessageRecord:
    return MessageRecord(
        id=as_text(row["id"]),
        chat_id=as_text(row["chat_id"]),
        parent_id=None if row["parent_id"] is None else as_text(row["parent_id"]),
        role=_one_of(Role, row["role"], Role.ASSISTANT),
        content=as_text(row["content"]),
        created=as_number(row["created"]),
        state=_one_of(MessageState, row["state"], MessageState.DONE),
        model=as_text(row["model"]),
        receipt=_json(row["receipt"], Receipt),
        error=_json(row["error"], ErrorInfo),
        pinned=bool(as_number(row["pinned"])),
    )


def tolerant(
    connection: sqlite3.Connection, query: str, where: str, values: Sequence[Any], keys: str, key_values: Any = ()
) -> list[sqlite3.Row]:
    """Returns all rows of `query`, or, where a page of the file is damaged, those that can be read one by one.

    `keys` lists the rows' numbers without touching the rows, by walking an index.
    """
    try:
        return connection.execute(query.format(where=where), values).fetchall()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        _log.warning("reading rows one by one: %s", error)
    one = query.format(where=f"seq = ? AND ({where})")
    return [row for key in _keys(connection, keys, key_values) for row in _one_row(connection, one, (key, *values))]


def _keys(connection: sqlite3.Connection, query: str, values: Any) -> Iterator[int]:
    cursor = connection.execute(query, values)
    try:
        while (row := cursor.fetchone()) is not None:
            yield row[0]
    except sqlite3.DatabaseError as error:
        _log.warning("the list of rows ends early: %s", error)


def _one_row(connection: sqlite3.Connection, query: str, values: Sequence[Any]) -> list[sqlite3.Row]:
    try:
        return connection.execute(query, values).fetchall()
    except sqlite3.DatabaseError as error:
        _log.warning("row %d cannot be read: %s", values[0], error)
        return []


def as_text(value: Any) -> str:
    """Returns a stored value as text, whatever a damaged file holds in its place."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def as_number(value: Any) -> float:
    """Returns a stored value as a number, 0 where it is none."""
    return float(value) if isinstance(value, int | float) else 0.0


def _one_of(kind: type[_T], value: Any, otherwise: _T) -> _T:
    try:
        return kind(value)  # type: ignore[call-arg]
    except ValueError:
        return otherwise


def _json(value: Any, kind: type[_T]) -> _T | None:
    if not value:
        return None
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.DecodeError, TypeError) as error:
        _log.warning("a stored %s cannot be read: %s", kind.__name__, error)
        return None
