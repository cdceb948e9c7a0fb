"""The `/commands` of the terminal chat. Knows the chat by what it can do, not how it draws."""

from __future__ import annotations

import difflib
import json
import os
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from desktop.cli import output
from desktop.cli.answer import finished_words, loaded_words
from desktop.cli.context_lines import context_lines
from desktop.cli.dialogue import Dialogue
from desktop.cli.layout import harmless, shown_path, two_columns
from desktop.cli.options import setting_help, shown_value, typed
from runtime.errors import UserError
from runtime.messages import Message, Role
from runtime.params import LoadParams, SamplingParams
from runtime.places import replace_file, require_replaceable
from runtime.settings import SettingField, changed, fields_of
from runtime.text import N_, _, ngettext


class Chat(Protocol):
    """What a command may do with the chat."""

    dialogue: Dialogue
    finished: bool

    def retry(self) -> None: ...

    def go_on(self) -> None: ...

    def edit(self, text: str) -> None: ...

    def confirm(self, question: str) -> bool: ...


class CommandProblem(UserError):
    """A command that cannot be done as typed."""

    code = "chat_command"


@dataclass(frozen=True, slots=True)
class Slash:
    """One command: what it takes, what it does in words, and the method that does it."""

    run: Callable[[SlashCommands, str], None]
    help: str
    takes: str = ""


