"""Reads LoRA adapters as people write them: `style.gguf`, `style.gguf=0.5`. Opens no file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from runtime.errors import UserError
from runtime.places import path_of, shown_path
from runtime.text import _

MAX_SCALE = 100.0
MAX_ADAPTERS = 64
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)")


class ChosenAdapter(NamedTuple):
    """An adapter's file, and the factor by which its change to the weights is taken."""

    path: Path
    scale: float


class BadAdapter(UserError):
    """A written adapter that cannot be read."""

    code = "bad_adapter"

    def __init__(self, written: str, reason: str) -> None:
        super().__init__(
            _("The adapter “{written}” cannot be used.").format(written=shown_path(Path(written[-60:]))),
            reason,
            _("Write the path of a GGUF adapter, with “=” and a factor where it is not 1, as in style.gguf=0.5."),
        )


def read_adapter(written: str) -> ChosenAdapter:
    """Returns the adapter's path and scale. What follows the last “=” is a scale where it is a number.

    Raises `BadAdapter`.
    """
    text = os.fspath(path_of(written.strip())) if written.strip() else ""
    name, sign, number = text.rpartition("=")
    if not sign or not _NUMBER.fullmatch(number.strip()):
        name, number = text, "1"
    scale = float(number.strip().replace(",", "."))
    if not name.strip():
        raise BadAdapter(text, _("It has no path."))
    if abs(scale) > MAX_SCALE:
        words = _("The factor {scale:g} is outside {low:g} to {high:g}.")
        raise BadAdapter(text, words.format(scale=scale, low=-MAX_SCALE, high=MAX_SCALE))
    return ChosenAdapter(Path(name.rstrip()).expanduser(), scale)


def check_adapters(written: tuple[str, ...]) -> None:
    """Raises `BadAdapter` where one cannot be read, or there are too many."""
    if len(written) > MAX_ADAPTERS:
        words = _("There are {n:,} of them; {limit:,} are allowed.")
        raise BadAdapter("…", words.format(n=len(written), limit=MAX_ADAPTERS))
    for each in written:
        read_adapter(each)
