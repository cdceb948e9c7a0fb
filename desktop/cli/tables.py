"""Prints tables: cells below each other, or where the terminal is too narrow for that, each row as a paragraph."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence

from desktop.cli import output
from desktop.cli.layout import columns, one_line

_INDENT = "  "


def table(rows: Sequence[Sequence[str]], *, right: Collection[int] = (), indent: str = "") -> list[str]:
    """Returns a text for each row: a line, or the lines of a paragraph where stdout is a narrow terminal."""
    cells = max(1, shutil.get_terminal_size().columns - len(indent)) if output.is_terminal(sys.stdout) else 0
    return [textwrap.indent(text, indent) for text in columns(rows, right=right, cells=cells)]


def show_rows(rows: Sequence[tuple[str, str]]) -> None:
    """Prints labels with their texts; those without a text are left out."""
    for text in table([(label, one_line(said, line_end=" ")) for label, said in rows if said]):
        output.write_line(text)


def show_section(title: str, rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> None:
    """Prints a table under its title."""
    output.write_line()
    output.say(title)
    for text in table(rows, right=right, indent=_INDENT):
        output.write_line(text)
