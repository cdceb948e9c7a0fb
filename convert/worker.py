"""The process of one conversion: reads what is wanted from stdin, writes one JSON event a line, ends when told to.

The first line is a `ConvertRequest`; the end of stdin stops the work, so that nothing goes on when the window is gone.
Whatever `convert.pipeline` yields is passed on under the name of its type. Low in priority: an answer comes first.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from convert.job_request import ConvertRequest
from convert.safe_file import end_soon
from runtime import interrupts
from runtime.engine import StopFlag
from runtime.errors import ErrorInfo, UserError
from runtime.network import close_network
from runtime.places import make_folder, path_of, places
from runtime.text import _, set_language

_LOWER = 10  # steps of niceness
_WORD_BREAK = re.compile(r"(?<!^)(?=[A-Z])")


def events(request: ConvertRequest, stop: StopFlag) -> Iterator[dict[str, Any]]:
    """Yields everything that happens as plain objects: each has an `event`, the last one is `done` or `failed`."""
    try:
        for event in _events_of(request, stop):
            yield {"event": _WORD_BREAK.sub("_", type(event).__name__).lower(), **msgspec.to_builtins(event)}
        yield {"event": "done"}
    except UserError as error:
        yield _failed(error.info)
    except MemoryError:
        yield _failed(UserError(_("There is not enough memory."), code="out_of_memory").info)
    except Exception:  # noqa: BLE001 - the window must hear of every end
        yield _failed(_our_bug(traceback.format_exc()))


def _events_of(request: ConvertRequest, stop: StopFlag) -> Iterator[msgspec.Struct]:
    from convert.options import ConvertOptions
    from convert.pipeline import convert, previews

    target = path_of(request.target)
    if not request.dry_run and target.parent == places().models:
        make_folder(target.parent)  # Quern's own folder is there when it is needed
    options = ConvertOptions(
        source=path_of(request.source), target=target, recipe=request.recipes[0], agreed=request.agreed,
        dry_run=request.dry_run, verify=request.verify, card=request.card,
    )  # fmt: skip
    yield from previews(options, request.recipes, stop) if request.dry_run else convert(options, stop)


def _failed(error: ErrorInfo) -> dict[str, Any]:
    return {"event": "failed", "error": msgspec.to_builtins(error)}


def _our_bug(details: str) -> ErrorInfo:
    title = _("The conversion met an error of its own.")
    cause = _("This is a fault of Quern, not of yours.")
    return UserError(title, cause, _("The details say where."), details=details, code="convert_bug").info


def _lower_priority() -> None:
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_LOWER)


def _own_stdout() -> BinaryIO:
    """Returns the protocol's stream and points file descriptor 1 at stderr, because native code prints."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return ours


def _watch(lines: BinaryIO, stop: StopFlag, target: Path) -> None:
    while lines.readline():
        pass  # nothing is asked of a conversion once it runs
    stop.set()
    end_soon(target, code=0)


def _end_when_asked(stop: StopFlag, target: Path) -> None:
    """Has SIGTERM end the work as the end of stdin does."""

    def asked(number: int) -> None:
        stop.set()
        end_soon(target, code=128 + number)

    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    interrupts.Listener(asked)


def main() -> int:
    """Runs one conversion and returns 0; how it ended is in its last event."""
    interrupts.leave_to_parent()
    close_network()
    out, stop = _own_stdout(), StopFlag()
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=ConvertRequest)
    set_language(request.language)
    watched = sys.stdin.buffer, stop, path_of(request.target)
    _end_when_asked(stop, path_of(request.target))
    threading.Thread(target=_watch, args=watched, name="stdin", daemon=True).start()
    _lower_priority()  # only now: on Linux each thread has its own, and the one that listens must not be held up
    for event in events(request, stop):
        out.write(msgspec.json.encode(event) + b"\n")
    os._exit(0)  # the thread that reads stdin would hold the interpreter up


if __name__ == "__main__":
    raise SystemExit(main())
