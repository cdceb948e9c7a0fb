"""Kills one window after the other on one profile, each in the middle of something else, and looks at what is left.

The profile grows with every kill, and everything that was ever finished is held against it each time.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import time
from pathlib import Path
from typing import Any

import psutil

import tiny_gguf
from desktop.store.database import ChatDatabase
from desktop.store.exchange import as_json
from desktop.store.records import ChatRecord, MessageRecord, OpenChat, new_id
from desktop.store.schema import MIGRATIONS
from driven_window import DrivenWindow
from lived_time import clock, seconds_to_end
from runtime.messages import Role
from user_ledger import Ledger

MOMENTS = ("streaming", "editing", "deleting", "importing", "migrating", "converting", "regenerating", "starting",
           "sending", "renaming", "loading")  # fmt: skip
_IMPORTED = 400  # messages
_PATIENCE = 60.0  # seconds, on a machine that is busy otherwise
_TURNS = 3  # finished before the moment comes
_SCRIPT = {"echo": True, "delay": 0.01}
_LOADING = {"load_seconds": 30.0}
_UNREADY = ("migrating", "starting", "loading")


class Kills:
    """A profile, what is known to be finished in it, how long each start took, and the end of a window's children."""

    def __init__(self, folder: Path) -> None:
        self.home, self._folder = folder / "profile", folder
        self.ledger, self.starts, self.ends = Ledger(), [0.0], [0.0]
        self._draw = random.Random(7)
        self._told = 0
        self._last_sent = (0.0, "")
        self._seen: list[tuple[float, str, str]] = []  # moment, message's id, text so far
        self._model = tiny_gguf.write_tiny(folder / "Tiny-F32.gguf", n_layers=8)
        self._window: DrivenWindow

    @property
    def _database(self) -> Path:
        return self.home / "chats.db"

    def kill_once(self, number: int) -> None:
        """Opens a window, finishes something, begins something else, kills the window in it, and looks."""
        moment = MOMENTS[number % len(MOMENTS)]
        self._seen.clear()
        self._last_sent = (0.0, "")
        if moment == "migrating" and self._database.exists():
            self._grow_old()
        self._open(**_LOADING if moment == "loading" else {})
        if moment not in _UNREADY:
            self._finish_some()
            getattr(self, f"_{moment}")()
        else:
            if moment == "loading":
                self._window.until(lambda state: state["engine"] == "loading")
            time.sleep(self._draw.uniform(0, 0.4))
        self._kill()
        self._look(moment)

    # --- before the moment -----------------------------------------------------------------------------------------

    def _open(self, **changes: Any) -> None:
        started = clock().now()
        self._window = DrivenWindow(self.home, script={**_SCRIPT, **changes}, PYTHONPATH=os.pathsep.join(_paths()))
        self._window.until(lambda state: state["engine"] != "not yet")
        self.starts.append(self._window.lived() - started)

    def _finish_some(self) -> None:
        self._window.ready()
        self._window.do("new")
        for _ in range(_TURNS):
            self._send()
            state = self._window.until(lambda state: state["states"] and state["states"][-1] == "complete")
        self._note_ended(state)

    def _send(self, words: int = 3) -> dict[str, Any]:
        self._told += 1
        text = f"m{self._told} " + "word " * words
        state = self._window.do("send", text=text.strip())
        self.ledger.send(text.strip(), state["chat"])
        self._last_sent = (self._window.lived(), text.strip())
        return state

    def _note_ended(self, state: dict[str, Any]) -> None:
        for id, text, how in zip(state["ids"], state["texts"], state["states"], strict=True):
            if how == "complete":
                self.ledger.end(id, state["chat"], text)

    def _grow_old(self) -> None:
        """Puts the chats into a file of the first format, as an early version would have left it."""
        old = self._database.with_name("old.db")
        with contextlib.closing(sqlite3.connect(old, isolation_level=None)) as connection:
            connection.executescript(f"{MIGRATIONS[0]}; PRAGMA user_version = 1;")
            connection.execute("ATTACH ? AS new", (str(self._database),))
            for table in ("chats", "messages"):
                columns = ", ".join(row[1] for row in connection.execute(f"PRAGMA main.table_info({table})"))
                connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}")
        for suffix in ("-wal", "-shm"):
            self._database.with_name(self._database.name + suffix).unlink(missing_ok=True)
        old.replace(self._database)

    # --- the moments -----------------------------------------------------------------------------------------------

    def _streaming(self) -> None:
        self._send(words=400)
        self._watch(self._draw.uniform(0.1, 3.0))

    def _editing(self) -> None:
        state = self._window.do("look")
        self._told += 1
        text = f"m{self._told} edited " + "word " * 100
        self.ledger.send(text.strip(), state["chat"])
        self._last_sent = (self._window.lived(), text.strip())
        self._window.do("edit", id=state["ids"][2], text=text.strip())
        self._watch(self._draw.uniform(0, 1.5))

    def _regenerating(self) -> None:
        state = self._window.do("look")
        self._window.do("regenerate", id=state["ids"][-1])
        self._watch(self._draw.uniform(0, 0.1))

    def _deleting(self) -> None:
        chat = self._send(words=50)["chat"]
        self._watch(self._draw.uniform(0, 0.3))
        self.ledger.deleted.append(chat)
        self._window.do("delete", chat=chat)
        if self._draw.random() < 0.5:
            self._window.do("restore", chat=chat)
        time.sleep(self._draw.uniform(0, 0.05))

    def _importing(self) -> None:
        path = self._folder / "chat.json"
        path.write_bytes(as_json([self._foreign_chat()]))
        self._window.do("import", path=str(path))
        time.sleep(self._draw.uniform(0, 0.3))

    def _foreign_chat(self) -> OpenChat:
        chat, messages, parent = new_id(), [], None
        for number in range(_IMPORTED):
            self._told += 1
            role = (Role.USER, Role.ASSISTANT)[number % 2]
            text = f"m{self._told} from elsewhere"
            messages.append(MessageRecord(id=new_id(), chat_id=chat, parent_id=parent, role=role, content=text,
                                          created=float(number)))  # fmt: skip
            parent = messages[-1].id
            self.ledger.sent[text] = [chat]
            self.ledger.dropped.append(text)  # all of it comes, or nothing
        return OpenChat(chat=ChatRecord(id=chat, title="From elsewhere", leaf=parent), messages=tuple(messages))

    def _converting(self) -> None:
        target = self._folder / f"converted-{self._told}.gguf"
        self._window.do("convert", path=str(self._model), target=str(target))
        self._send(words=100)
        self._watch(self._draw.uniform(0.2, 3.0))

    def _sending(self) -> None:
        self._send()
        time.sleep(self._draw.uniform(0, 0.05))

    def _renaming(self) -> None:
        for number in range(20):
            self._window.do("rename", text=f"Name {number}")
            self._window.do("draft", text=f"a draft {number}")

    def _watch(self, seconds: float) -> None:
        until = clock().now() + seconds
        while clock().now() < until:
            state = self._window.do("look")
            self._note_ended(state)
            if state["ids"]:
                self._seen.append((self._window.lived(), state["ids"][-1], state["texts"][-1]))
            time.sleep(0.02)

    # --- after it --------------------------------------------------------------------------------------------------

    def _kill(self) -> None:
        family = psutil.Process(self._window.process.pid).children(recursive=True)
        self._killed_at = self._window.lived()
        self._window.kill()
        if self._last_sent[0] > self._killed_at - 1.0:
            self.ledger.dropped.append(self._last_sent[1])  # as of the answer, the last second may be missing
        self.ends.append(seconds_to_end(family, _PATIENCE))

    def _look(self, moment: str) -> None:
        """Opens the file as the next start does."""
        if not self._database.exists():
            return
        with contextlib.closing(_connected(self._database)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok", moment
            gone = [row[0] for row in connection.execute("SELECT id FROM chats WHERE deleted IS NOT NULL")]
        self.ledger.gone += gone
        with contextlib.closing(ChatDatabase(self._database)) as database:
            database.recover()
        assert self.ledger.faults(self._database) == [], moment
        self._check_partial(moment)
        assert "fatal_models" not in self._remembered(), moment
        assert list(self._folder.glob("*.part*")) == [], moment
        assert list(self._folder.glob("*.tmp*")) == [], moment

    def _remembered(self) -> dict[str, Any]:
        """A killed window took its engine along: that is no fault of the model, which the next start loads."""
        file = self.home / "state.json"
        return dict(json.loads(file.read_bytes())) if file.exists() else {}

    def _check_partial(self, moment: str) -> None:
        known = [(id, text) for at, id, text in self._seen if at <= self._killed_at - 1.0]
        with contextlib.closing(_connected(self._database)) as connection:
            rows = dict(connection.execute("SELECT id, content FROM messages").fetchall())
            chats = dict(connection.execute("SELECT id, chat_id FROM messages").fetchall())
        for id, text in known:
            if chats.get(id) not in self.ledger.gone and text:
                assert rows.get(id, "").startswith(text), f"{moment}: more than a second was lost"


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=10)


def _paths() -> tuple[str, ...]:
    root = Path(__file__).resolve().parents[2]
    return str(root), str(root / "tests" / "support")
