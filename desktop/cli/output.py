"""Where results and remarks go: results to stdout, remarks and progress to stderr. Knows no command."""

from __future__ import annotations

import contextlib
import enum
import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any, TextIO

import msgspec

from desktop.cli.layout import cut, harmless, one_line, wrapped
from runtime.errors import ErrorInfo


def prepare_streams() -> None:
    """Gives a program without streams silent ones, and lets text be printed that the terminal's encoding lacks."""
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115 - they live as long as the program
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    if sys.platform == "win32":
        os.system("")  # starting any command turns on the console's escape codes; there is no other short way


def is_terminal(stream: TextIO) -> bool:
    """Returns whether a person sits at `stream`."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def plain(stream: TextIO) -> bool:
    """Returns whether escape codes are unwanted on `stream`."""
    return not is_terminal(stream) or os.environ.get("TERM") == "dumb"


def dim(text: str, stream: TextIO) -> str:
    """Returns `text` as a side remark, where `stream` shows that and colours are not switched off."""
    return text if plain(stream) or os.environ.get("NO_COLOR") else f"\x1b[2m{text}\x1b[0m"


def width() -> int:
    """Returns the terminal's width in cells, at most what reads well."""
    return min(shutil.get_terminal_size().columns, 100)


def write(text: str) -> None:
    """Writes a result, or a part of one, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_line(text: str = "") -> None:
    """Writes a result and ends the line."""
    write(text + "\n")


def say(text: str) -> None:
    """Writes sentences to stdout, broken between words where a terminal shows them."""
    write_line(fitted(text, sys.stdout))


def fitted(text: str, stream: TextIO, *, less: int = 0) -> str:
    """Returns sentences with lines that fit `stream`'s terminal, or `less` of it; as they are for a file or a pipe."""
    if not is_terminal(stream):
        return text
    cells = max(1, shutil.get_terminal_size().columns - less)
    return "\n".join(line for paragraph in text.split("\n") for line in wrapped(paragraph, cells))


def write_json(value: Any) -> None:
    """Writes one JSON object as a line of UTF-8. A name that is no text keeps its bytes as lone surrogates.

    JSON knows neither infinity nor NaN; null stands for them.
    """
    line = json.dumps(msgspec.to_builtins(_builtin(value), enc_hook=_known), ensure_ascii=False)
    # backslashreplace writes a lone surrogate as \udcXX, which is exactly JSON's own escape for it.
    data = line.encode("utf-8", "backslashreplace") + b"\n"
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        write(data.decode("utf-8"))
        return
    binary.write(data)
    binary.flush()


def _builtin(value: Any) -> Any:
    """Returns structs as complete objects: their defaults matter to a program as much as the rest."""
    if isinstance(value, msgspec.Struct):
        return {name: _builtin(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): _builtin(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_builtin(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _known(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def remark(text: str) -> None:
    """Writes a side remark to stderr."""
    _tell(dim(fitted(harmless(text), sys.stderr), sys.stderr))


def aside(text: str) -> None:
    """Writes a remark that only a person at a terminal cares about."""
    if is_terminal(sys.stderr):
        remark(text)


def show_error(info: ErrorInfo) -> None:
    """Writes what happened, why, and what to do next to stderr."""
    text = "\n".join(filter(None, (one_line(info.title), info.message, info.hint)))
    _tell(fitted(harmless(text), sys.stderr))


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens, or the disk is full: the result matters more
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class StatusLine:
    """One line on stderr that is replaced and wiped; nothing at all where nobody sees it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._on = not plain(self._stream)
        self._shown = ""

    def show(self, text: str) -> None:
        """Replaces the line, where it changes."""
        if self._on:
            line = cut(harmless(text), shutil.get_terminal_size().columns - 1)
            if line != self._shown:
                self._send("\r\x1b[K" + dim(line, self._stream))
            self._shown = line

    def clear(self) -> None:
        """Wipes the line, so that a result can be written there."""
        if self._shown:
            self._send("\r\x1b[K")
            self._shown = ""

    def _send(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a progress line is never worth a failure
            self._stream.write(text)
            self._stream.flush()
