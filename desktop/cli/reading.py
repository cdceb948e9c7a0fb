"""Runs what an engine reads for a command: progress on stderr, Ctrl-C, and the result. Knows no particular command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from desktop.cli import output
from desktop.cli.interrupt import Interrupts
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.reading import ReadProgress
from runtime.text import _

Result = TypeVar("Result")


def read(start: Callable[[StopFlag], Iterator[ReadProgress | Result]]) -> Result:
    """Returns the result that the events end with. Raises `KeyboardInterrupt` after Ctrl-C, and `UserError`."""
    status = output.StatusLine()
    with Interrupts() as interrupts:
        try:
            for event in start(interrupts.stop):
                if not isinstance(event, ReadProgress):
                    return event
                status.show(_progress_words(event))
        except UserError:
            if interrupts.stop.is_set():
                raise KeyboardInterrupt from None
            raise
        finally:
            status.clear()
    raise AssertionError("reading ends with a result")


def _progress_words(event: ReadProgress) -> str:
    percent = int(100 * event.done / max(event.total, 1))
    return _("Reading: {done} of {total} tokens ({percent} %)").format(
        done=f"{event.done:,}", total=f"{event.total:,}", percent=percent
    )
