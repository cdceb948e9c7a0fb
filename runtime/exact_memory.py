"""How much memory a model will take, exactly: a child process asks the engine's library and reads no weights.

A child, because the library may end its process over a file, take all memory or never come back; here it has a limit
of time and of memory. Both ends are in this file: `measured` is the parent's, `main` the child's, and they exchange one
JSON object each.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil

from runtime import interrupts, memory, text
from runtime.errors import ErrorInfo, UserError
from runtime.gguf_header import GgufHeader
from runtime.memory import MemoryEstimate
from runtime.network import close_network
from runtime.params import LoadParams
from runtime.places import path_of, spelled_path
from runtime.text import _

TIME_LIMIT = 20.0  # seconds; a model of a cold disk takes two
MEMORY_LIMIT = 600_000_000  # bytes that the child may hold, itself included
_LOOK_EVERY = 0.05


class MemoryUnknown(UserError):
    """The exact figure could not be had; the estimate remains. `reason` is a sentence."""

    code = "memory_unknown"

    def __init__(self, reason: str) -> None:
        super().__init__(
            _("How much memory this model takes could not be measured."),
            reason,
            _("The estimate from the file's header remains."),
        )
        self.reason = reason


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    params: LoadParams
    context_length: int
    language: str


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, or what was wrong."""

    measured: MemoryEstimate | None = None
    error: ErrorInfo | None = None


def measured(header: GgufHeader, params: LoadParams, *, seconds: float = TIME_LIMIT) -> MemoryEstimate:
    """Returns what loading takes with these parameters, as the engine works it out. Takes 0.2 seconds and more.

    Raises `MemoryUnknown`, and whatever `UserError` loading would raise.
    """
    length = memory.estimate(header, params).context_length
    request = _Request(path=spelled_path(header.path), params=params, context_length=length, language=text.language())
    answer = _decoded(_asked(msgspec.json.encode(request), seconds))
    if answer.error is not None:
        raise UserError.from_info(answer.error)
    if answer.measured is None:
        raise MemoryUnknown(_("The process that measures it gave no answer."))
    return answer.measured


def _decoded(line: bytes) -> _Answer:
    try:
        return msgspec.json.decode(line, type=_Answer)
    except msgspec.DecodeError:
        return _Answer()


def _asked(request: bytes, seconds: float) -> bytes:
    """Returns what the child wrote. Raises `MemoryUnknown` where it died, or was ended for its limits."""
    try:
        with interrupts.held_back():
            child = subprocess.Popen(
                _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                cwd=None if getattr(sys, "frozen", False) else Path(__file__).resolve().parent.parent,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )  # fmt: skip
    except OSError as error:
        raise MemoryUnknown(error.strerror or str(error)) from error
    with child:
        try:
            written = _watched(child, request, seconds)
        finally:
            child.kill()
    if child.returncode != 0:
        raise MemoryUnknown(
            _("The process that measures it ended with status {status}.").format(status=child.returncode)
        )
    return written


def _watched(child: subprocess.Popen[bytes], request: bytes, seconds: float) -> bytes:
    deadline = time.monotonic() + seconds
    sent: bytes | None = request
    while True:
        try:
            return child.communicate(sent, timeout=_LOOK_EVERY)[0]
        except subprocess.TimeoutExpired:
            sent = None  # it is on its way
            if time.monotonic() > deadline:
                raise MemoryUnknown(_("It took longer than {n} seconds.").format(n=f"{seconds:g}")) from None
            if _held(child.pid) > MEMORY_LIMIT:
                raise MemoryUnknown(_("The file makes the engine take more memory than any model needs.")) from None


def _held(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _command() -> list[str]:
    if getattr(sys, "frozen", False):
        return [sys.executable, "measure"]
    return [sys.executable, "-m", "runtime.exact_memory"]


# --- the child's end --------------------------------------------------------------------------------------------


def main() -> int:
    """Answers the request on stdin. Returns the exit code."""
    close_network()
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # native code prints
        request = msgspec.json.decode(sys.stdin.buffer.read(), type=_Request)
        answers.write(msgspec.json.encode(_answer(request)))
    return 0


def _answer(request: _Request) -> _Answer:
    from runtime.llama import sizing

    text.set_language(request.language)
    try:
        return _Answer(measured=sizing.measure(path_of(request.path), request.params, request.context_length))
    except UserError as error:
        return _Answer(error=error.info)
    except MemoryError:
        return _Answer()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
