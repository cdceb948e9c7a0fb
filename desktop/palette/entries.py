"""What the palette can find: actions, chats, models, settings. Made fresh each time it opens; knows no widget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction, QKeySequence

from desktop.chat.chat_list import shown_title
from desktop.chat.model_names import shown_name
from desktop.chat.plain_text import one_line
from desktop.palette.fuzzy import folded
from desktop.store.records import ChatSummary, NotebookSummary
from runtime.params import GROUPS
from runtime.settings import fields_of
from runtime.text import _

if TYPE_CHECKING:
    from runtime.library import ModelInfo

_NOT_LISTED = ("palette",)


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to do: its words, what kind it is, its keys, and what happens when it is chosen."""

    words: str
    kind: str
    icon: str
    run: Callable[[], object]
    keys: str = ""
    searched: str = field(default="")

    @property
    def name(self) -> str:
        """What typed letters are held against."""
        return self.searched or folded(self.words)


def of_actions(actions: Mapping[str, QAction]) -> Iterator[Entry]:
    """Yields what can be done by key, where it can be done now."""
    for name, action in actions.items():
        if action.isEnabled() and name not in _NOT_LISTED:
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            yield Entry(action.text(), _("Action"), "chevron_right", action.trigger, keys)


def of_chats(chats: Iterable[ChatSummary], open_chat: Callable[[str], object]) -> Iterator[Entry]:
    """Yields the chats by their titles."""
    for chat in chats:
        yield Entry(shown_title(chat.title), chat.folder or _("Chat"), "chat", partial(open_chat, chat.id))


def of_notebooks(books: Iterable[NotebookSummary], open_book: Callable[[str], object]) -> Iterator[Entry]:
    """Yields the notebooks by their titles."""
    for book in books:
        yield Entry(one_line(book.title) or _("Empty notebook"), _("Notebook"), "notebook", partial(open_book, book.id))


def of_models(models: Sequence[ModelInfo], load: Callable[[str], object]) -> Iterator[Entry]:
    """Yields the models that one can talk to."""
    for info in models:
        if info.can_chat:
            words = f"{shown_name(info)} {info.quantization}".strip()
            yield Entry(words, _("Model"), "model", partial(load, str(info.path)))


def of_settings(show: Callable[[str], object]) -> Iterator[Entry]:
    """Yields every declared setting; its name in code and its section are searched, too."""
    for group in GROUPS:
        for declared in fields_of(group):
            words = _(declared.setting.title)
            searched = folded(f"{words} {declared.name} {_(declared.setting.section)}")
            yield Entry(words, _("Setting"), "settings", partial(show, words), searched=searched)
