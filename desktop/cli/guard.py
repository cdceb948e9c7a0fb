"""Runs a command in a child of its own, so that there is somebody left to say what happened when native code dies.

A model whose file shrinks while it is mapped, an instruction that the processor lacks, a check that fails in the
library: each of them ends a process at once. The child is forked before anything is imported, so it costs a
millisecond. Where the system cannot fork (Windows), the command runs here. Knows no command.

A command that is asked to end (SIGTERM, SIGHUP) leaves as one that has failed does, through everything it has opened.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from runtime import interrupts

_STDIN = 0  # by its number: a program may have been started without the stream
_ACT = 2  # the exit code for what a person can act on
_ASKED_FOR = frozenset({"SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGQUIT"})  # an end that somebody wanted
_PATIENCE = 5.0  # seconds in which a command that was asked to end must have done so


def guarded(run: Callable[[], int]) -> int:
    """Returns what `run` returns; 2 after a sentence on stderr where it died."""
    if not hasattr(os, "fork"):
        return run()
    from_parent, to_child = os.pipe()
    ending = interrupts.ending()
    held = (*ending, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, held)  # until there is somebody to pass them on
    child = os.fork()
    if child == 0:
        for number in ending:
            signal.signal(number, _leave)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
        os.close(to_child)
        threading.Thread(target=_leave_with_parent, args=(from_parent,), name="guard", daemon=True).start()
        return run()
    os.close(from_parent)
    with _kept_terminal() as restore, _passed_on(child, ending) as asked:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, held)
        status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    restore()
    return 128 + asked[0] if asked else _told(os.WTERMSIG(status))


def _leave(number: int, _frame: FrameType | None) -> None:
    """Ends a command by an exception, so that it leaves no half file, hidden folder or silent terminal.

    Only once: who asks all processes of a terminal asks this one twice, and the second time it is tidying up.
    """
    interrupts.ignore_endings()
    raise SystemExit(128 + number)


def _leave_with_parent(from_parent: int) -> None:
    os.read(from_parent, 1)  # nothing is ever written; it ends when the parent does
    os._exit(128 + signal.SIGTERM)


@contextlib.contextmanager
def _passed_on(child: int, ending: Sequence[int]) -> Iterator[list[int]]:
    """Meanwhile Ctrl-C, which the terminal sends to both, is the child's affair, and what ends us ends the child.

    Yields a list of what came to end us. A child that does not listen is killed.
    """
    asked: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if not asked:
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
        asked.append(number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    def kill(_number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM, *ending)}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, kill)
    for number in ending:
        signal.signal(number, pass_on)
    try:
        yield asked
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _kept_terminal() -> Iterator[Callable[[], None]]:
    """Yields what brings the terminal back to how it is now: a command that dies may leave it without echo."""
    import termios

    try:
        before = termios.tcgetattr(_STDIN)
    except termios.error:  # no terminal
        yield lambda: None
        return
    yield lambda: termios.tcsetattr(_STDIN, termios.TCSANOW, before)


def _told(number: int) -> int:
    """Says why the child died; returns the exit code."""
    if signal.Signals(number).name in _ASKED_FOR:
        return 128 + number
    from dataclasses import replace

    from desktop.cli import output
    from desktop.cli.main import use_saved_language
    from desktop.engine_crash import ChildEnd, explain
    from runtime.text import _

    output.prepare_streams()
    use_saved_language()
    info = explain(ChildEnd(number, crashed=True))
    if info.code == "engine_fault":
        info = replace(
            info, hint=_("Run the command again. If it happens again, the file may be damaged: try another one.")
        )
    output.show_error(info)
    return _ACT
