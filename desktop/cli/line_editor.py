"""The line where a person types: history, several lines, completion of commands. Knows no conversation."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import HTML, FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from runtime.control_text import whole_characters

_KEPT_ENTRIES = 1000
_KEPT_BYTES = 1_000_000


class KeptHistory(FileHistory):
    """What was typed, in a file that only its owner may read. A file that cannot be written costs only the memory."""

    def load_history_strings(self) -> Iterable[str]:
        """Returns the newest entries first."""
        try:
            return list(super().load_history_strings())[:_KEPT_ENTRIES]
        except OSError:
            return []

    def store_string(self, string: str) -> None:
        """Adds an entry; the file starts anew when it has grown too large."""
        with contextlib.suppress(OSError):
            file = Path(os.fsdecode(self.filename))
            if file.exists() and file.stat().st_size > _KEPT_BYTES:
                file.unlink()
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
            super().store_string(whole_characters(string))  # a terminal that is not in UTF-8 sends broken ones


def history(file: Path | None) -> History:
    """Returns the history in `file`, or one that lasts as long as the program."""
    if file is None:
        return InMemoryHistory()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
    return KeptHistory(os.fspath(file))


class CommandCompleter(Completer):
    """Completes `/commands`, and the words that some of them take."""

    def __init__(self, commands: Mapping[str, str], words: Mapping[str, Iterable[str]]) -> None:
        self._commands = commands
        self._words = {name: tuple(found) for name, found in words.items()}

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yields what may stand at the cursor."""
        typed = document.text_before_cursor
        if not typed.startswith("/") or "\n" in typed:
            return
        command, space, rest = typed.partition(" ")
        if not space:
            for name, meaning in self._commands.items():
                if name.startswith(command):
                    yield Completion(name, start_position=-len(command), display_meta=meaning)
        elif " " not in rest:
            for word in self._words.get(command, ()):
                if word.startswith(rest):
                    yield Completion(word, start_position=-len(rest))


def editor(file: Path | None, completer: Completer) -> PromptSession[str]:
    """Returns the line editor: Enter sends, Alt+Enter or a backslash before Enter begins a new line."""
    slash = Condition(lambda: session.default_buffer.text.startswith("/"))
    session: PromptSession[str] = PromptSession(
        history=history(file), multiline=True, key_bindings=_keys(), completer=completer, complete_while_typing=slash,
        prompt_continuation=FormattedText([("", "  ")]), enable_open_in_editor=True, reserve_space_for_menu=5,
        tempfile_suffix=".md", enable_suspend=True,
    )  # fmt: skip
    session.app.renderer.cpr_not_supported_callback = None  # a warning about the terminal in the middle of a chat
    return session


def prompt_text() -> HTML:
    """Returns the mark in front of what is typed."""
    return HTML("<b>&gt;</b> ")


def _keys() -> KeyBindings:
    keys = KeyBindings()
    keys.add(Keys.Enter)(_send)
    keys.add(Keys.Escape, Keys.Enter)(_new_line)
    keys.add(Keys.ControlC)(_clear_or_interrupt)
    keys.add(Keys.Vt100MouseEvent)(_leave_out)
    return keys


def _send(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    if buffer.complete_state and buffer.complete_state.current_completion:
        buffer.complete_state = None  # Enter takes the completion that is marked
    elif buffer.document.text_before_cursor.endswith("\\") and buffer.document.is_cursor_at_the_end:
        buffer.delete_before_cursor()
        buffer.insert_text("\n")
    else:
        buffer.validate_and_handle()


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def _leave_out(_event: KeyPressEvent) -> None:
    """No mouse is asked for here: what looks like one is a colour in text that was pasted without brackets."""


def _clear_or_interrupt(event: KeyPressEvent) -> None:
    """Ctrl-C empties the line; in an empty one it is passed on."""
    if event.current_buffer.text:
        event.current_buffer.reset()
    else:
        event.app.exit(exception=KeyboardInterrupt, style="class:aborting")
