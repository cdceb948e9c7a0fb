"""The inside of a random user's window: takes one action after the other and looks at everything after each.

Runs in the process of the window (`random_user.py`). What must never happen is gathered as sentences: an exception, a
complaint of Qt, a turn of the event loop that takes too long, a message that is lost, a damaged database.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import signal
import sys
from pathlib import Path
from random import Random
from typing import Any

from PySide6.QtCore import QTimer
from PySide6.QtGui import QDesktopServices

import runtime.starter
import scripted_engine
from desktop import app, application
from loop_watch import LoopWatch
from user_actions import Actions
from user_ledger import Ledger

SLOWEST_MS = 400  # of the window's thread in one turn of its loop; far over what is aimed at, for slow machines
_SLOWEST_PIECES = 200  # and as much as so many times a known piece of work (`LoopWatch.pace`), which is 400 ms at rest
_PAUSES = (0, 0, 1, 5, 20, 60, 250)  # milliseconds until the next action
_TRIES = 3
_FIRST_MS = 600  # the window is built, and the model is on its way
_KNOWN = ("This plugin does not support",)  # the offscreen platform


class UserWindow:
    """One window, from its opening to its end."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._home = Path(plan["home"])
        self._ledger_file = self._home.parent / "ledger.json"
        self._ledger = Ledger.read(self._ledger_file)
        self._next: int = plan["first"]
        self._done: list[str] = []
        self._faults: list[str] = []
        self._answers: dict[int, Any] = {}
        self._killed = self._closing = False
        _use_fakes(Path(plan["models"]), plan["seed"])
        self._opening = app.Opening()
        self._watch = LoopWatch()
        self._actions = Actions(self._opening, Path(plan["models"]))
        self._opening.shell.furnished.connect(self._begin)

    def run(self) -> int:
        """Opens the window and returns its exit code when it has ended."""
        self._listen_for_failures()
        code = self._opening.run()
        self._watch.close()
        if self._next >= self._plan["actions"] or self._closing:
            self._faults += self._ledger.faults(self._database)
            self._ledger.note_end(self._database)
        self._say()
        return code

    @property
    def _database(self) -> Path:
        return self._home / "chats.db"

    # --- listening -------------------------------------------------------------------------------------------------

    def _listen_for_failures(self) -> None:
        logging.getLogger().addHandler(_Complaints(self._faults))
        sys.unraisablehook = lambda it: self._faults.append(f"unraisable: {it.exc_value!r} in {it.object!r}")

    def _begin(self) -> None:
        parts = self._opening.application.parts
        parts.client.text.connect(self._note_text)
        parts.client.finished.connect(lambda id, _finished: self._note_end(id))
        parts.client.failed.connect(lambda id, _error: self._note_end(id))
        self._opening.application.failures.happened.connect(self._note_failure)
        QTimer.singleShot(_FIRST_MS, self._act)

    def _note_failure(self, error: Any) -> None:
        if error.code == "bug":
            self._faults.append(f"{error.title} {error.details}")

    def _note_text(self, id: int, _text: str, _count: int) -> None:
        running = self._opening.application.parts.session._answers
        if id in running:
            self._answers[id] = running[id]

    def _note_end(self, id: int) -> None:
        if (answer := self._answers.pop(id, None)) is not None and answer.text:
            self._ledger.end(answer.message_id, answer.chat_id, answer.text)

    # --- acting ----------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        plan = self._plan
        while self._next < plan["actions"] and plan["only"] is not None and self._next not in plan["only"]:
            self._next += 1
        if self._next >= plan["actions"] or self._faults:
            self._next = max(self._next, plan["actions"] if self._faults else 0)
            self._drop("\n".join(self._written()))
            self._opening.shell.close_now()
            return
        number, self._next = self._next, self._next + 1
        self._hear_window()
        name = self._actions.take(number, plan["seed"])
        self._done.append(f"{number} {name}")
        if name == "die":
            self._die()
        elif name == "close":
            self._closing = True
        else:
            pause = Random(f"{plan['seed']}:{number}:pause").choice(_PAUSES)
            QTimer.singleShot(pause, self._look)

    def _hear_window(self) -> None:
        """Connects to the window that stands now: another language brings another."""
        window = self._opening.application.window
        if window.property("heard"):
            return
        window.setProperty("heard", True)
        window.composing.composer.send_requested.connect(self._note_sent)
        window.empty.prompt_chosen.connect(self._note_sent)
        window.sidebar.delete_requested.connect(self._ledger.deleted.append)

    def _note_sent(self, text: str) -> None:
        """Notes what was sent; what could not be sent now stays in the field, and may be changed there."""
        if self._opening.application.window.composing.composer.draft.message != text:
            self._ledger.send(text, self._opening.application.parts.session.chat_id)

    def _die(self) -> None:
        """What is still in the field is no message yet; the last half second of it may go."""
        self._drop("\n".join(self._written()))
        for answer in self._answers.values():
            self._ledger.cut(answer.message_id)
        self._ledger.note_end(self._database)
        self._killed = True
        self._say()
        os.kill(os.getpid(), signal.SIGKILL)

    def _written(self) -> list[str]:
        """Returns what stands in the field, or comes back to it."""
        composing = self._opening.application.window.composing
        edits = [draft.message for _id, draft in composing._edits.values()]
        return [composing.composer.draft.message, composing._before_editing.message, *edits]

    def _drop(self, written: str) -> None:
        self._ledger.dropped += [text for text in self._ledger.sent if text in written]

    # --- looking ---------------------------------------------------------------------------------------------------

    def _look(self, tries: int = _TRIES) -> None:
        """Looks at the file once everything that was asked of it so far is done."""
        self._opening.application.parts.store.list_chats(lambda _chats: self._check(tries))

    def _check(self, tries: int) -> None:
        """What was sent in this very moment is still on its way to the file: only what stays lost is lost."""
        parts = self._opening.application.parts
        waiting = [text for texts in parts.session.waiting._texts.values() for text in texts]
        with self._watch.paused():
            self._ledger.give_back(self._written())
            found = self._ledger.faults(self._database, [*self._written(), *waiting])
        if found and tries:
            self._look(tries - 1)
            return
        self._faults += found
        self._check_turns()
        self._act()

    def _check_turns(self) -> None:
        if self._watch.longest > SLOWEST_MS:
            longest, where, pace = self._watch.longest, self._watch.where, self._watch.pace()
            self._watch.forget()
            if longest > _SLOWEST_PIECES * pace:
                self._faults.append(f"{longest:.0f} ms in one turn, {longest / pace:.0f} pieces of work: {where}")

    def _say(self) -> None:
        self._ledger.keep(self._ledger_file)
        said = {"next": self._next, "done": self._done, "faults": self._faults, "killed": self._killed,
                "slowest": self._watch.longest, "where": self._watch.where}  # fmt: skip
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


class _Complaints(logging.Handler):
    """Errors that were logged, and whatever Qt complains about."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "qt" or record.levelno >= logging.ERROR:
            text = self.format(record)
            if not any(known in text for known in _KNOWN):
                self._faults.append(f"logged by {record.name}: {text}")


def _use_fakes(models: Path, seed: int) -> None:
    """A scripted engine that does what messages say, models of our own as the starter, and no other program opened."""
    moods = Random(seed)
    scripts: tuple[dict[str, Any], ...] = (
        {}, {}, {}, {"load_seconds": 0.5}, {"load_crash": "SIGSEGV"}, {"load_error": "It cannot be loaded."},
        {"start_crash": "abort"}, {"save_seconds": 0.3},
    )  # fmt: skip

    def command() -> list[str]:
        return scripted_engine.command(echo=True, obedient=True, delay=0.005, **moods.choice(scripts))

    application.EngineClient = functools.partial(  # type: ignore[misc, assignment]
        application.EngineClient, command=command, stop_seconds=0.5, close_seconds=0.5
    )
    runtime.starter._folders = lambda: iter([models])
    QDesktopServices.openUrl = lambda _url: True  # type: ignore[method-assign]
