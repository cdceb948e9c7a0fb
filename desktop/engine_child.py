"""One engine process under Qt: lines of JSON in and out, its messages kept, its end noticed. Knows no model.

Whatever the child prints, the window goes on: lines that are no event are logged, a line without end is dropped.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, QProcess, QTimer, Signal, Slot

from desktop.engine_crash import ChildEnd
from desktop.engine_log import EngineLog
from runtime import protocol
from runtime.large_pages import with_large_pages

_log = logging.getLogger(__name__)
_RING_LINES, _LONGEST_MESSAGE = 200, 2000
_SLICE_BYTES, _SLICE_SECONDS = 65_536, 0.02
_BAD_LINES = (msgspec.MsgspecError, ValueError, RecursionError)
_NOT_FOUND = 127  # what a shell says of a program that cannot be started
MAX_LINE = 64 * 1024 * 1024


class LineSplitter:
    """Cuts a stream of bytes into lines; a line longer than `limit` is dropped whole."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the lines that are complete now, without their ends."""
        first, *rest = data.split(b"\n")
        self._keep(first)
        lines = []
        for part in rest:
            lines += self._finished()
            self._keep(part)
        return lines

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._limit:
            self._parts.append(part)
        else:
            self._parts.clear()

    def _finished(self) -> list[bytes]:
        line = b"".join(self._parts).rstrip(b"\r")
        if self._size > self._limit:
            _log.warning("a line of %d bytes from the engine was dropped", self._size)
        self._parts.clear()
        self._size = 0
        return [line] if line else []


class EngineChild(QObject):
    """A running engine process; one object for one process."""

    received = Signal(object)  # protocol.Event
    ended = Signal(object)  # ChildEnd, once, after the last event

    def __init__(self, command: list[str], log: EngineLog, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._command = command
        self._log = log
        self._lines = LineSplitter()
        self._messages: deque[str] = deque(maxlen=_RING_LINES)
        self._unfinished = b""
        self._end: ChildEnd | None = None
        self.greeted = False
        self.leaving = False
        self._process = QProcess(self)
        self._process.setEnvironment([f"{name}={value}" for name, value in with_large_pages().items()])
        self._process.readyReadStandardOutput.connect(self._read)
        self._process.readyReadStandardError.connect(self._read_messages)
        self._process.finished.connect(self._finished)
        self._process.errorOccurred.connect(self._failed)
        self._patience = QTimer(self, singleShot=True)
        self._patience.timeout.connect(self.kill)

    def start(self) -> None:
        """Starts the process; `ended` says so where that does not work."""
        if not getattr(sys, "frozen", False):
            self._process.setWorkingDirectory(str(Path(__file__).resolve().parent.parent))
        self._process.start(self._command[0], self._command[1:])

    @property
    def pid(self) -> int:
        """The process id, 0 while it does not run."""
        return self._process.processId()

    def send(self, command: protocol.Command) -> None:
        """Hands over a command; returns at once. A process that is gone takes no notice."""
        if self._process.state() != QProcess.ProcessState.NotRunning:
            self._process.write(protocol.encode_line(command))

    def leave(self, seconds: float) -> None:
        """Asks the process to end by closing its stdin, and kills it after `seconds`."""
        self.leaving = True
        self._process.closeWriteChannel()
        self._patience.start(int(seconds * 1000))

    def kill(self) -> None:
        """Ends the process now; `ended` follows."""
        self._process.kill()

    def kill_and_wait(self, seconds: float = 5.0) -> None:
        """Ends the process before it returns: the last resort when the application itself ends."""
        self.leaving = True  # also where nobody was asked before: whatever it was doing is not to blame
        if self._process.state() != QProcess.ProcessState.NotRunning:
            self._process.kill()
            self._process.waitForFinished(int(seconds * 1000))

    @Slot()
    def _read(self) -> None:
        """Reads for a moment, and comes back for the rest: a flood of lines must not hold up the window."""
        until = time.monotonic() + _SLICE_SECONDS
        while self._process.bytesAvailable() and time.monotonic() < until:
            for line in self._lines.feed(bytes(self._process.read(_SLICE_BYTES).data())):
                self._receive(line)
        if self._process.bytesAvailable():
            QTimer.singleShot(0, self._read)
        elif self._end is not None:
            end, self._end = replace(self._end, greeted=self.greeted), None
            self.ended.emit(end)

    def _receive(self, line: bytes) -> None:
        try:
            event = protocol.decode_event(line)
        except _BAD_LINES as error:
            # Not the line itself: it may hold an answer.
            _log.warning("a line of %d bytes was no event: %s", len(line), type(error).__name__)
            return
        self.greeted = self.greeted or isinstance(event, protocol.Hello)
        self.received.emit(event)

    @Slot()
    def _read_messages(self) -> None:
        data = bytes(self._process.readAllStandardError().data())
        *complete, self._unfinished = (self._unfinished + data).split(b"\n")
        if len(self._unfinished) > _LONGEST_MESSAGE:
            complete.append(self._unfinished)
            self._unfinished = b""
        self._keep_messages(complete)

    def _keep_messages(self, raw: list[bytes]) -> None:
        lines = [line[:_LONGEST_MESSAGE].decode("utf-8", "replace").rstrip() for line in raw]
        self._messages.extend(line for line in lines if line)
        self._log.write([line for line in lines if line])

    @Slot(int, QProcess.ExitStatus)
    def _finished(self, code: int, status: QProcess.ExitStatus) -> None:
        self._read_messages()
        self._keep_messages([self._unfinished])
        self._patience.stop()
        crashed = status == QProcess.ExitStatus.CrashExit
        self._end = ChildEnd(code, crashed=crashed, stderr=tuple(self._messages))
        self._read()

    @Slot(QProcess.ProcessError)
    def _failed(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._messages.append(self._process.errorString())
            self._patience.stop()
            self._end = ChildEnd(_NOT_FOUND, started=False, stderr=tuple(self._messages))
            QTimer.singleShot(0, self._read)  # `start` has not returned yet
