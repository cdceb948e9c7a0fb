"""The chat in a terminal: reads a line, shows the answer, understands `/commands`. Knows no engine's inside."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from desktop.cli import output
from desktop.cli.answer import AnswerView, short_words
from desktop.cli.dialogue import Dialogue
from desktop.cli.failures import nobody_reads, told
from desktop.cli.interrupt import Interrupts
from desktop.cli.layout import harmless
from desktop.cli.line_editor import CommandCompleter, editor, prompt_text
from desktop.cli.slash import COMMANDS, SlashCommands, setting_words
from runtime.control_text import whole_characters
from runtime.engine import StopFlag
from runtime.protocol import FinishReason, GenerationEvent
from runtime.text import _

Answer = Callable[[StopFlag], Iterator[GenerationEvent]]


class TerminalChat:
    """One conversation with a person at a terminal."""

    def __init__(self, dialogue: Dialogue, *, name: str, view: AnswerView, history: Path | None) -> None:
        self.dialogue = dialogue
        self._name = name
        self.finished = False
        self._view = view
        self._commands = SlashCommands(self)
        meanings = {name: _(command.help) for name, command in COMMANDS.items()}
        self._editor = editor(history, CommandCompleter(meanings, {"/set": setting_words()}))
        self._draft = ""
        self._warned = False

    def run(self) -> None:
        """Talks until the person leaves."""
        self._greet()
        while not self.finished:
            typed = self._read()
            if typed is not None:
                self._handle(typed)

    def _greet(self) -> None:
        context = _("{count} tokens of context").format(count=f"{self.dialogue.engine.info.context_length:,}")
        output.write_line(f"{harmless(self._name)} · {context}")
        output.remark(_("Enter sends, /help shows the commands, Ctrl-D leaves."))

    def _read(self) -> str | None:
        """Returns what was typed; None where there is nothing to do."""
        output.write_line()
        draft, self._draft = self._draft, ""
        try:
            typed = whole_characters(self._editor.prompt(prompt_text(), default=draft))
        except EOFError:
            self.finished = True
            return None
        except KeyboardInterrupt:
            self._interrupted()
            return None
        self._warned = False
        return typed.strip("\n")

    def _interrupted(self) -> None:
        """Ctrl-C in an empty line: the second one in a row leaves."""
        self.finished = self._warned
        if not self._warned:
            output.remark(_("Ctrl-C once more, or Ctrl-D, leaves."))
        self._warned = True

    def _handle(self, typed: str) -> None:
        try:
            if typed.startswith("/") and "\n" not in typed:
                self._commands.run(typed)
            elif typed.strip():
                self.ask(typed)
        except Exception as error:
            if nobody_reads(error):
                raise
            told(error)  # and the conversation, which is nowhere else, goes on

    def ask(self, text: str) -> None:
        """Answers a message. Raises `UserError`; the message then comes back into the line."""
        try:
            self._show(lambda stop: self.dialogue.ask(text, stop))
        finally:
            self._draft = self.dialogue.unanswered

    def retry(self) -> None:
        """Answers the last message anew."""
        self._show(self.dialogue.retry)

    def go_on(self) -> None:
        """Lets the model go on with its last answer."""
        self._show(self.dialogue.go_on)

    def edit(self, text: str) -> None:
        """Puts a text into the line."""
        self._draft = text

    def confirm(self, question: str) -> bool:
        """Returns whether the person agrees; anything but yes is no."""
        from prompt_toolkit import prompt

        try:
            return prompt(f"{question} [y/N] ").strip().lower() in ("y", "yes", _("y"), _("yes"))
        except (EOFError, KeyboardInterrupt):
            return False

    def _show(self, start: Answer) -> None:
        with Interrupts() as interrupts, _silent_keys():
            finished = self._view.show(start(interrupts.stop))
        if finished is None:
            return
        if finished.reason is FinishReason.END and self.dialogue.unanswered:
            output.remark(_("The model gave an empty answer."))
        if finished.reason is FinishReason.LENGTH:
            output.remark(_("/continue goes on with it."))
        output.remark(short_words(finished))


@contextlib.contextmanager
def _silent_keys() -> Iterator[None]:
    """Keys typed while an answer appears do not mix with it; they wait for the next line."""
    try:
        import termios
    except ImportError:  # Windows does not echo keys by itself
        yield
        return
    try:
        before = termios.tcgetattr(sys.stdin)
    except (termios.error, ValueError, OSError):
        yield
        return
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
