"""What can be done by key, in one table; actions and the list of shortcuts are made from it. Knows no window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QWidget

from runtime.text import N_, _


@dataclass(frozen=True, slots=True)
class Declared:
    """One action: its name in code, its words, and its keys (the first is the one that is shown)."""

    name: str
    words: str
    keys: tuple[str, ...]


ACTIONS = (
    Declared("new_chat", N_("New chat"), ("Ctrl+N",)),
    Declared("find", N_("Find in this chat"), ("Ctrl+F",)),
    Declared("search", N_("Search chats"), ("Ctrl+Shift+F",)),
    Declared("zoom_in", N_("Larger text"), ("Ctrl++", "Ctrl+=")),
    Declared("zoom_out", N_("Smaller text"), ("Ctrl+-",)),
    Declared("zoom_reset", N_("Text in its usual size"), ("Ctrl+0",)),
    Declared("sidebar", N_("Show or hide the list of chats"), ("Ctrl+B",)),
    Declared("settings", N_("Show or hide the settings"), ("Ctrl+,",)),
    Declared("system_prompt", N_("Show or hide the system prompt"), ("Ctrl+I",)),
    Declared("models", N_("Choose a model"), ("Ctrl+L",)),
    Declared("palette", N_("Find anything: the command palette"), ("Ctrl+K",)),
    Declared("library", N_("Open the library of models"), ("Ctrl+Shift+L",)),
    Declared("notebook", N_("Open the notebook: go on with a text"), ("Ctrl+Shift+N",)),
    Declared("convert", N_("Convert a model"), ("Ctrl+Shift+E",)),
    Declared("open_file", N_("Open a model file"), ("Ctrl+O",)),
    Declared("composer", N_("Write a message"), ("Ctrl+J",)),
    Declared("ledger", N_("What fills the context"), ("Ctrl+Shift+K",)),
    Declared("receipts", N_("How the answers were made"), ("Ctrl+Shift+I",)),
    Declared("diagnostics", N_("Diagnostics and logs"), ("Ctrl+Shift+D",)),
    Declared("backups", N_("Backups: make one, or go back to one"), ("Ctrl+Shift+B",)),
    Declared("export_markdown", N_("Export this chat as Markdown"), ("Ctrl+S",)),
    Declared("export_json", N_("Export this chat as JSON"), ("Ctrl+Shift+S",)),
    Declared("import_chats", N_("Import chats from a file"), ("Ctrl+Shift+O",)),
    Declared("stop", N_("Stop the answer"), ("Esc",)),
    Declared("about", N_("About Quern"), ("Shift+F1",)),
    Declared("shortcuts", N_("Show the keyboard shortcuts"), ("F1", "?")),
    Declared("quit", N_("Quit"), ("Ctrl+Q",)),
)
# Keys that single widgets handle; they are listed with the others.
IN_PLACE = (
    (N_("Send the message"), "Return"),
    (N_("Break the line"), "Shift+Return"),
    (N_("Show or hide the reasoning, in a message"), "Right"),
    (N_("Pin a message in the context, or unpin it"), "P"),
    (N_("Take the last pin back, in the conversation"), "Ctrl+Z"),
    (N_("Copy the selection as plain text"), "Ctrl+Shift+C"),
    (N_("Edit the last message, from an empty field"), "Up"),
    (N_("Have the model go on, in the notebook"), "Ctrl+Return"),
    (N_("Have it write something else, in the notebook"), "Ctrl+Shift+Return"),
    (N_("Rename the chat, in the list"), "F2"),
    (N_("Delete the chat, in the list"), "Del"),
)


def make_actions(window: QWidget, handlers: Mapping[str, Callable[[], None]]) -> dict[str, QAction]:
    """Returns the actions by name, added to the window. Raises KeyError where one has no handler."""
    return {declared.name: _made(window, declared, handlers[declared.name]) for declared in ACTIONS}


def _made(window: QWidget, declared: Declared, handler: Callable[[], None]) -> QAction:
    action = QAction(_(declared.words), window)
    action.setShortcuts([QKeySequence(key) for key in declared.keys])
    action.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
    action.triggered.connect(lambda: handler())
    window.addAction(action)
    return action


def shown_shortcuts() -> list[tuple[str, str]]:
    """Returns every action's words and keys, as the system writes them."""
    pairs = [(declared.words, declared.keys[0]) for declared in ACTIONS]
    return [(_(words), native(key)) for words, key in (*pairs, *IN_PLACE)]


def native(key: str) -> str:
    """Returns keys as the system writes them."""
    return QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)
