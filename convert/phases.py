"""Runs a phase of a conversion in a process of its own: what loads engines may die, and must be stopped at once.

The parent writes one request and reads events, a line each. Knows of the phases only their names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import msgspec

from convert.measuring import Measured, MeasureProgress, MeasureRequest, measure
from convert.verification import Verified, VerifyProgress, VerifyRequest, verify
from convert.writing import ConversionStopped
from runtime import interrupts, places, text
from runtime.child_imports import with_our_packages
from runtime.engine import StopFlag
from runtime.errors import ErrorInfo, UserError
from runtime.large_pages import with_large_pages
from runtime.network import close_network
from runtime.text import _, set_language

_LOOK = 0.1  # seconds between two looks at the flag
_MOST_LOG = 4000  # characters of what a phase that died said


class PhaseDied(UserError):
    """The process of a phase ended without a result."""

    code = "phase_died"

    def __init__(self, status: int, log: str) -> None:
        super().__init__(
            _("A part of the conversion ended unexpectedly (exit status {status}).").format(status=status),
            _("A negative status is a signal: -4 is an illegal instruction, -9 a kill, often for lack of memory."),
            _("Leave that part out with --no-verify or --no-card, or run “quern doctor”."),
            details=log,
        )


class Failed(msgspec.Struct, frozen=True, tag=True):
    """What a person has to be told."""

    error: ErrorInfo


class Envelope(msgspec.Struct, frozen=True):
    """A request, and the language to speak."""

    language: str
    request: VerifyRequest | MeasureRequest


PhaseEvent = VerifyProgress | Verified | MeasureProgress | Measured


def _spelled(value: Any) -> Any:
    if isinstance(value, Path):
        return places.spelled_path(value)
    raise NotImplementedError(type(value))


def _read(kind: type, value: Any) -> Any:
    if kind is Path:
        return places.path_of(value)
    raise NotImplementedError(kind)


_encoder = msgspec.json.Encoder(enc_hook=_spelled)


# --- the parent's side -----------------------------------------------------------------------------------------------


def run_phase(request: VerifyRequest | MeasureRequest, stop: StopFlag) -> Iterator[PhaseEvent]:
    """Yields the phase's events; the last one is its result.

    Raises `ConversionStopped`, `PhaseDied`, and what the phase reports. However it ends, its process is gone.
    """
    with interrupts.held_back():
        process = subprocess.Popen(
            _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=with_large_pages(with_our_packages()),
        )  # fmt: skip
    lines: Queue[bytes | None] = Queue()
    log: list[bytes] = []
    readers = [
        threading.Thread(target=_put_lines, args=(process.stdout, lines), daemon=True),
        threading.Thread(target=_keep_end, args=(process.stderr, log), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        yield from _events(process, Envelope(text.language(), request), lines, log, stop)
    finally:
        process.kill()
        process.wait()
        for reader in readers:
            reader.join()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def _command() -> list[str]:
    if getattr(sys, "frozen", False):
        return [sys.executable, "phase"]
    return [sys.executable, "-P", "-m", "convert.phases"]  # -P: nothing is imported from the current folder


def _events(
    process: subprocess.Popen[bytes], envelope: Envelope, lines: Queue[bytes | None], log: list[bytes], stop: StopFlag
) -> Iterator[PhaseEvent]:
    assert process.stdin is not None
    try:
        process.stdin.write(_encoder.encode(envelope) + b"\n")
        process.stdin.flush()
    except OSError:
        pass  # it died at once, which is told below
    decoder = msgspec.json.Decoder(PhaseEvent | Failed, dec_hook=_read)
    while True:
        line = _next(lines, stop)
        if line is None:
            raise PhaseDied(process.wait(), b"".join(log).decode("utf-8", "replace"))
        event = decoder.decode(line)
        if isinstance(event, Failed):
            raise UserError.from_info(event.error)
        yield event
        if isinstance(event, Verified | Measured):
            return


def _next(lines: Queue[bytes | None], stop: StopFlag) -> bytes | None:
    while True:
        if stop.is_set():
            raise ConversionStopped
        try:
            return lines.get(timeout=_LOOK)
        except Empty:
            continue


def _put_lines(stream: Any, lines: Queue[bytes | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _keep_end(stream: Any, log: list[bytes]) -> None:
    for line in stream:
        log.append(line)
        while sum(map(len, log)) > _MOST_LOG and len(log) > 1:
            del log[0]


# --- the child's side ------------------------------------------------------------------------------------------------


def main() -> int:
    """Reads a request from stdin, and writes its events to stdout."""
    interrupts.leave_to_parent()
    close_network()
    stream = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # native code prints
    envelope = msgspec.json.decode(sys.stdin.buffer.readline(), type=Envelope, dec_hook=_read)
    set_language(envelope.language)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for event in _work(envelope.request):
        stream.write(_encoder.encode(event) + b"\n")
    return 0


def _work(request: VerifyRequest | MeasureRequest) -> Iterator[PhaseEvent | Failed]:
    try:
        yield from verify(request) if isinstance(request, VerifyRequest) else measure(request)
    except UserError as error:
        yield Failed(error.info)
    except MemoryError:
        yield Failed(UserError(_("There is not enough memory."), code="out_of_memory").info)


def _end_with_parent() -> None:
    """Ends this process when its stdin closes: nobody waits for it any more."""
    while os.read(0, 4096):  # not the stream, whose lock this thread would hold while the interpreter ends
        pass
    os._exit(1)


if __name__ == "__main__":
    raise SystemExit(main())
