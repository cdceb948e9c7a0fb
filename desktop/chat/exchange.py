"""Exports and imports chats: asks for a file, has the store read or write, and moves bytes in a thread."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from desktop.background import Background
from desktop.store.chat_store import ChatStore
from desktop.store.exchange import NotAChat, as_json, as_markdown, read_chats
from desktop.store.records import OpenChat
from runtime.file_names import file_stem
from runtime.places import atomic_write, shown_path, write_reason
from runtime.text import _, ngettext

_LONGEST_NAME = 80
_MOST_BYTES = 512 * 1024 * 1024
_ENDINGS = {"markdown": (".md", "Markdown (*.md)"), "json": (".json", "JSON (*.json)")}


class ChatExchange(QObject):
    """Over the window's store. `failed` carries an `ErrorInfo`, `said` a sentence for people."""

    failed = Signal(object)
    said = Signal(str)
    imported = Signal(str)  # id of the last chat that came in

    def __init__(self, store: ChatStore, window: QWidget) -> None:
        super().__init__(window)
        self._store, self._window = store, window
        self._background = Background(self)
        self._background.failed.connect(self.failed)

    def ask_export(self, chat_id: str, kind: str) -> None:
        """Asks where a chat shall be written."""
        self._store.whole_chat(chat_id, lambda found: self._ask_place(found, kind))

    def _ask_place(self, found: OpenChat | None, kind: str) -> None:
        if found is None:
            return
        ending, names = _ENDINGS[kind]
        dialog = self._dialog(_("Export the chat"), names)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(ending[1:])
        dialog.selectFile(file_name(found.chat.title) + ending)
        dialog.fileSelected.connect(lambda path: self.write(found, Path(path), kind))
        dialog.open()

    def write(self, found: OpenChat, path: Path, kind: str) -> None:
        """Writes a chat to a file; `said` follows."""

        def work() -> str:
            data = as_markdown(found).encode() if kind == "markdown" else as_json([found])
            atomic_write(path, data)
            return _("Written: {path}").format(path=shown_path(path))

        self._background.run(work, self.said.emit)

    def ask_import(self) -> None:
        """Asks for a file with chats."""
        dialog = self._dialog(_("Import chats"), _("Chats (*.json);;All files (*)"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda path: self.read(Path(path)))
        dialog.open()

    def read(self, path: Path) -> None:
        """Takes the chats of a file into the store; `imported` follows."""
        self._background.run(lambda: _read(path), self._take)

    def _take(self, chats: list[OpenChat]) -> None:
        came: list[str | None] = []

        def note(id: str | None) -> None:
            came.append(id)
            if len(came) == len(chats):
                self._tell([each for each in came if each is not None])

        for found in chats:
            self._store.import_chat(found, note)
        if not chats:
            self._tell([])

    def _tell(self, ids: list[str]) -> None:
        """Says what came in; why another did not, the store has said."""
        if ids:
            self.imported.emit(ids[-1])
        words = ngettext("{n} chat was imported.", "{n} chats were imported.", len(ids))
        self.said.emit(words.format(n=len(ids)))

    def _dialog(self, title: str, names: str) -> QFileDialog:
        dialog = QFileDialog(self._window, title, "", names)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return dialog


def file_name(title: str) -> str:
    """Returns a chat's title as a file's name, whatever stands in it."""
    return file_stem(title, longest=_LONGEST_NAME) or _("Chat")


def _read(path: Path) -> list[OpenChat]:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError as error:
        raise NotAChat(path.name, write_reason(error)) from error
    return read_chats(data, name=path.name)
