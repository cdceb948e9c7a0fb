"""Runs one command line and returns its exit code: 0 done, 1 our bug, 2 something to put right, 130 interrupted."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from pathlib import Path

import click

from desktop.cli import output
from desktop.cli.commands import COMPLETION_VARIABLE, CommandGroup, usage_problem
from desktop.cli.layout import shown_path
from runtime.errors import ErrorInfo, UserError
from runtime.model_errors import OutOfMemory
from runtime.places import places
from runtime.text import _, set_language

DONE, OUR_BUG, ACT, INTERRUPTED = 0, 1, 2, 130


def run(arguments: list[str]) -> int:
    """Runs `quern ARGUMENTS` and returns the exit code. Prints one clear message where something went wrong."""
    output.prepare_streams()
    use_saved_language()
    try:
        code = _invoke(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except UserError as error:
        return _explained(error.info)
    except click.UsageError as error:
        return _explained(usage_problem(error).info)
    except OSError as error:
        return _system_error(error)
    except MemoryError:
        return _explained(OutOfMemory().info)
    except Exception as error:  # noqa: BLE001 - whatever else goes wrong is our bug, and is told as one
        return _our_bug(error)


def _invoke(arguments: list[str]) -> int:
    if COMPLETION_VARIABLE in os.environ:
        from desktop.cli import completion

        return completion.answer()
    group = CommandGroup()
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    try:
        with group.make_context("quern", arguments) as context:
            return group.invoke(context) or DONE
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.Abort:
        return INTERRUPTED


def use_saved_language() -> None:
    """Speaks the language of the saved settings."""
    from desktop.cli.options import read_saved

    set_language("system")  # what is wrong with the file is put into words while it is read
    saved = read_saved()
    set_language(saved.app.get("language", "system"))
    if saved.notes and not read_saved().notes:  # it was set aside, and whoever reads after this finds nothing
        for note in saved.notes:
            output.remark(note)


def _explained(info: ErrorInfo) -> int:
    output.show_error(info)
    return ACT


def _system_error(error: OSError) -> int:
    if error.errno in (errno.EPIPE, errno.ESHUTDOWN) or (sys.platform == "win32" and error.errno == errno.EINVAL):
        _swallow_output()  # `quern models | head -1`: the reader has seen enough
        return DONE
    title = error.strerror or str(error)
    if error.filename is not None:
        title = _("“{path}” cannot be used: {reason}.").format(path=shown_path(error.filename), reason=error.strerror)
    _log_traceback(error)
    return _explained(ErrorInfo(title=title, code="system"))


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
    return OUR_BUG


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
