"""Brings the chat database to the window: one thread owns it, calls return at once, answers come back as callbacks.

    store = ChatStore(places().chats_file)
    store.open()
    store.list_chats(lambda chats: …)      # called in the window's thread

Calls are done in the order in which they were made, so a list asked for after a change shows the change.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from PySide6.QtCore import QObject, Signal, Slot

from desktop.store.backups import Backup, list_backups, make_backup, restore
from desktop.store.database import ChatDatabase
from desktop.store.keeper import RETRY_SECONDS, Keeper, Operation, reason
from desktop.store.notebooks import SaveNotebook, delete_notebook, list_notebooks, read_notebook
from desktop.store.records import (
    NO_EDIT,
    ChatRecord,
    ChatSummary,
    Edit,
    MessageRecord,
    MessageState,
    NotebookRecord,
    NotebookSummary,
    OpenChat,
    Receipt,
    SearchHit,
    now,
)
from runtime.errors import ErrorInfo, UserError
from runtime.text import _

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
CLOSE_SECONDS = 2.5


class ChatsUnreadable(UserError):
    """Something of the chats cannot be read from the disk."""

    code = "chats_unreadable"

    def __init__(self, why: str) -> None:
        super().__init__(
            _("A chat could not be read."),
            _("The reason: {reason}.").format(reason=why),
            _("The other chats are not affected."),
        )


class ChatStore(QObject):
    """All chats of one profile. Callbacks get None where the chat is gone or cannot be read."""

    problem = Signal(object)  # ErrorInfo, once each time saving stops working
    saving_again = Signal()  # everything that waited in memory is on disk now
    changed = Signal()  # the list of chats is worth reading again
    _answered = Signal(object, object)  # callback, result

    def __init__(
        self, path: Path | None, parent: QObject | None = None, *, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        """Chats live in the file `path`, or only in memory where it is None."""
        super().__init__(parent)
        self._tasks: queue.SimpleQueue[tuple[bool, Operation[Any], Callable[[Any], None] | None] | None]
        self._tasks = queue.SimpleQueue()
        self._keeper = Keeper(
            path,
            on_problem=lambda error: self.problem.emit(error.info),
            on_saved=self.saving_again.emit,
            retry_seconds=retry_seconds,
        )
        self._thread = threading.Thread(target=self._work, name="chat store", daemon=True)
        self._answered.connect(self._call_back)

    def open(self) -> None:
        """Starts the thread, which opens the file; calls made before that wait for it."""
        self._thread.start()

    def close(self, timeout: float = CLOSE_SECONDS) -> bool:
        """Finishes what was asked for and closes the file; returns False where the disk did not let it in time."""
        self._tasks.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # --- reading ---------------------------------------------------------------------------------------------------

    def list_chats(self, then: Callable[[list[ChatSummary] | None], None]) -> None:
        """Lists the chats, the latest first."""
        self._read(ChatDatabase.list_chats, then)

    def load_chat(self, chat_id: str, then: Callable[[OpenChat | None], None], *, reveal: str | None = None) -> None:
        """Loads a chat with the branch that is shown; with `reveal`, with the branch that holds that message."""
        operation: Operation[OpenChat | None] = lambda database: database.open_chat(chat_id, reveal=reveal)  # noqa: E731
        (self._read if reveal is None else self._write)(operation, then)

    def whole_chat(self, chat_id: str, then: Callable[[OpenChat | None], None]) -> None:
        """Loads a chat with every message of every branch, for an export."""
        self._read(lambda database: database.whole_chat(chat_id), then)

    def search(self, text: str, then: Callable[[list[SearchHit] | None], None]) -> None:
        """Finds where all words of `text` occur, in titles and messages."""
        self._read(lambda database: database.search(text), then)

    # --- chats -----------------------------------------------------------------------------------------------------

    def create_chat(self, chat: ChatRecord) -> None:
        self._write(lambda database: database.create_chat(chat), changed=True)

    def rename_chat(self, chat_id: str, title: str) -> None:
        self._write(lambda database: database.rename_chat(chat_id, title), changed=True)

    def delete_chat(self, chat_id: str) -> None:
        """Takes a chat out of the list; `restore_chat` undoes it until Quern is closed."""
        at = now()
        self._write(lambda database: database.delete_chat(chat_id, at), changed=True)

    def restore_chat(self, chat_id: str) -> None:
        self._write(lambda database: database.restore_chat(chat_id), changed=True)

    def pin_chat(self, chat_id: str, pinned: bool) -> None:
        """Keeps a chat above all others, or lets it go down again."""
        self._write(lambda database: database.pin_chat(chat_id, pinned), changed=True)

    def move_chat(self, chat_id: str, folder: str) -> None:
        """Puts a chat into a folder; the empty name takes it out of any."""
        self._write(lambda database: database.move_chat(chat_id, folder), changed=True)

    def set_settings(self, chat_id: str, settings: dict[str, Any]) -> None:
        """Keeps the settings that are a chat's own."""
        self._write(lambda database: database.set_settings(chat_id, settings))

    def import_chat(self, found: OpenChat, then: Callable[[str | None], None] | None = None) -> None:
        """Adds a chat from elsewhere with its messages. `then` gets its id, or None where that failed."""
        self._write(lambda database: database.import_chat(found), then, changed=True)

    def set_system_prompt(self, chat_id: str, text: str) -> None:
        self._write(lambda database: database.set_system_prompt(chat_id, text))

    def set_draft(self, chat_id: str, text: str, edit: Edit = NO_EDIT) -> None:
        """Keeps what is typed and not sent yet."""
        self._write(lambda database: database.set_draft(chat_id, text, edit))

    def choose_version(
        self, chat_id: str, message_id: str, step: int, then: Callable[[OpenChat | None], None]
    ) -> None:
        """Shows the version `step` places further of a message, and loads the branch below it."""
        self._write(lambda database: database.choose_version(chat_id, message_id, step), then)

    # --- notebooks -------------------------------------------------------------------------------------------------

    def list_notebooks(self, then: Callable[[list[NotebookSummary] | None], None]) -> None:
        """Lists the notebooks, the latest first."""
        self._read(lambda database: list_notebooks(database.connection), then)

    def load_notebook(self, id: str, then: Callable[[NotebookRecord | None], None]) -> None:
        """Loads a notebook; None where it is gone or cannot be read."""
        self._read(lambda database: read_notebook(database.connection, id), then)

    def save_notebook(self, notebook: NotebookRecord) -> None:
        """Keeps a notebook as it is now."""
        self._write(SaveNotebook(notebook))

    def delete_notebook(self, id: str) -> None:
        """Takes a notebook out of the list; `restore_notebook` undoes it until Quern is closed."""
        at = now()
        self._write(lambda database: delete_notebook(database, id, at))

    def restore_notebook(self, id: str) -> None:
        self._write(lambda database: delete_notebook(database, id, None))

    # --- messages --------------------------------------------------------------------------------------------------

    def add_message(self, message: MessageRecord) -> None:
        """Adds a message after `message.parent_id`; an answer about to be written has the state WRITING."""
        self._write(lambda database: database.add_message(message), changed=True)

    def pin_messages(self, message_ids: Sequence[str], pinned: bool) -> None:
        """Keeps messages in every prompt, or lets them be left out again."""
        self._write(lambda database: database.pin_messages(message_ids, pinned))

    def resume_answer(self, message_id: str) -> None:
        """Marks a stored answer as being written again."""
        self._write(lambda database: database.resume_answer(message_id))

    def append_answer(self, message_id: str, text: str) -> None:
        """Journals a piece of the answer: it survives the end of the process from here on."""
        self._write(lambda database: database.append_answer(message_id, text))

    def finish_answer(
        self,
        message_id: str,
        text: str,
        state: MessageState,
        *,
        receipt: Receipt | None = None,
        error: ErrorInfo | None = None,
    ) -> None:
        """Stores the whole text of an answer that has ended."""
        at = now()
        self._write(
            lambda database: database.finish_answer(message_id, text, state, at=at, receipt=receipt, error=error),
            changed=True,
        )

    def keep_receipt(self, message_id: str, receipt: msgspec.Struct) -> None:
        """Keeps what an answer can be made again with."""
        self._write(lambda database: database.keep_receipt(message_id, receipt))

    def load_receipt(self, message_id: str, then: Callable[[bytes | None], None]) -> None:
        """Loads a kept receipt as JSON; None where there is none."""
        self._read(lambda database: database.receipt(message_id), then)

    def remove_message(self, message_id: str) -> None:
        """Removes a message that nothing follows."""
        self._write(lambda database: database.remove_message(message_id), changed=True)

    # --- backups ---------------------------------------------------------------------------------------------------

    def list_backups(self, then: Callable[[list[Backup]], None]) -> None:
        """Lists the copies of the chats beside their file, the latest first."""
        self._on_disk(lambda database: list_backups(_file_of(database)), lambda found, _error: then(found or []))

    def back_up(self, then: Callable[[Path | None, ErrorInfo | None], None]) -> None:
        """Copies the chats as they are now; `then` gets where, or what went wrong."""
        self._on_disk(make_backup, then)

    def restore_backup(self, backup: Path, then: Callable[[Path | None, ErrorInfo | None], None]) -> None:
        """Puts a copy in the place of all chats; `then` gets where those were copied to, or what went wrong."""
        self._on_disk(lambda database: restore(database, backup), then)
        self.changed.emit()

    def _on_disk(self, operation: Operation[_T], then: Callable[[_T | None, ErrorInfo | None], None]) -> None:
        def tried(_database: ChatDatabase) -> tuple[_T | None, ErrorInfo | None]:
            try:
                return self._keeper.on_disk(operation), None
            except UserError as error:
                return None, error.info

        self._read(tried, lambda answer: then(*(answer or (None, None))))

    # --- the thread ------------------------------------------------------------------------------------------------

    def _read(self, operation: Operation[_T], then: Callable[[_T | None], None]) -> None:
        self._tasks.put((False, operation, then))

    def _write(
        self, operation: Operation[_T], then: Callable[[_T | None], None] | None = None, *, changed: bool = False
    ) -> None:
        self._tasks.put((True, operation, then))
        if changed:
            self.changed.emit()

    def _work(self) -> None:
        self._keeper.open()
        while (task := self._next_task()) is not None:
            writes, operation, then = task
            result = self._done(operation, writes=writes)
            if then is not None:
                self._answered.emit(then, result)
        self._keeper.close()

    def _next_task(self) -> tuple[bool, Operation[Any], Callable[[Any], None] | None] | None:
        """Waits for what is asked next; while something is not saved, the disk is tried again meanwhile."""
        while self._keeper.in_trouble:
            try:
                return self._tasks.get(timeout=self._keeper.retry_seconds)
            except queue.Empty:
                self._keeper.retry()
        return self._tasks.get()

    def _done(self, operation: Operation[_T], *, writes: bool) -> _T | None:
        try:
            return (self._keeper.write if writes else self._keeper.read)(operation)
        except Exception as error:  # noqa: BLE001 - one call that fails must not end the saving of all others
            _log.exception("the chat store could not do what was asked")
            why = reason(error) if isinstance(error, sqlite3.Error) else str(error)
            self.problem.emit(ChatsUnreadable(why).info)
            return None

    @Slot(object, object)
    def _call_back(self, then: Callable[[Any], None], result: Any) -> None:
        then(result)


def _file_of(database: ChatDatabase) -> Path:
    assert database.path is not None, "only chats on disk have backups"
    return database.path