class SlashCommands:
    """Runs what was typed after a slash."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def run(self, line: str) -> None:
        """Runs one line. Raises `CommandProblem` where there is no such command or its argument is wrong."""
        name, _space, argument = line.strip().partition(" ")
        command = COMMANDS.get(name.lower())
        if command is None:
            raise _no_such(name)
        command.run(self, argument.strip())

    def help(self, _argument: str) -> None:
        rows = [(f"{name} {_(command.takes)}".strip(), _(command.help)) for name, command in COMMANDS.items()]
        keys = [
            (_("Enter"), _("Sends the message.")),
            (_("Alt+Enter, \\ Enter"), _("Begins a new line; pasted lines stay together.")),
            (_("Ctrl-C"), _("Stops the answer, or empties the line.")),
            (_("Up, Down, Ctrl-R"), _("Earlier messages, and searching them.")),
            (_("Ctrl-D"), _("Leaves.")),
        ]
        output.write_line("\n".join([*two_columns(rows, output.width()), "", *two_columns(keys, output.width())]))

    def new(self, _argument: str) -> None:
        self._chat.dialogue.clear()
        output.remark(_("A new conversation begins."))

    def system(self, argument: str) -> None:
        dialogue = self._chat.dialogue
        if argument:
            dialogue.system = "" if argument.lower() == "off" else argument
        if dialogue.system:
            output.say(_("System prompt: {text}").format(text=harmless(dialogue.system)))
        else:
            output.say(_("There is no system prompt."))

    def undo(self, _argument: str) -> None:
        question = self._chat.dialogue.undo()
        if not question:
            raise CommandProblem(_("There is nothing to take back."))
        output.remark(_("The last question and its answer were taken back; the question is in the line again."))
        self._chat.edit(question)

    def retry(self, _argument: str) -> None:
        dialogue = self._chat.dialogue
        if not dialogue.turns:
            raise CommandProblem(_("There is no answer yet that could be written anew."))
        if dialogue.sampling.greedy or dialogue.sampling.seed >= 0:
            output.remark(_("With this seed or temperature, the answer will be the same again; /set changes them."))
        self._chat.retry()

    def go_on(self, _argument: str) -> None:
        if not self._chat.dialogue.turns:
            raise CommandProblem(_("There is no answer yet that could go on."))
        self._chat.go_on()

    def save(self, argument: str) -> None:
        if not argument:
            raise CommandProblem(_("/save needs a file name."), "", _("Example: /save talk.md"))
        file = Path(os.path.expanduser(argument))
        require_replaceable(file)
        if file.exists() and not self._chat.confirm(_("Replace “{path}”?").format(path=shown_path(file))):
            return
        replace_file(file, saved_text(self._chat.dialogue, file.suffix).encode("utf-8", "replace"))
        output.remark(_("The conversation was saved to “{path}”.").format(path=shown_path(file.resolve())))

    def set(self, argument: str) -> None:
        name, _space, value = argument.partition(" ")
        if not name:
            self._list_settings()
            return
        declared = sampling_field(name)
        if value.strip():
            sampling = self._chat.dialogue.sampling
            self._chat.dialogue.sampling = sampling.replace(**{declared.name: _new_value(declared, value.strip())})
        current = getattr(self._chat.dialogue.sampling, declared.name)
        output.write_line(f"{_word(declared)} = {shown_value(declared, current)}")
        if not value.strip():
            output.remark(setting_help(declared))

    def _list_settings(self) -> None:
        sampling = self._chat.dialogue.sampling
        differing = changed(sampling)
        rows = [
            (f"{'*' if declared.name in differing else ' '} {_word(declared)}",
             shown_value(declared, getattr(sampling, declared.name)))
            for declared in fields_of(SamplingParams)
        ]  # fmt: skip
        output.write_line("\n".join(two_columns(rows, output.width())))
        output.remark(_("* differs from the default. “/set temperature” explains one, “/set temperature 0.5” sets it."))

    def stats(self, _argument: str) -> None:
        dialogue = self._chat.dialogue
        count = len(dialogue.turns)
        said = ngettext("{count} message", "{count} messages", count).format(count=count)
        numbers = finished_words(dialogue.last) if dialogue.last else ""
        output.say("\n".join(filter(None, (loaded_words(dialogue.engine.info), said, numbers))))

    def context(self, _argument: str) -> None:
        dialogue = self._chat.dialogue
        lines = context_lines(dialogue.question, dialogue.engine.measure(dialogue.question), cells=output.width())
        output.write_line("\n".join(lines))

    def pin(self, argument: str) -> None:
        at = self._turn(argument or str(len(self._chat.dialogue.turns)))
        self._chat.dialogue.pinned.add(at)
        output.remark(_("Message {n} stays in every prompt, with its question and answer.").format(n=at + 1))

    def unpin(self, argument: str) -> None:
        pinned = self._chat.dialogue.pinned
        if not pinned:
            raise CommandProblem(_("No message is pinned."))
        pinned -= {self._turn(argument)} if argument else set(pinned)
        count = len(pinned)
        output.remark(ngettext("{n} message is pinned.", "{n} messages are pinned.", count).format(n=count))

    def _turn(self, argument: str) -> int:
        """Returns the place of a message that was named by its number. Raises `CommandProblem`."""
        count = len(self._chat.dialogue.turns)
        if not count:
            raise CommandProblem(_("Nothing was said yet."))
        if not argument.isdecimal() or not 1 <= int(argument) <= count:
            title = _("There is no message “{n}”.").format(n=harmless(argument[:20]))
            numbers = _("The messages have the numbers 1 to {n}.").format(n=count)
            raise CommandProblem(title, numbers, _("/context lists them."))
        return int(argument) - 1

    def quit(self, _argument: str) -> None:
        self._chat.finished = True


COMMANDS: dict[str, Slash] = {
    "/help": Slash(SlashCommands.help, N_("Shows this list.")),
    "/new": Slash(SlashCommands.new, N_("Begins a new conversation; the system prompt stays.")),
    "/system": Slash(SlashCommands.system, N_("Shows or sets the system prompt; “off” removes it."), N_("[TEXT|off]")),
    "/undo": Slash(SlashCommands.undo, N_("Takes the last question and its answer back.")),
    "/retry": Slash(SlashCommands.retry, N_("Writes the last answer anew.")),
    "/continue": Slash(SlashCommands.go_on, N_("Goes on with an answer that was cut or stopped.")),
    "/save": Slash(SlashCommands.save, N_("Saves the conversation as Markdown, or as JSON by the name."), N_("FILE")),
    "/set": Slash(SlashCommands.set, N_("Shows or changes how answers are drawn."), N_("[NAME [VALUE|default]]")),
    "/context": Slash(SlashCommands.context, N_("Shows what fills the context, message by message.")),
    "/pin": Slash(SlashCommands.pin, N_("Keeps a message, or the last one, in every prompt."), N_("[NUMBER]")),
    "/unpin": Slash(SlashCommands.unpin, N_("Lets a message be left out again, or all of them."), N_("[NUMBER]")),
    "/stats": Slash(SlashCommands.stats, N_("Shows the model and the last answer in numbers.")),
    "/quit": Slash(SlashCommands.quit, N_("Leaves.")),
}


def setting_words() -> list[str]:
    """Returns the names that `/set` knows."""
    return [_word(declared) for declared in fields_of(SamplingParams)]


def _word(declared: SettingField) -> str:
    return declared.flag.removeprefix("--")


def sampling_field(name: str) -> SettingField:
    """Returns the sampling setting that a person named, as `top-k` or `top_k`. Raises `CommandProblem`."""
    wanted = name.lower().lstrip("-").replace("_", "-")
    for declared in fields_of(SamplingParams):
        if _word(declared) == wanted:
            return declared
    if wanted in [_word(declared) for declared in fields_of(LoadParams)]:
        hint = _("Start the chat with --{name} to change it.").format(name=wanted)
        raise CommandProblem(_("“{name}” is fixed once a model is loaded.").format(name=name), "", hint)
    hint = _nearest(wanted, setting_words()) or _("/set lists them.")
    raise CommandProblem(_("There is no setting “{name}”.").format(name=name), "", hint)


def _new_value(declared: SettingField, text: str) -> object:
    if text.lower() == "default":
        return declared.default
    if declared.kind != "list":
        return typed(declared, text)
    try:
        return tuple(typed(declared, word) for word in shlex.split(text.replace("\\", "\\\\")))
    except ValueError as error:
        raise CommandProblem(_("A quotation mark is missing."), "", _('Example: /set stop "User:"')) from error


def saved_text(dialogue: Dialogue, suffix: str) -> str:
    """Returns the conversation as it is saved: JSON for `.json`, else Markdown."""
    if suffix.lower() == ".json":
        info = dialogue.engine.info
        messages = [
            {"role": message.role.value, "content": message.content}
            | ({"reasoning_content": message.reasoning} if message.reasoning else {})
            for message in dialogue.messages
        ]
        return json.dumps({"model": info.name or info.path, "messages": messages}, ensure_ascii=False, indent=2) + "\n"
    return "\n\n".join(map(_as_markdown, dialogue.messages)) + "\n"


def _as_markdown(message: Message) -> str:
    heading = {Role.SYSTEM: _("System"), Role.USER: _("You"), Role.ASSISTANT: _("Model")}
    return f"## {heading.get(message.role, message.role.value)}\n\n{message.content.strip()}"


def _no_such(name: str) -> CommandProblem:
    hint = _nearest(name, COMMANDS) or _("/help lists the commands. Begin a message with a space to send it as it is.")
    return CommandProblem(_("There is no command “{name}”.").format(name=harmless(name)), "", hint)


def _nearest(word: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, list(known), 1)
    return _("The nearest one is “{name}”.").format(name=found[0]) if found else ""
