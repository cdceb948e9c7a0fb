"""Full-text search over messages and titles: an FTS5 trigram index where SQLite has one, a scan where it has not.

Trigrams find any three characters in a row, so Chinese needs no word list; shorter words are looked up by a scan.
"""

from __future__ import annotations

import sqlite3

from desktop.store.reading import MESSAGE_KEYS, as_number, as_text, tolerant
from desktop.store.records import SearchHit, clean_text

LIMIT = 50
_BEFORE, _AFTER = 12, 120  # characters shown around the first match, which a narrow list must still show

_FOUND = f"""
    SELECT found.*, chats.title, chats.updated
    FROM (SELECT seq, id, chat_id, content FROM messages WHERE {{where}}) AS found
    JOIN chats ON chats.id = found.chat_id
    WHERE chats.deleted IS NULL ORDER BY found.seq DESC LIMIT {LIMIT}
"""
_CREATE = """
    CREATE VIRTUAL TABLE IF NOT EXISTS message_index
    USING fts5(content, content='messages', content_rowid='seq', tokenize='trigram')
"""
_TRIGGERS = {
    "message_index_insert": """AFTER INSERT ON messages BEGIN
        INSERT INTO message_index(rowid, content) VALUES (new.seq, new.content);
    END""",
    "message_index_delete": """AFTER DELETE ON messages BEGIN
        INSERT INTO message_index(message_index, rowid, content) VALUES ('delete', old.seq, old.content);
    END""",
    "message_index_update": """AFTER UPDATE OF content ON messages BEGIN
        INSERT INTO message_index(message_index, rowid, content) VALUES ('delete', old.seq, old.content);
        INSERT INTO message_index(rowid, content) VALUES (new.seq, new.content);
    END""",
}


def prepare(connection: sqlite3.Connection) -> bool:
    """Makes the index and what keeps it current; returns False where this SQLite has no trigram index.

    A file that was used by such a SQLite in between gets its index anew.
    """
    connection.create_function("fold", 1, fold, deterministic=True)
    present = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
    if not _has_trigram(connection):
        for name in _TRIGGERS.keys() & present:
            connection.execute(f"DROP TRIGGER {name}")
        return False
    if not _TRIGGERS.keys() <= present:
        _rebuild(connection)
    return True


def _rebuild(connection: sqlite3.Connection) -> None:
    connection.execute(_CREATE)
    for name, body in _TRIGGERS.items():
        connection.execute(f"CREATE TRIGGER IF NOT EXISTS {name} {body}")
    connection.execute("INSERT INTO message_index(message_index) VALUES ('rebuild')")


def _has_trigram(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("CREATE VIRTUAL TABLE temp.trigram_probe USING fts5(x, tokenize='trigram')")
        connection.execute("DROP TABLE temp.trigram_probe")
    except sqlite3.OperationalError:
        return False
    return True


def search(connection: sqlite3.Connection, text: str, *, indexed: bool) -> list[SearchHit]:
    """Returns where all words of `text` occur, titles first, then the latest messages; at most `LIMIT` of each."""
    words = words_of(text)
    if not words:
        return []
    return _titles(connection, words) + _messages(connection, words, indexed=indexed)


def _titles(connection: sqlite3.Connection, words: list[str]) -> list[SearchHit]:
    query = f"""
        SELECT id AS chat_id, title, updated FROM chats
        WHERE deleted IS NULL AND {contains("title", words)} ORDER BY updated DESC LIMIT {LIMIT}
    """
    return [
        _hit(row, None, as_text(row["title"]))
        for row in connection.execute(query, [fold(word) for word in words])
    ]


def _messages(connection: sqlite3.Connection, words: list[str], *, indexed: bool) -> list[SearchHit]:
    long = [word for word in words if len(word) >= 3] if indexed else []
    short = [word for word in words if word not in long]
    conditions = [contains("content", short)] if short else []
    values = [fold(word) for word in short]
    if long:
        conditions.append("seq IN (SELECT rowid FROM message_index WHERE message_index MATCH ?)")
        values.append(" ".join('"' + word.replace('"', '""') + '"' for word in long))
    rows = tolerant(connection, _FOUND, " AND ".join(conditions), values, MESSAGE_KEYS)
    return [_hit(row, as_text(row["id"]), excerpt(as_text(row["content"]), words)) for row in rows[:LIMIT]]


def _hit(row: sqlite3.Row, message_id: str | None, snippet: str) -> SearchHit:
    return SearchHit(
        chat_id=as_text(row["chat_id"]),
        title=as_text(row["title"]),
        message_id=message_id,
        snippet=snippet,
        updated=as_number(row["updated"]),
    )


def words_of(text: str) -> list[str]:
    """Returns the words that are searched for."""
    return clean_text(text).replace("\0", " ").split()


def contains(column: str, words: list[str]) -> str:
    """Returns the condition that a column holds each word, in any case; the values are the folded words."""
    return " AND ".join([f"instr(fold({column}), ?) > 0"] * len(words))


def fold(text: object) -> str:
    """Returns text in which upper and lower case are the same."""
    return text.casefold() if isinstance(text, str) else ""


def excerpt(content: str, words: list[str]) -> str:
    """Returns one line of text around the first word found, with an ellipsis where something was left out."""
    folded = content.lower()
    at = min((found for found in (folded.find(word.lower()) for word in words) if found >= 0), default=0)
    start, end = max(0, at - _BEFORE), at + _AFTER
    cut = " ".join(content[start:end].split())
    return ("…" if start else "") + cut + ("…" if end < len(content) else "")
