"""`quern models`: the models found on this computer."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

import click

from desktop.cli import output
from desktop.cli.commands import Command, json_option
from desktop.cli.layout import one_line, shown_path
from desktop.cli.tables import table
from runtime.text import _

if TYPE_CHECKING:
    from runtime.library import ModelInfo

_JSON_FIELDS = (
    "name", "path", "kind", "architecture", "size_bytes", "quantization", "context_length", "runnable", "reason"
)  # fmt: skip


def command() -> click.Command:
    """Returns the command, in the current language."""
    return Command(
        "models",
        callback=models,
        help="\n".join((
            _("Lists the models found on this computer, in Quern's own folder and where other programs keep theirs."),
            _("A name or a path from this list can stand for MODEL in the other commands."),
        )),
        examples=("quern models", "quern models --json"),
        params=[json_option()],
    )  # fmt: skip


def models(as_json: bool, **_flags: Any) -> None:
    """Runs the command."""
    from runtime.library import Library

    library = Library()
    found = library.models()
    for problem in library.problems:
        output.remark(problem)
    if as_json:
        output.write_json({"models": [json_object(model) for model in found]})
    elif found:
        _show(found)
    else:
        output.remark(_("No models were found."))


def json_object(model: ModelInfo) -> dict[str, Any]:
    """Returns what programs are told of one model."""
    return {name: str(value) if name == "path" else value for name, value in _values(model)}


def _values(model: ModelInfo) -> list[tuple[str, Any]]:
    return [(name, getattr(model, name)) for name in _JSON_FIELDS]


def _show(found: list[ModelInfo]) -> None:
    head = (_("Name"), _("Architecture"), _("Type"), _("Size"), _("Context"))
    lines = table([head, *map(_cells, found)], right=(3, 4))
    output.write_line(lines[0])
    for model, line in zip(found, lines[1:], strict=True):
        output.write_line(line)
        _show_below(shown_path(model.path))
        if not model.runnable:
            _show_below(_("Cannot be run: {reason}").format(reason=model.reason))
        elif model.caution:
            _show_below(model.caution)


def _show_below(text: str) -> None:
    output.write_line(output.dim(textwrap.indent(output.fitted(text, sys.stdout, less=2), "  "), sys.stdout))


def _cells(model: ModelInfo) -> tuple[str, ...]:
    context = f"{model.context_length:,}" if model.context_length else ""
    cells = (model.name, model.architecture, model.quantization, size_words(model.size_bytes), context)
    return tuple(one_line(cell, line_end=" ") for cell in cells)


def size_words(size: int) -> str:
    """Returns a file size as people read it, in powers of ten."""
    for unit, digits, least in (("GB", 1, 1e9), ("MB", 0, 1e6), ("kB", 0, 1e3)):
        if size >= least:
            return f"{size / least:.{digits}f} {unit}"
    return f"{size} B"
