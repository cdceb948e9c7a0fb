"""What the set-up shows while it works, and the programs it runs. Knows nothing about what is being set up.

On a terminal the current step is one line that changes in place; elsewhere (a log, CI) it is a plain line now and
then. Every program's output goes to the log file.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

_PLAIN_INTERVAL_S = 20.0
_LIVE_INTERVAL_S = 0.1

# A pattern in a failed program's output, and what a person can do about it.
ADVICE = (
    (r"No space left on device|Disk quota exceeded", "The disk is full. Free about 5 GB and run this again."),
    (
        r"Killed signal|terminated program cc1plus|out of memory|Cannot allocate memory|compiler is out of heap space",
        "The memory ran out. Close other programs, or set CMAKE_BUILD_PARALLEL_LEVEL=1, and run this again.",
    ),
    (
        r"ConnectionError|Failed to establish|Could not fetch URL|Temporary failure|ReadTimeout|timed out",
        "The package index could not be reached. Check the network or the proxy and run this again.",
    ),
    (
        r"No matching distribution found|Could not find a version",
        "The package index does not have this version for your Python. Try Python 3.11, 3.12 or 3.13.",
    ),
    (r"xcode-select|xcrun: error", "Install Apple's command line tools: xcode-select --install"),
    (
        r"No CMAKE_CXX?_COMPILER|CMAKE_CXX?_COMPILER not set|could not find any instance of Visual Studio",
        (
            "Install a C++ compiler; on Windows: winget install Microsoft.VisualStudio.2022.BuildTools --override "
            '"--passive --wait --add Microsoft.VisualStudio.Workload.VCTools --includeRecommended"'
        ),
    ),
    (r"Permission denied|EACCES", "A file could not be written. Check who owns this folder."),
)
_TELLING = re.compile(r"error[: ]|fatal|undefined reference|No space|Killed|not found|FAILED", re.IGNORECASE)


class SetUpError(Exception):
    """Something that stops the set-up and that a person can act on; its text is all they see."""


class Console:
    """The set-up's voice: one line a step on `stream`, everything that programs write in the file `log`."""

    def __init__(self, log: Path, stream: TextIO | None = None) -> None:
        self.log = log
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._title = ""
        self._started = self._shown = 0.0

    def begin_log(self) -> None:
        """Empties the log, so that it holds one set-up."""
        self.log.unlink(missing_ok=True)

    def say(self, text: str) -> None:
        """Shows one line."""
        self._clear()
        self._stream.write(text + "\n")
        self._stream.flush()

    @contextmanager
    def step(self, title: str, takes: str = "") -> Iterator[None]:
        """Shows `title` and how long it may take while the block runs, and how long it took afterwards."""
        self._title, self._started = title, time.monotonic()
        self._shown = self._started
        self.say(f"{title} ({takes}) …" if takes else f"{title} …")
        yield
        seconds = time.monotonic() - self._started
        self.say(f"{title}: done in {duration(seconds)}.")

    def progress(self, text: str) -> None:
        """Shows how far the current step is: in place on a terminal, at most every twenty seconds elsewhere."""
        now = time.monotonic()
        if now - self._shown < (_LIVE_INTERVAL_S if self._live else _PLAIN_INTERVAL_S):
            return
        self._shown = now
        if self._live:
            line = f"  {text}"[: shutil.get_terminal_size().columns - 1]
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()
        else:
            self.say(f"  {self._title}: {text}")

    @property
    def elapsed(self) -> float:
        """Seconds since the current step began."""
        return time.monotonic() - self._started

    def run(
        self,
        command: Sequence[str],
        *,
        failure: str,
        on_line: Callable[[str], None] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Runs a program with its output in the log.

        Raises SetUpError, beginning with the sentence `failure`, when the program cannot start or ends with an error.
        """
        code, tail = self.attempt(command, on_line=on_line, env=env, cwd=cwd)
        if code != 0:
            raise SetUpError(failure_text(failure, tail, self.log))

    def attempt(
        self,
        command: Sequence[str],
        *,
        on_line: Callable[[str], None] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> tuple[int, list[str]]:
        """Runs a program like `run` and returns its exit status and the last lines it wrote."""
        tail: deque[str] = deque(maxlen=400)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ {' '.join(command)}\n")
            try:
                process = _start(command, env, cwd)
            except OSError as error:
                return 127, [f"error: {error}"]
            with process:
                try:
                    _follow(process, log, tail, on_line)
                except BaseException:
                    _end(process)
                    raise
        return process.returncode, list(tail)

    def _clear(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[K")


def _start(command: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=dict(env) if env is not None else None,
        cwd=cwd,
        start_new_session=True,  # so that it and all that it started can be ended together
    )


def _end(process: subprocess.Popen[str]) -> None:
    if sys.platform == "win32":
        process.terminate()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)


def _follow(
    process: subprocess.Popen[str], log: TextIO, tail: deque[str], on_line: Callable[[str], None] | None
) -> None:
    assert process.stdout is not None
    for raw in process.stdout:
        line = raw.rstrip()
        log.write(line + "\n")
        tail.append(line)
        if on_line is not None:
            on_line(line)


def end_as_interrupted() -> None:
    """Makes what asks this process to end (a cancelled CI job, a terminal that is closed) end it as Ctrl-C does.

    So the programs it has started end with it, and nothing half-made is left.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as below nohup
            signal.signal(number, signal.default_int_handler)


def failure_text(failure: str, tail: Sequence[str], log: Path) -> str:
    """Returns what to show of a failed program: the sentence, its telling lines, advice, and where the log is."""
    shown = [line[:200] for line in tail if _TELLING.search(line)][-8:] or [line[:200] for line in tail[-8:]]
    text = "\n".join(tail)
    advice = [sentence for pattern, sentence in ADVICE if re.search(pattern, text, re.IGNORECASE)][:1]
    return "\n".join([failure, *(f"    {line}" for line in shown), *advice, f"The whole output is in {log}."])


def duration(seconds: float) -> str:
    """Returns a length of time as people say it: "4 s", "2 min 5 s"."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
