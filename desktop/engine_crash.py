"""Turns the end of an engine process into a sentence with advice. Knows nothing about how the process was run."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from runtime.errors import ErrorInfo, UserError
from runtime.installation import repair_advice
from runtime.text import N_, _

_SHOWN_LINES = 30
_CONTROL_C = 0xC000013A  # how Windows ends a console's processes


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a process ended. On Unix `code` of a crash is the signal's number, on Windows the exception's."""

    code: int
    crashed: bool = False
    started: bool = True  # whether the process ran at all
    greeted: bool = True  # whether it said `Hello`
    stderr: tuple[str, ...] = ()

    def signalled(self, name: str, windows: int = 0) -> bool:
        """Whether it died of the named Unix signal, or of the Windows exception with that number."""
        number = getattr(signal, name, None)
        return self.crashed and ((number is not None and self.code == number) or self.code & 0xFFFFFFFF == windows != 0)

    @property
    def asked(self) -> bool:
        """Whether somebody ended it, politely: no fault of what it was doing."""
        return any(self.signalled(name, _CONTROL_C) for name in ("SIGTERM", "SIGHUP", "SIGINT"))

    def said(self, pattern: str) -> bool:
        """Whether its last lines match a pattern, in any case of letters."""
        return any(re.search(pattern, line, re.IGNORECASE) for line in self.stderr[-_SHOWN_LINES:])


class EngineEnded(UserError):
    """The engine process is gone. Each kind has its own cause and advice."""

    code = "engine_ended"
    title: ClassVar[str] = N_("The engine ended unexpectedly.")
    cause: ClassVar[str] = N_("It gave no reason (exit status {status}).")
    advice: ClassVar[str] = N_("Send again: the model is loaded anew. If it happens again, the details below say more.")

    def __init__(self, end: ChildEnd) -> None:
        super().__init__(
            _(self.title),
            _(self.cause).format(status=end.code),
            _(self.advice),
            details="\n".join((*end.stderr[-_SHOWN_LINES:], f"exit status {end.code}")),
        )


class EngineNotStarted(EngineEnded):
    """The process never ran, or ended before it said `Hello`."""

    code = "engine_not_started"
    title = N_("The engine could not be started.")
    cause = N_("Its program is missing, incomplete or not allowed to run (exit status {status}).")
    advice = N_("Install Quern again, or run its set-up; “quern doctor” shows what is missing.")


class EngineIllegalInstruction(EngineEnded):
    """The library was built for another processor."""

    code = "engine_illegal_instruction"
    cause = N_("It used an instruction that this processor does not have.")
    advice = N_("Try again: from now on other “Processor code” is taken, where there is some; “quern doctor” lists it. "
                "Where Quern was built from its source, run the set-up again.")  # fmt: skip


class EngineOutOfMemory(EngineEnded):
    """The process said that memory ran out."""

    code = "engine_out_of_memory"
    cause = N_("There was not enough memory.")
    advice = N_("Choose a smaller model, a shorter context or a smaller cache type, or close other programs.")


class EngineKilled(EngineEnded):
    """The process was killed from outside."""

    code = "engine_killed"
    cause = N_("The system or another program ended it, most often because memory ran out.")
    advice = N_("Choose a smaller model, a shorter context or a smaller cache type, or close other programs.")


class EngineEndedFromOutside(EngineEnded):
    """Somebody asked the process to end: a person, or the system that is shutting down."""

    code = "engine_ended_from_outside"
    cause = N_("The system or another program ended it.")
    advice = N_("Send again: the model is loaded anew.")


class EngineCheckFailed(EngineEnded):
    """An assertion of the native library failed."""

    code = "engine_check_failed"
    cause = N_("A check inside the engine failed; the details show which.")
    advice = N_("Try other loading settings or another file of this model.")


class EngineCardFailed(EngineEnded):
    """A graphics card, or its driver, gave up while it computed."""

    code = "engine_card_failed"
    cause = N_("The graphics card or its driver failed; the details show how.")
    advice = N_("Send again. If it happens again, update the driver, or choose “CPU” under “Devices” in the settings.")


class EngineFileGone(EngineEnded):
    """A page of the mapped model could not be read."""

    code = "engine_file_gone"
    cause = N_("The model's file could no longer be read: it was shortened, replaced or its disk was taken away.")
    advice = N_("Check the file and load the model again.")


class EngineFault(EngineEnded):
    """The native library crashed in some other way."""

    code = "engine_fault"
    cause = N_("It broke off inside the library that runs the model (exit status {status}).")
    advice = N_("Send again: the model is loaded anew. If it happens again, the file may be damaged: try another one.")


class EngineHung(UserError):
    """The engine did not answer Stop and was ended."""

    code = "engine_hung"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            _("The engine did not stop within {seconds} seconds and was ended.").format(seconds=f"{seconds:.0f}"),
            _("What it had written is kept."),
            _("The next message loads the model again."),
        )


class EngineMismatch(UserError):
    """The child process speaks another version of the protocol."""

    code = "engine_mismatch"

    def __init__(self, found: int, wanted: int) -> None:
        super().__init__(
            _("The engine belongs to another version of Quern."),
            _("It speaks version {found} of their common language; this window needs version {wanted}.").format(
                found=found, wanted=wanted
            ),
            repair_advice(),
        )


_CARD = r"DeviceLost|vk::\w+Error|CUDA error|cuBLAS|ggml_vulkan: .*(failed|error)"
# The first row that fits is taken: what the process said is better evidence than the signal it died of.
_KINDS: tuple[tuple[Callable[[ChildEnd], bool], type[EngineEnded]], ...] = (
    (lambda end: end.signalled("SIGILL", 0xC000001D) or end.said(r"illegal instruction"), EngineIllegalInstruction),
    (
        lambda end: end.said(r"out of (device )?memory|OutOfDeviceMemory|bad_alloc|MemoryError|failed to allocate"),
        EngineOutOfMemory,
    ),
    (lambda end: end.said(_CARD), EngineCardFailed),
    (lambda end: end.said(r"GGML_ASSERT|assertion .*failed"), EngineCheckFailed),
    (lambda end: end.signalled("SIGBUS", 0xC0000006), EngineFileGone),
    (lambda end: end.signalled("SIGKILL"), EngineKilled),
    (lambda end: end.asked, EngineEndedFromOutside),
    (lambda end: end.crashed and end.started, EngineFault),
    (lambda end: not end.started or not end.greeted, EngineNotStarted),
)


def explain(end: ChildEnd) -> ErrorInfo:
    """Returns what happened and what to do, in the person's language."""
    kind = next((kind for fits, kind in _KINDS if fits(end)), EngineEnded)
    return kind(end).info
