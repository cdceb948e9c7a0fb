"""Our own bugs, shown and logged instead of lost: exceptions in slots and threads, and what Qt complains about."""

from __future__ import annotations

import logging
import logging.handlers
import sys
import threading
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, Signal, qInstallMessageHandler

from runtime.errors import ErrorInfo, UserError
from runtime.private_text import plain_traceback, without_private
from runtime.text import _

_log = logging.getLogger(__name__)
_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


class Failures(QObject):
    """Takes exceptions that nobody caught. `happened` carries an `ErrorInfo` for the window, from any thread."""

    happened = Signal(object)

    def install(self) -> None:
        """Takes over from Python's own way of printing them."""
        self._before = (sys.excepthook, threading.excepthook)
        sys.excepthook = self._take
        threading.excepthook = lambda hooked: self._take(
            hooked.exc_type, hooked.exc_value or hooked.exc_type(), hooked.exc_traceback
        )
        self._qt_before = qInstallMessageHandler(_log_qt)

    def uninstall(self) -> None:
        """Gives them back."""
        sys.excepthook, threading.excepthook = self._before
        qInstallMessageHandler(self._qt_before)

    def _take(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, UserError):
            self.happened.emit(error.info)
            return
        _log.error("nobody caught this", exc_info=(kind, error, trace))
        self.happened.emit(_bug(kind, error, trace))


def _bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> ErrorInfo:
    return ErrorInfo(
        title=_("Something went wrong inside Quern."),
        message=f"{kind.__name__}: {error}",
        hint=_("Your chats are safe. You can go on; if it happens again, the details help to find it."),
        details="".join(traceback.format_exception(kind, error, trace)),
        code="bug",
    )


def start_logging(folder: Path) -> None:
    """Sends warnings and worse to a file that is turned over at 1 MB, and to stderr where there is one."""
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    shape = _PlainFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    for handler in (_to_file(folder), _to_stderr()):
        if handler is not None:
            handler.setFormatter(shape)
            root.addHandler(handler)


class _PlainFormatter(logging.Formatter):
    """Writes lines that a person can pass on: without names of their files or what exceptions say of values."""

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None  # what another formatter may have written of it
        return without_private(super().format(record))

    def formatException(self, ei: Any) -> str:
        kind, error, trace = ei
        return plain_traceback(kind, error, trace)


class _FileHandler(logging.handlers.RotatingFileHandler):
    """A log file that is given up in silence: on a full disk each line would else bring a page of traceback."""

    def handleError(self, record: logging.LogRecord) -> None:
        del record


def _to_file(folder: Path) -> logging.Handler | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _FileHandler(
            folder / "window.log", maxBytes=1_000_000, backupCount=2, encoding="utf-8", delay=True
        )
    except OSError:
        return None


def _to_stderr() -> logging.Handler | None:
    if sys.stderr is None:
        return None
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    return handler


def _log_qt(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    logging.getLogger("qt").log(_LEVELS.get(kind, logging.WARNING), "%s %s", context.category or "", message)
