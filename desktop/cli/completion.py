"""Completes words in the shell: `_QUERN_COMPLETE=bash_complete quern` prints what may follow. click does the work.

The shells' own scripts, which set that variable, are written by `script` for the packages.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import get_completion_class, shell_complete

from desktop.cli.commands import COMPLETION_VARIABLE, CommandGroup
from runtime.errors import UserError

SHELLS = ("bash", "zsh", "fish")


def answer() -> int:
    """Prints what may stand at the cursor, as the shell's script asks; silent where the line makes no sense."""
    try:
        return shell_complete(CommandGroup(), {}, "quern", COMPLETION_VARIABLE, os.environ[COMPLETION_VARIABLE])
    except (UserError, click.ClickException):
        return 0


def script(shell: str) -> str:
    """Returns the completion script of one of `SHELLS`."""
    found = get_completion_class(shell)
    assert found is not None
    return found(CommandGroup(), {}, "quern", COMPLETION_VARIABLE).source()
