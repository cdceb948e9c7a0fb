"""Writes a small profile with the present code, to be kept for the tests of later versions.

Run it when the chats' format has got a new number, before that version is released:

    PYTHONPATH=. python tests/support/golden_profile.py tests/desktop/store/profiles/v7
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from desktop.store.database import ChatDatabase
from desktop.store.notebooks import SaveNotebook
from desktop.store.records import ChatRecord, Edit, MessageRecord, MessageState, NotebookRecord, Receipt
from runtime.errors import ErrorInfo
from runtime.messages import Role
from runtime.saved_settings import SavedSettings


def write_profile(folder: Path) -> None:
    """Writes chats.db and settings.json to a folder that has neither."""
    folder.mkdir(parents=True)
    with closing(ChatDatabase(folder / "chats.db")) as database:
        _write_long_chat(database)
        _write_other_chats(database)
        database.pin_messages(["q1"], True)
        database.set_draft("second", "", Edit("b1", "Rye, wheat"))
        database.keep_receipt("a1", Receipt(reason="end", seed=7))
        book = NotebookRecord(id="n", title="Notes", text="Grain by grain", created=1.0, updated=2.0, mark=(6, 8))
        SaveNotebook(book)(database)
    with closing(sqlite3.connect(folder / "chats.db")) as raw:
        raw.execute("PRAGMA journal_mode=DELETE")
        raw.execute("VACUUM")
    saved = SavedSettings().with_layer("app", {"theme": "dark", "language": "zh_CN"})
    saved = saved.with_layer("sampling", {"temperature": 0.3, "stop": ["END"]})
    saved = saved.with_layer("load", {"context_length": 2048})
    saved.with_layer("sampling", {"top_k": 7}, model="/models/a.gguf").write(folder / "settings.json")


def _write_long_chat(database: ChatDatabase) -> None:
    database.create_chat(ChatRecord(
        id="long", title="Mühlen 磨坊 🌾", created=1000.0, updated=1000.0, system_prompt="Be brief.",
        draft="not sent yet",
    ))  # fmt: skip
    receipt = Receipt(reason="end", seed=7, usage={"generated_tokens": 5}, sampling={"temperature": 0.5})
    _say(database, "q1", Role.USER, "Why do querns have grooves?")
    _say(database, "a1", Role.ASSISTANT, "They cut the grain.", "q1", model="SmolLM2", receipt=receipt)
    _say(database, "a2", Role.ASSISTANT, "因为要磨碎谷物。", "q1", model="SmolLM2")
    _say(database, "q2", Role.USER, "And then?", "a2")
    error = ErrorInfo(title="The engine ended unexpectedly.", code="engine_fault")
    _say(database, "a3", Role.ASSISTANT, "", "q2", state=MessageState.FAILED, error=error)
    _say(database, "q3", Role.USER, "Go on", "a3")
    _say(database, "a4", Role.ASSISTANT, "", "q3", state=MessageState.WRITING)
    database.append_answer("a4", "The flour runs ")
    database.append_answer("a4", "out at the rim")


def _write_other_chats(database: ChatDatabase) -> None:
    database.create_chat(ChatRecord(id="second", title="Bread", created=2000.0, updated=2000.0))
    _say(database, "b1", Role.USER, "Rye or wheat?", chat="second")
    database.pin_chat("second", True)
    database.move_chat("second", "Recipes")
    database.set_settings("second", {"temperature": 0.1})
    database.create_chat(ChatRecord(id="gone", title="Deleted", created=3000.0, updated=3000.0))
    _say(database, "d1", Role.USER, "forget me", chat="gone")
    database.delete_chat("gone", 3001.0)


def _say(
    database: ChatDatabase, id: str, role: Role, text: str, parent: str | None = None, *, chat: str = "long",
    model: str = "", receipt: Receipt | None = None, state: MessageState = MessageState.DONE,
    error: ErrorInfo | None = None,
) -> None:  # fmt: skip
    database.add_message(MessageRecord(
        id=id, chat_id=chat, parent_id=parent, role=role, content=text, created=1000.0 + len(text), state=state,
        model=model, receipt=receipt, error=error,
    ))  # fmt: skip


if __name__ == "__main__":
    write_profile(Path(sys.argv[1]))
