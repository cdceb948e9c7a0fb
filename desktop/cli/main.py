"""Runs one command line and returns its exit code: 0 done, 1 our bug, 2 something to put right, 130 interrupted."""

from __future__ import annotations

import os
import sys

import click

from desktop.cli import output
from desktop.cli.commands import COMPLETION_VARIABLE, CommandGroup, usage_problem
from desktop.cli.failures import told
from runtime.text import set_language

DONE, INTERRUPTED = 0, 130


def run(arguments: list[str]) -> int:
    """Runs `quern ARGUMENTS` and returns the exit code. Prints one clear message where something went wrong."""
    output.prepare_streams()
    use_saved_language()
    try:
        code = _invoke(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except click.UsageError as error:
        return told(usage_problem(error))
    except Exception as error:  # noqa: BLE001 - whatever goes wrong is told
        return told(error)


def _invoke(arguments: list[str]) -> int:
    if COMPLETION_VARIABLE in os.environ:
        from desktop.cli import completion

        return completion.answer()
    group = CommandGroup()
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    try:
        with group.make_context("quern", arguments) as context:
            return group.invoke(context) or DONE
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.Abort:
        return INTERRUPTED


def use_saved_language() -> None:
    """Speaks the language of the saved settings."""
    from desktop.cli.options import read_saved

    set_language("system")  # what is wrong with the file is put into words while it is read
    saved = read_saved()
    set_language(saved.app.get("language", "system"))
    if saved.notes and not read_saved().notes:  # it was set aside, and whoever reads after this finds nothing
        for note in saved.notes:
            output.remark(note)
