"""Keeps what the model has read of long chats, so that a chat that is opened again need not be read again.

What a chat left in the engine is saved when the person leaves it, and taken back before its next answer. Short chats
are read again faster than that would pay. The files lie in the folder of caches, the oldest go when they grow too
many, and losing them costs time and nothing else. Knows no message.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Slot

from desktop.background import Background
from desktop.engine_client import EngineClient
from runtime.places import UnwritablePlace, make_folder
from runtime.protocol import StateSaved

MOST_BYTES = 2 << 30
LEAST_TOKENS = 1000
_ENDING = ".state"


class KeptStates(QObject):
    """The saved states of chats. All work on files is done by a thread or by the engine."""

    def __init__(
        self, client: EngineClient, folder: Path, *, most_bytes: int = MOST_BYTES, least_tokens: int = LEAST_TOKENS,
        parent: QObject | None = None,
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self._client, self._folder = client, folder
        self._most_bytes, self._least_tokens = most_bytes, least_tokens
        self._known: set[str] = set()
        self._held = ""  # the chat whose tokens the engine holds
        self._unsaved: set[str] = set()
        self._saving: dict[int, str] = {}  # the file's name by the command's id
        self._forgotten: set[int] = set()  # those of them whose chats were deleted meanwhile
        self._background = Background(self)
        client.loaded.connect(self._forget_held)
        client.crashed.connect(self._forget_held)
        client.state_saved.connect(self._take_saved)
        self._in_background(lambda: _tidied(folder, most_bytes))

    def before_answer(self, chat_id: str) -> None:
        """Has the engine take a chat's state back, where it holds another chat; to be called before it is asked."""
        name = self._name(chat_id)
        if self._held != chat_id and name in self._known:
            self._client.load_state(self._folder / name)
        self._held = chat_id

    def answered(self, chat_id: str, context_used: int) -> None:
        """Notes that the engine now holds so many tokens of a chat."""
        self._held = chat_id
        if context_used >= self._least_tokens:
            self._unsaved.add(chat_id)

    def left(self, chat_id: str) -> None:
        """Saves what the engine holds of a chat that is no longer shown, where that is worth it and it is free."""
        if chat_id not in self._unsaved or chat_id != self._held:
            return
        name = self._name(chat_id)
        number = self._client.save_state(self._folder / name)
        if number:
            self._unsaved.discard(chat_id)
            self._saving[number] = name

    def leave_held(self, *, besides: str) -> None:
        """Saves what the engine holds of anything else, because `besides` is about to take its place."""
        if self._held != besides:
            self.left(self._held)

    def forget(self, chat_id: str) -> None:
        """Deletes what was kept of a chat, and is being kept."""
        self._unsaved.discard(chat_id)
        self._forgotten.update(number for number, name in self._saving.items() if name.startswith(chat_id))
        self._known = {name for name in self._known if not name.startswith(chat_id)}
        self._in_background(lambda: _without(self._folder, chat_id))

    def _name(self, chat_id: str) -> str:
        model = self._client.wanted[0] if self._client.wanted is not None else ""
        key = hashlib.blake2b(model.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        return f"{chat_id}-{key}{_ENDING}"

    @Slot()
    def _forget_held(self, *_what: object) -> None:
        self._held = ""

    @Slot(int, object)
    def _take_saved(self, number: int, saved: StateSaved) -> None:
        name = self._saving.pop(number, "")
        if number in self._forgotten:
            self._forgotten.remove(number)
            self._in_background(lambda: _without(self._folder, name.rpartition("-")[0]))
        elif name and saved.tokens:
            self._known.add(name)
            self._in_background(lambda: _tidied(self._folder, self._most_bytes))

    def _take_listed(self, names: frozenset[str]) -> None:
        self._known = set(names)

    def _in_background(self, work: Callable[[], frozenset[str]]) -> None:
        """Runs work on files; it returns the names of those that are there then."""
        self._background.run(work, self._take_listed)


def _without(folder: Path, chat_id: str) -> frozenset[str]:
    with contextlib.suppress(OSError):
        for file in folder.glob(f"{chat_id}-*{_ENDING}"):
            file.unlink(missing_ok=True)
    return _names(folder)


def _tidied(folder: Path, most_bytes: int) -> frozenset[str]:
    """Deletes the oldest files beyond so many bytes, and what was never finished; returns the names of the others."""
    from runtime.saved_state import remove_remains  # not before the window's first paint

    with contextlib.suppress(OSError, UnwritablePlace):
        make_folder(folder)
        remove_remains(folder)
        total = 0
        for file in sorted(folder.glob(f"*{_ENDING}"), key=lambda file: file.stat().st_mtime, reverse=True):
            total += file.stat().st_size
            if total > most_bytes:
                file.unlink(missing_ok=True)
    return _names(folder)


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(file.name for file in folder.glob(f"*{_ENDING}"))
    except OSError:
        return frozenset()
