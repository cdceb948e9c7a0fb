"""`quern tokenize`: the tokens of a text."""

from __future__ import annotations

import contextlib
from typing import Any

import click

from desktop.cli import output
from desktop.cli.commands import Command, ModelArgument, Option, json_option
from desktop.cli.layout import harmless
from desktop.cli.loading import wanted
from desktop.cli.texts import read_input
from runtime import engines
from runtime.text import _, ngettext


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "tokenize",
        callback=tokenize,
        help="\n".join((
            _("Shows the tokens of a text: each one's number and its own text. “-” reads the text from the input."),
            _("Only the vocabulary is read, so any GGUF file with one will do, also of a model that cannot be run."),
        )),
        examples=('quern tokenize starter "Hello, world"', "quern tokenize starter - --json < letter.txt"),
        params=[
            ModelArgument(["model"], metavar="MODEL"),
            click.Argument(["text"], metavar="TEXT"),
            Option(
                "--special", is_flag=True, default=False,
                help=_("Recognises control tokens that are written in the text; without it they are plain text."),
            ),
            json_option(),
        ],
    )  # fmt: skip


def tokenize(model: str, text: str, special: bool, as_json: bool, **_flags: Any) -> None:
    """Runs the command."""
    text = read_input() if text == "-" else text
    with contextlib.closing(engines.open_tokenizer(wanted(model, {}).path)) as held:
        ids = held.tokenize(text, special=special)
        pieces = held.pieces(ids)
    if as_json:
        output.write_json({"ids": ids, "pieces": pieces})
        return
    for number, piece in zip(ids, pieces, strict=True):
        output.write_line(f"{number:>8}  {harmless(piece).replace(chr(10), '␊').replace(' ', '·')}")
    output.aside(ngettext("{count} token", "{count} tokens", len(ids)).format(count=len(ids)))
