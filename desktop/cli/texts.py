"""The texts that a command is given, from a file or from the input: read as UTF-8, and never more than fits.

A file named by mistake may be a model of many gigabytes, and an input may never end. Knows no command.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator
from pathlib import Path

from desktop.cli.layout import shown_path
from runtime.errors import UserError
from runtime.small_files import opened
from runtime.text import _

MOST_BYTES = 100_000_000  # some 20,000 pages


class TextUnreadable(UserError):
    """A file that cannot be read as text."""

    code = "text_unreadable"

    def __init__(self, path: Path, reason: str) -> None:
        title = _("The text file “{name}” cannot be read.").format(name=shown_path(path))
        super().__init__(title, reason, _("Name a text file in UTF-8, or “-” to read the input."))


class TextTooLong(UserError):
    """More text than any model could read in a day."""

    code = "too_much_text"

    def __init__(self) -> None:
        super().__init__(
            _("The text is too long."),
            _("It has more than {limit} MB.").format(limit=MOST_BYTES // 1_000_000),
            _("Give a part of it."),
        )


def text_of(name: str) -> str:
    """Returns the content of a text file; of the standard input for "-". Raises `TextUnreadable` and `TextTooLong`."""
    if name == "-":
        return read_input()
    path = Path(name).expanduser()
    try:
        with opened(path) as file:
            data = file.read(MOST_BYTES + 1)
        return _decoded(data)
    except UnicodeDecodeError as error:
        reason = _("It is no UTF-8 text: byte {position} does not fit.").format(position=f"{error.start:,}")
        raise TextUnreadable(path, reason) from error
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise TextUnreadable(path, _("The system says: {error}.").format(error=said)) from error


def _decoded(data: bytes) -> str:
    """Returns the text. Raises `UnicodeDecodeError`, and `TextTooLong` where it goes on behind what was read."""
    text, _used = codecs.utf_8_decode(data.removeprefix(codecs.BOM_UTF8), "strict", len(data) <= MOST_BYTES)
    if len(data) > MOST_BYTES:
        raise TextTooLong
    return text


def input_lines() -> Iterator[str]:
    """Yields the lines of standard input as they come. Bytes that are no UTF-8 become U+FFFD, a BOM goes.

    Raises `TextTooLong`.
    """
    while line := sys.stdin.buffer.readline(MOST_BYTES + 1):
        if len(line) > MOST_BYTES:
            raise TextTooLong
        yield line.decode("utf-8", "replace").removeprefix("\ufeff")


def read_input() -> str:
    """Returns the whole standard input. Raises `TextTooLong`."""
    lines, length = [], 0
    for line in input_lines():
        lines.append(line)
        length += len(line)
        if length > MOST_BYTES:
            raise TextTooLong
    return "".join(lines)
