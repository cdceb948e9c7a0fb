"""Puts into words what went wrong with a command, and writes what only we can mend to the log. Knows no command."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from pathlib import Path

from desktop.cli import output
from desktop.cli.layout import shown_path
from runtime.errors import ErrorInfo, UserError
from runtime.model_errors import OutOfMemory
from runtime.places import places, write_reason
from runtime.text import _

_DONE, _OUR_BUG, _ACT = 0, 1, 2
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def told(error: Exception) -> int:
    """Says on stderr what went wrong, and why; returns the exit code."""
    if isinstance(error, UserError):
        return _explained(error.info)
    if isinstance(error, MemoryError):
        return _explained(OutOfMemory().info)
    return _system_error(error) if isinstance(error, OSError) else _our_bug(error)


def nobody_reads(error: Exception) -> bool:
    """Returns whether the program that read the output has gone."""
    if not isinstance(error, OSError):
        return False
    return error.errno in (errno.EPIPE, errno.ESHUTDOWN) or (sys.platform == "win32" and error.errno == errno.EINVAL)


def _explained(info: ErrorInfo) -> int:
    output.show_error(info)
    return _ACT


def _system_error(error: OSError) -> int:
    if nobody_reads(error):
        _swallow_output()  # `quern models | head -1`: the reader has seen enough
        return _DONE
    _log_traceback(error)
    return _explained(ErrorInfo(title=_system_words(error), code="system"))


def _system_words(error: OSError) -> str:
    reason = write_reason(error)
    if error.filename is not None:
        return _("“{path}” cannot be used: {reason}.").format(path=shown_path(error.filename), reason=reason)
    if error.errno in _NO_ROOM:  # files with names say theirs
        return _("The output cannot be written: {reason}.").format(reason=reason)
    return reason


def _swallow_output() -> None:
    """Points stdout at nothing, or the interpreter complains about the closed pipe once more while it ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _our_bug(error: Exception) -> int:
    log = _log_traceback(error)
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    if log is None:
        sys.stderr.write("".join(traceback.format_exception(error)))
        sys.stderr.write(_("Quern made a mistake: {what}").format(what=what) + "\n")
    else:
        sentence = _("Quern made a mistake: {what} (the details are in “{path}”).")
        sys.stderr.write(sentence.format(what=what, path=shown_path(log)) + "\n")
    return _OUR_BUG


def _log_traceback(error: Exception) -> Path | None:
    """Adds the traceback to the log file and returns its path; None where it cannot be written."""
    import datetime

    try:
        file = places().logs / "command-line.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"\n{datetime.datetime.now():%Y-%m-%d %H:%M:%S}\n")
            stream.write("".join(traceback.format_exception(error)))
    except (OSError, UserError):
        return None
    return file
