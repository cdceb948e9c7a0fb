"""One process for each profile: the first one listens, a second one asks it to come forward. Knows no window.

    instance = SingleInstance(places().data)
    if not instance.acquire(open_path): return 0      # the running window has been raised
    instance.raised.connect(window.come_forward)
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import time
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, Signal, Slot
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from runtime.errors import UserError
from runtime.places import UnwritablePlace, make_folder, shown_path
from runtime.text import _

_log = logging.getLogger(__name__)
_CONNECT_MS, _ANSWER_MS = 300, 2000
_PATIENCE_SECONDS = 3.0  # the first process may hold the lock and not listen yet
_MAX_MESSAGE = 65_536
_ANSWER = b"raised\n"


class AlreadyRunning(UserError):
    """Another process has this profile and does not answer."""

    code = "already_running"

    def __init__(self, profile: Path, pid: int) -> None:
        super().__init__(
            _("Quern is already running and does not answer."),
            _("Process {pid} uses “{path}”.").format(pid=pid, path=shown_path(profile)),
            _("Wait a moment and try again, or end that process."),
        )


class _Visitor(QObject):
    """The connection of a second start, for as long as it lasts."""

    asked = Signal(str)

    def __init__(self, socket: QLocalSocket, parent: QObject) -> None:
        super().__init__(parent)
        self._socket = socket
        socket.setParent(self)
        socket.readyRead.connect(self.read)
        socket.disconnected.connect(self.deleteLater)

    @Slot()
    def read(self) -> None:
        if not self._socket.canReadLine() and self._socket.bytesAvailable() <= _MAX_MESSAGE:
            return
        message = _decoded(bytes(self._socket.readLine(_MAX_MESSAGE).data()))
        if message is None:
            self._socket.abort()
            return
        self._socket.write(_ANSWER)
        self._socket.flush()
        self.asked.emit(message)


class SingleInstance(QObject):
    """The right to use a profile, held until `release` or the end of the process, however that comes."""

    raised = Signal(str)  # a second start: the path it was asked to open, or ""

    def __init__(self, profile: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._profile = profile
        self._name = _server_name(profile)
        self._lock: QLockFile | None = None
        self._server: QLocalServer | None = None

    def acquire(self, open_path: str = "") -> bool:
        """Takes the profile and returns True, or has the running window raised and returns False.

        Blocks for three seconds at most, before there is a window. Raises `AlreadyRunning` where another process has
        the profile and does not answer. A profile that cannot be written is nobody's: it returns True.
        """
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            if self._take_lock():
                self._listen()
                return True
            if self._ask_to_raise(open_path):
                return False
            if time.monotonic() >= until:
                raise AlreadyRunning(self._profile, self._holder())
            time.sleep(0.05)

    def release(self) -> None:
        """Gives the profile back. May be called twice."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._lock is not None:
            self._lock.unlock()
            self._lock = None

    def _take_lock(self) -> bool:
        try:
            make_folder(self._profile)
        except UnwritablePlace as error:
            _log.warning("no lock is taken: %s", error)
            return True
        self._lock = QLockFile(str(self._profile / "quern.lock"))
        self._lock.setStaleLockTime(0)  # age says nothing; a lock is stale when its process is gone
        if self._lock.tryLock(0):
            return True
        if self._holder() == os.getpid():  # left by a killed process that had our number, as happens in containers
            self._lock.removeStaleLockFile()
            return self._lock.tryLock(0)
        if self._lock.error() == QLockFile.LockError.LockFailedError:
            return False
        _log.warning("no lock is taken: %s cannot be written", self._profile)
        return True

    def _holder(self) -> int:
        """Returns the process id in the lock, 0 where it names none."""
        assert self._lock is not None
        return next((part for part in self._lock.getLockInfo() if type(part) is int), 0)

    def _listen(self) -> None:
        QLocalServer.removeServer(self._name)  # left by a process that was killed; the lock says that nobody listens
        server = QLocalServer(self)
        server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        server.newConnection.connect(self._connected)
        if server.listen(self._name):
            self._server = server
        else:
            _log.warning("a second start cannot raise this window: %s", server.errorString())

    @Slot()
    def _connected(self) -> None:
        while self._server is not None and self._server.hasPendingConnections():
            visitor = _Visitor(self._server.nextPendingConnection(), self)
            visitor.asked.connect(self.raised)
            visitor.read()  # it may have spoken before anybody listened

    def _ask_to_raise(self, open_path: str) -> bool:
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if not socket.waitForConnected(_CONNECT_MS):
            return False
        path = os.path.abspath(open_path) if open_path else ""  # the other process has another current folder
        socket.write(json.dumps({"raise": True, "open": path}).encode() + b"\n")
        answered = socket.waitForReadyRead(_ANSWER_MS) and bytes(socket.readAll().data()) == _ANSWER
        socket.abort()
        return answered


def _decoded(line: bytes) -> str | None:
    """Returns the path that a second start wants opened, "" for none; None for what is no such message."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    path = message.get("open") if isinstance(message, dict) and message.get("raise") is True else None
    return path if isinstance(path, str) else None


def _server_name(profile: Path) -> str:
    """Returns the socket's name for a profile: short, because socket paths end at about a hundred bytes."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(profile))).hexdigest()[:16]
    name = f"quern-{digest}"
    if os.name == "nt":
        return name
    return str(Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / name)
