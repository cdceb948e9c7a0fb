"""`quern chat`: one question, one question a line, or a conversation in the terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from desktop.cli import output
from desktop.cli.answer import AnswerView, JsonView, TextView
from desktop.cli.commands import Command, Option, UsageProblem
from desktop.cli.dialogue import Dialogue
from desktop.cli.interrupt import Interrupts
from desktop.cli.loading import opened, wanted
from desktop.cli.options import alternatives_wanted, answer_options, model_argument
from desktop.cli.receipts import receipt_option, with_receipts
from desktop.cli.texts import input_lines, read_input
from runtime.chat_formats import RAW, built_in_names
from runtime.errors import UserError
from runtime.places import NoHome, places
from runtime.source_errors import HoldsNoConversation
from runtime.text import _


class NoConversation(UserError):
    """A model without a chat template: nothing but raw continuation is open to it here."""

    code = "no_conversation"

    def __init__(self, guess: str) -> None:
        """`guess` is the format that the model's vocabulary was made for, if it is one of ours."""
        words = _("Add --template {name}: its vocabulary has the marks of that format. “quern complete” needs none.")
        others = _("Choose one with --template ({names}), or use “quern complete”, which needs none.")
        names = ", ".join((*built_in_names(), RAW))
        super().__init__(
            _("This model has no chat template."),
            _("Without one it is unknown how to write a conversation for this model."),
            words.format(name=guess) if guess else others.format(names=names),
        )


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "chat",
        callback=chat,
        help="\n".join((
            _("Talks with a model."),
            _("In a terminal a conversation begins. With -p, the answer to one message is printed."),
            _("Where the input is piped, each line of it is one message of one conversation; “-p -” takes the whole "
              "input as one message."),
        )),
        examples=(
            "quern chat",
            'quern chat -p "What is the capital city of France?"',
            'quern chat ~/models/model.gguf --system "Answer briefly." --temperature 0',
            "quern chat -p - < letter.txt",
        ),
        params=[
            model_argument(),
            Option("-p", "--prompt", metavar="TEXT", help=_("The message; “-” reads it from the input.")),
            Option("-s", "--system", metavar="TEXT", help=_("What the model is told before the conversation.")),
            Option(
                "--hide-reasoning", is_flag=True, default=False,
                help=_("Shows only answers, not what the model thinks before them. With --json, they come apart."),
            ),
            receipt_option(),
            *answer_options(),
        ],
    )  # fmt: skip


def chat(
    model: str | None, prompt: str | None, system: str | None, verbose: bool, as_json: bool,
    alternatives: int | None, hide_reasoning: bool, receipt: str | None, **flags: Any,
) -> int:  # fmt: skip
    """Runs the command and returns the exit code."""
    shown = alternatives_wanted(alternatives, as_json=as_json)
    interactive = prompt is None and not as_json and output.is_terminal(sys.stdin) and output.is_terminal(sys.stdout)
    messages = iter(()) if interactive else _first_read(given_messages(prompt))
    what = wanted(model, flags)
    plain = TextView(verbose=verbose, wrap=True, reasoning=not hide_reasoning)
    view = with_receipts(JsonView() if as_json else plain, receipt)
    with opened(what) as held:
        if held.info.reads_source:
            raise HoldsNoConversation
        if not held.info.has_template and not what.sampling.template.strip():
            raise NoConversation(held.info.template_guess)
        view.loaded(held.info)
        dialogue = Dialogue(
            held, sampling=what.sampling, system=system or "", alternatives=shown, receipts=receipt is not None
        )
        if interactive:
            return _converse(dialogue, what.name, view)
        return answer_each(dialogue, messages, view, apart=not as_json)


def _converse(dialogue: Dialogue, name: str, view: AnswerView) -> int:
    from desktop.cli.terminal_chat import TerminalChat

    TerminalChat(dialogue, name=name, view=view, history=_history_file()).run()
    return 0


def _history_file() -> Path | None:
    with contextlib.suppress(NoHome):
        return places().state / "chat-history"
    return None


def given_messages(prompt: str | None) -> Iterator[str]:
    """Yields the messages that come without a person at a terminal. Raises `UsageProblem` for an empty one."""
    if prompt is None:
        yield from filter(None, map(str.strip, input_lines()))
        return
    text = read_input() if prompt == "-" else prompt
    if not text.strip():
        raise UsageProblem(_("The message is empty."), "", _('Example: quern chat -p "What is 2+2?"'))
    yield text


def _first_read(messages: Iterator[str]) -> Iterator[str]:
    """Returns the messages, of which there must be one: no model is loaded for an empty input."""
    first = next(messages, None)
    if first is None:
        hint = _("In a terminal, “quern chat” begins a conversation; -p gives one message.")
        raise UsageProblem(_("There is nothing to answer: the input is empty."), "", hint)

    def all_of_them() -> Iterator[str]:
        yield first
        yield from messages

    return all_of_them()


def answer_each(dialogue: Dialogue, messages: Iterator[str], view: AnswerView, *, apart: bool) -> int:
    """Answers one message after the other, `apart` by an empty line; an interrupted answer ends the command."""
    for number, message in enumerate(messages):
        if number and apart:
            output.write_line()
        with Interrupts() as interrupts:
            view.show(dialogue.ask(message, interrupts.stop))
        if interrupts.stop.is_set():
            return 130
    return 0
