"""A child process that does one long piece of work and tells of it in lines of JSON. Knows no kind of work.

    job = Job(command, first_line, name="Convert to Q8_0")
    job.received.connect(…)          # one dictionary for each line
    jobs.add(job)                    # `Jobs` runs one after the other

Closing stdin asks the child to stop; after a moment it is ended.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import deque
from enum import StrEnum
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QProcess, QTimer, Signal, Slot

from desktop.engine_child import LineSplitter
from runtime.errors import ErrorInfo
from runtime.text import _

_log = logging.getLogger(__name__)
_LONGEST_LINE = 8 * 1024 * 1024
_KEPT_LINES = 60
_STOP_MS = 3_000  # then it is deaf: a child stops between two blocks
_SLICE_BYTES, _SLICE_SECONDS = 65_536, 0.02
_LEAST_SECONDS = 1.5  # before that, a guess of the time left would jump


class JobState(StrEnum):
    """How far a job is."""

    WAITING = "waiting"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


ENDED = (JobState.DONE, JobState.FAILED, JobState.STOPPED)


class Job(QObject):
    """One piece of work. Its child says `{"event": …}` lines; `done` or `failed` closes it."""

    received = Signal(object)  # dict
    changed = Signal()  # state or progress
    ended = Signal()

    def __init__(self, command: list[str], first_line: bytes, *, name: str) -> None:
        super().__init__()
        self.name = name
        self._command, self._first_line = command, first_line
        self._state = JobState.WAITING
        self._error: ErrorInfo | None = None
        self._lines, self._messages = LineSplitter(_LONGEST_LINE), deque[str](maxlen=_KEPT_LINES)
        self._fraction, self._phase, self._phase_began = 0.0, "", 0.0
        self._closed_by: dict[str, Any] | None = None
        self._process: QProcess | None = None
        self._patience = QTimer(self, singleShot=True, interval=_STOP_MS)
        self._patience.timeout.connect(self.kill)

    # --- what is known ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> JobState:
        """How far it is."""
        return self._state

    @property
    def active(self) -> bool:
        """True until it has ended, also while it waits."""
        return self._state not in ENDED

    @property
    def error(self) -> ErrorInfo | None:
        """Why it failed."""
        return self._error

    @property
    def fraction(self) -> float:
        """How much of the present phase is done, from 0 to 1."""
        return self._fraction

    @property
    def phase(self) -> str:
        """The name of the event that told of progress last."""
        return self._phase

    @property
    def seconds_left(self) -> float | None:
        """A guess for the present phase; None where there is nothing to guess from yet."""
        spent = time.monotonic() - self._phase_began
        if self._state is not JobState.RUNNING or self._fraction <= 0 or spent < _LEAST_SECONDS:
            return None
        return spent * (1 - self._fraction) / self._fraction

    # --- running ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the child."""
        assert self._process is None, "a job runs once"
        self._process = process = QProcess(self)
        process.readyReadStandardOutput.connect(self._read)
        process.readyReadStandardError.connect(self._read_messages)
        process.finished.connect(self._finished)
        process.errorOccurred.connect(self._could_not_start)
        if not getattr(sys, "frozen", False):
            process.setWorkingDirectory(str(Path(__file__).resolve().parent.parent))
        self._set(JobState.RUNNING)
        process.start(self._command[0], self._command[1:])
        process.write(self._first_line)

    def stop(self) -> None:
        """Ends the work; what it has written so far goes away with it."""
        if self._state is JobState.WAITING:
            self._end(JobState.STOPPED)
        elif self._state is JobState.RUNNING and self._process is not None:
            self._set(JobState.STOPPING)
            self._process.closeWriteChannel()
            self._patience.start()

    @Slot()
    def kill(self) -> None:
        """Ends the child now."""
        if self._process is not None:
            self._process.kill()

    def kill_and_wait(self, seconds: float = 5.0) -> None:
        """Ends the child before it returns: for the end of the application."""
        if self._process is not None and self._process.state() != QProcess.ProcessState.NotRunning:
            self._process.kill()
            self._process.waitForFinished(int(seconds * 1000))

    # --- what the child says ---------------------------------------------------------------------------------------

    @Slot()
    def _read(self) -> None:
        assert self._process is not None
        until = time.monotonic() + _SLICE_SECONDS
        while self._process.bytesAvailable() and time.monotonic() < until:
            for line in self._lines.feed(bytes(self._process.read(_SLICE_BYTES).data())):
                self._receive(line)
        if self._process.bytesAvailable():
            QTimer.singleShot(0, self._read)
        elif self._process.state() == QProcess.ProcessState.NotRunning and self.active:
            self._close()

    def _receive(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            _log.warning("a line of %d bytes was no event", len(line))
            return
        if event["event"] in ("done", "failed"):
            self._closed_by = event
        self._note_progress(event)
        self.received.emit(event)

    def _note_progress(self, event: dict[str, Any]) -> None:
        done, total = event.get("done"), event.get("total")
        if not isinstance(done, int | float) or not isinstance(total, int | float) or total <= 0:
            return
        if event["event"] != self._phase:
            self._phase, self._phase_began = event["event"], time.monotonic()
        self._fraction = min(max(done / total, 0.0), 1.0)
        self.changed.emit()

    @Slot()
    def _read_messages(self) -> None:
        assert self._process is not None
        text = bytes(self._process.readAllStandardError().data()).decode("utf-8", "replace")
        self._messages.extend(line.rstrip() for line in text.splitlines() if line.strip())

    @Slot(int, QProcess.ExitStatus)
    def _finished(self, _code: int, _status: QProcess.ExitStatus) -> None:
        self._read_messages()
        self._patience.stop()
        self._read()

    @Slot(QProcess.ProcessError)
    def _could_not_start(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self._process is not None:
            self._messages.append(self._process.errorString())
            QTimer.singleShot(0, self._close)

    def _close(self) -> None:
        if self._closed_by is not None and self._closed_by["event"] == "done":
            self._end(JobState.DONE)
        elif self._state is JobState.STOPPING:
            self._end(JobState.STOPPED)
        else:
            self._error = _told(self._closed_by) if self._closed_by is not None else self._died()
            self._end(JobState.FAILED)

    def _died(self) -> ErrorInfo:
        return ErrorInfo(
            title=_("The work ended before it was done."),
            message=self._messages[-1] if self._messages else _("Its process is gone and said nothing."),
            hint=_("Nothing was changed. Start it again."), details="\n".join(self._messages), code="job_died",
        )  # fmt: skip

    def _end(self, state: JobState) -> None:
        self._set(state)
        self.ended.emit()

    def _set(self, state: JobState) -> None:
        self._state = state
        self.changed.emit()


class Jobs(QObject):
    """Runs jobs one after the other. Jobs have no parent: whoever follows one may keep it beyond this object.

    After `stop_all` or `kill_now` nothing starts any more: a job that comes then ends at once, as stopped.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs: list[Job] = []
        self._beside: list[Job] = []
        self._closing = False

    @property
    def all(self) -> tuple[Job, ...]:
        """Every job that was added, in order, and was not removed."""
        return tuple(self._jobs)

    @property
    def active(self) -> tuple[Job, ...]:
        """The jobs that run or wait."""
        return tuple(job for job in self._jobs if job.active)

    @property
    def busy(self) -> bool:
        """Whether any process is still there."""
        return bool(self.active) or bool(self._beside)

    def add(self, job: Job) -> None:
        """Takes a job in line; it starts when it is the first."""
        job.ended.connect(self._next)
        self._jobs.append(job)
        if self._closing:
            job.stop()
        self._next()

    def run_beside(self, job: Job) -> None:
        """Starts a short job at once, whatever else runs; it is forgotten when it has ended."""
        if self._closing:
            job.stop()
            return
        self._beside.append(job)
        job.ended.connect(self._forget_ended)
        job.start()

    @Slot()
    def _forget_ended(self) -> None:
        self._beside = [job for job in self._beside if job.active]
        self.changed.emit()

    def remove(self, job: Job) -> None:
        """Forgets a job that has ended."""
        if not job.active:
            self._jobs.remove(job)
            self.changed.emit()

    def stop_all(self) -> None:
        """Ends everything, what waits first."""
        self._closing = True
        for job in (*self._beside, *reversed(self.active)):
            job.stop()

    def kill_now(self) -> None:
        """Leaves no process behind, at once."""
        self._closing = True
        for job in (*self._jobs, *self._beside):
            job.kill_and_wait()

    @Slot()
    def _next(self) -> None:
        active = self.active
        if active and active[0].state is JobState.WAITING and not self._closing:
            active[0].start()
        self.changed.emit()


def _told(event: dict[str, Any]) -> ErrorInfo:
    """Returns the error of a `failed` event; a child of another version may say less than it should."""
    said = event.get("error")
    said = said if isinstance(said, dict) else {}
    texts = {name: value for name, value in said.items() if name in ErrorInfo.__slots__ and isinstance(value, str)}
    return ErrorInfo(**{"title": _("The work failed."), **texts})
