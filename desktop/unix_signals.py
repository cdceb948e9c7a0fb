"""SIGINT, SIGTERM, SIGHUP close the window as its close button does. Woken by a file descriptor, so nothing polls."""

from __future__ import annotations

import contextlib
import signal
import socket
from types import FrameType

from PySide6.QtCore import QObject, QSocketNotifier, Signal

# The last one when the terminal is closed. By name: Windows imports this file, too, and has not all of them.
_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class UnixSignals(QObject):
    """Turns these signals into a Qt signal. Qt's event loop runs no Python, so Python's own handler would wait."""

    asked_to_end = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._reading, self._writing = socket.socketpair()
        for end in (self._reading, self._writing):
            end.setblocking(False)
        self._before = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, _noted) for number in _ENDING if not _without_terminal(number)}
        self._notifier = QSocketNotifier(self._reading.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._wake)

    def close(self) -> None:
        """Gives the signals back to whoever had them."""
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(self._before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._reading.close()
        self._writing.close()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            numbers = self._reading.recv(64)
            if set(numbers) & set(_ENDING):
                self.asked_to_end.emit()


def _noted(_number: int, _frame: FrameType | None) -> None:
    """The wakeup descriptor has already told; without a Python handler the process would simply die."""


def _without_terminal(number: int) -> bool:
    """Whether `nohup` started it: then the terminal's end is not to be heard."""
    return number == getattr(signal, "SIGHUP", None) and signal.getsignal(number) is signal.SIG_IGN
