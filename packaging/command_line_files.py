"""Writes what follows from the command line: the man page and the shells' completions.

A script for the build's own environment, which finds our packages on its path:
`command_line_files.py TARGET VERSION DATE` writes TARGET/quern.1 and TARGET/quern.{bash,zsh,fish}. In English.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from desktop.cli.commands import COMMANDS, CommandGroup, sections
from desktop.cli.completion import SHELLS, script
from runtime.text import set_language

_FILES = (
    ("~/.config/quern/settings.json", "what was changed in the settings"),
    ("~/.local/share/quern/chats.db", "chats and notebooks"),
    ("~/.local/share/quern/models/", "models of Quern's own; those of other programs are used where they lie"),
    ("~/.local/state/quern/log/", "logs, without a word of the chats"),
)


def main(target: Path, version: str, date: str) -> None:
    """Writes all files below `target`."""
    set_language("en")
    (target / "quern.1").write_text("\n".join(man_page(version, date)) + "\n", encoding="utf-8")
    for shell in SHELLS:
        (target / f"quern.{shell}").write_text(script(shell), encoding="utf-8")


def man_page(version: str, date: str) -> Iterator[str]:
    """Yields the lines of the man page in roff."""
    group = CommandGroup()
    context = click.Context(group, info_name="quern")
    yield f'.TH QUERN 1 "{date}" "Quern {version}" "User Commands"'
    yield from (".SH NAME", r"quern \- run language models on your own computer")
    yield from (".SH SYNOPSIS", ".B quern", "[FILE.gguf]", ".br", ".B quern", ".I COMMAND", "[ARGUMENTS]")
    yield from (".SH DESCRIPTION", "Without a command, the window opens, with the model file where one is named.")
    yield from _paragraphs(group.closing())
    yield ".SH COMMANDS"
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        yield from _command(command, context)
    yield from (".SH EXIT STATUS", ".TP", "0", "It was done.", ".TP", "1", "Quern made a mistake.", ".TP", "2",
                "Something has to be put right; one message on standard error says what.", ".TP", "130",
                "It was interrupted.")  # fmt: skip
    yield from (".SH ENVIRONMENT", ".TP", ".B QUERN_HOME", "The folder for settings, chats, models and logs alike.")
    yield ".SH FILES"
    for path, what in _FILES:
        yield from (".TP", f".I {escaped(path)}", escaped(what))


def _command(command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=command.name, parent=parent)
    yield f".SS quern {command.name} {escaped(' '.join(command.collect_usage_pieces(context)))}"
    yield from _paragraphs(command.help or "")
    for title, rows in sections(command, context):
        yield from (".PP", f".I {escaped(title)}")
        for names, help_text in rows:
            yield from (".TP", f".B {escaped(names)}", escaped(help_text))
    if examples := getattr(command, "examples", ()):
        yield from (".PP", ".I Examples", ".nf", ".RS", *map(escaped, examples), ".RE", ".fi")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in filter(None, text.split("\n")):
        yield from (".PP", escaped(paragraph))


def escaped(text: str) -> str:
    """Returns a line for roff: no sign of it is a command, and hyphens can be copied."""
    text = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
