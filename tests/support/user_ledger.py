"""What a random user may rely on: every message that was sent or shown as finished is in the database. Knows no Qt.

The ledger is kept beside the window, from what was typed and what was shown, and held against the file itself. It
outlives the window: the next one, after a close or a kill, goes on with it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Ledger:
    """What is known to have been written."""

    sent: dict[str, list[str]] = field(default_factory=dict)  # a text that was sent: into which chats
    dropped: list[str] = field(default_factory=list)  # texts that the person took back or cleared
    returned: list[str] = field(default_factory=list)  # texts that came back to the field, where more may be typed in
    ended: dict[str, tuple[str, str]] = field(default_factory=dict)  # message's id: its chat, its whole text
    begun: dict[str, tuple[str, str]] = field(default_factory=dict)  # the same, of answers that went on when killed
    deleted: list[str] = field(default_factory=list)  # chats that the person deleted
    gone: list[str] = field(default_factory=list)  # of them, those that an earlier window forgot at its end

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Returns a kept ledger, or an empty one."""
        return cls(**json.loads(path.read_text())) if path.exists() else cls()

    def keep(self, path: Path) -> None:
        """Writes it for the next window."""
        path.write_text(json.dumps(asdict(self)))

    def send(self, text: str, chat: str) -> None:
        """Notes that a text was sent once more."""
        self.sent.setdefault(text, []).append(chat)

    def give_back(self, written: Iterable[str]) -> None:
        """Notes which texts that were sent stand in what is written now."""
        fields = tuple(written)
        self.returned += [
            text for text in self.sent
            if text not in self.returned and any(text in field for field in fields)
        ]  # fmt: skip

    def end(self, id: str, chat: str, text: str) -> None:
        """Notes that an answer has ended with this text."""
        self.begun.pop(id, None)
        self.ended[id] = (chat, text)

    def cut(self, id: str) -> None:
        """Notes that an answer that went on is about to be killed: more may be there, but not less."""
        if id in self.ended:
            self.begun[id] = self.ended.pop(id)

    def note_end(self, database: Path) -> None:
        """Notes which chats the next window will no longer have."""
        with closing(_reader(database)) as connection:
            self.gone += [row[0] for row in connection.execute("SELECT id FROM chats WHERE deleted IS NOT NULL")]

    def faults(self, database: Path, unsent: Iterable[str] = ()) -> list[str]:
        """Returns what is wrong with the file, in sentences; `unsent` are texts that wait or are being written."""
        with closing(_reader(database)) as connection:
            found = [
                f"the database is damaged: {row[0]}"
                for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"
            ]  # fmt: skip
            rows = {row["id"]: row for row in connection.execute("SELECT * FROM messages")}
            drafts = [text for row in connection.execute("SELECT draft, edit FROM chats") for text in row]
            deleted = [row[0] for row in connection.execute("SELECT id FROM chats WHERE deleted IS NOT NULL")]
        found += [f"chat {id} was deleted by nobody" for id in deleted if id not in self.deleted]
        contents = {id: row["content"] for id, row in rows.items()}
        found += self._lost_answers(contents)
        asked = [row["content"] for row in rows.values() if row["role"] == "user"]
        return found + self._questions(asked, [*drafts, *unsent])

    def _lost_answers(self, contents: dict[str, str]) -> list[str]:
        ended = {id: item for id, item in self.ended.items() if contents.get(id) != item[1]}
        begun = {id: item for id, item in self.begun.items() if not contents.get(id, "").startswith(item[1])}
        return [
            f"answer {id} of chat {chat} was {_short(text)} and is {_short(contents.get(id))}"
            for id, (chat, text) in {**ended, **begun}.items() if chat not in self.gone
        ]  # fmt: skip

    def _questions(self, asked: list[str], elsewhere: list[str]) -> list[str]:
        found = [
            f"never sent so often: {_short(text)}"
            for text in set(asked) if asked.count(text) > len(self.sent.get(text, ()))
        ]  # fmt: skip
        for text, chats in self.sent.items():
            excused = text in self.dropped or set(chats) <= set(self.gone)
            kept = text in asked or any(text in other for other in (*asked, *elsewhere))
            if text in self.returned:
                kept = kept or any(_holds_all(other, text) for other in (*asked, *elsewhere))
            if not kept and not excused:
                like = [_short(other) for other in (*asked, *elsewhere) if text.split()[0] in other]
                found.append(f"lost: {_short(text)}, of chats {chats}; nearest: {like}")
        return found


def _holds_all(grown: str, text: str) -> bool:
    """Whether nothing of a text is missing in one that may have grown at its ends and within; spaces do not count."""
    letters = iter(grown)
    return all(letter in letters for letter in text if not letter.isspace())


def _short(text: str | None) -> str:
    return repr(text) if text is None or len(text) < 200 else f"{text[:100]!r} … {text[-100:]!r} ({len(text)})"


def _reader(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=10)
    connection.row_factory = sqlite3.Row
    return connection
