"""Takes a model file through every door that a person could open it by, and watches time, memory and words.

`Doors` keeps two processes: one that runs commands of the command line one after the other (this file, run as a
program), and an engine. What dies is counted and started anew.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from running_clock import RunningClock, Taken

LONGEST, LARGEST = 10.0, 500_000_000  # seconds and bytes of one door


@dataclass
class Findings:
    """What happened to one file: how each door answered, and what should not have happened."""

    answers: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


class Doors:
    """A context manager; `folder` is where the file of the moment is written, `clock` says what took how long."""

    def __init__(self, folder: Path, clock: RunningClock) -> None:
        self._path, self._clock = folder / "hostile.gguf", clock
        self._held_before = _held(os.getpid())
        self._commands: subprocess.Popen[str] | None = None
        self._engine: Any = None

    def __enter__(self) -> Doors:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._commands is not None:
            self._end_commands()
        if self._engine is not None:
            self._engine.close()

    def try_all(self, data: bytes) -> Findings:
        """Writes the file and opens it by every door."""
        from runtime import describe
        from runtime.engine_process import EngineProcess
        from runtime.gguf_header import read_header

        self._path.write_bytes(data)
        found = Findings()
        here = self._clock.timing_this_thread
        self._door(found, "open", lambda: read_header(self._path).name, here())
        self._door(found, "list", lambda: describe.gguf_file(self._path, source="test").reason or "runnable", here())
        for words in (["info", str(self._path)], ["tokenize", str(self._path), "Hello ▁wörld 12\n"]):
            self._command(found, words)
        self._engine = self._engine or EngineProcess()
        there = self._clock.timing(self._engine.pid, killed_after=LONGEST + 1)
        self._door(found, "load and answer", self._load_and_answer, there)
        if self._engine is not None:
            self._check_memory(found, "engine", _most_held(self._engine.pid))
        self._check_memory(found, "open or list", _held(os.getpid()) - self._held_before)
        return found

    def _door(self, found: Findings, door: str, open_it: Any, timing: AbstractContextManager[Taken]) -> None:
        from runtime.errors import UserError

        with timing as taken:
            try:
                found.answers[door] = open_it()
            except UserError as error:
                found.answers[door] = f"{error.info.code}: {error.info.title} {error.info.message}"
                if not error.info.title.strip():
                    found.faults.append(f"{door}: no sentence")
                if error.info.code in ("engine_bug", "error"):
                    found.faults.append(f"{door}: {error.info.details or error.info.title}")
        self._check_time(found, door, taken)

    def _load_and_answer(self) -> str:
        from runtime.engine_process import EngineDied
        from runtime.messages import Message, Role
        from runtime.params import LoadParams, SamplingParams
        from runtime.protocol import GenerationRequest, TextDelta

        sampling = SamplingParams(max_tokens=4, seed=1)
        try:
            info = self._engine.load(self._path, LoadParams(context_length=128, threads=1))
            message = (Message(Role.USER, "Hello, wörld"),)
            asked = {"messages": message} if info.has_template else {"prompt": "Hello, wörld"}
            events = list(self._engine.generate(GenerationRequest(sampling=sampling, **asked)))
        except EngineDied:
            self._engine.close()
            self._engine = None
            raise
        return "answered " + "".join(event.text for event in events if isinstance(event, TextDelta))

    # --- the command line ---------------------------------------------------------------------------------------

    def _command(self, found: Findings, words: list[str]) -> None:
        door = words[0]
        if self._commands is None:
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
            self._commands = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, env=environment,
                                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # fmt: skip
        assert self._commands.stdin is not None
        assert self._commands.stdout is not None
        with self._clock.timing(self._commands.pid, killed_after=LONGEST + 5) as taken:
            self._commands.stdin.write(json.dumps(words) + "\n")
            self._commands.stdin.flush()
            line = self._commands.stdout.readline()
        if not line:
            found.answers[door] = "died"
            found.faults.append(f"{door}: the process died with {self._end_commands()}")
            return
        self._check_answer(found, door, json.loads(line), taken)

    def _check_answer(self, found: Findings, door: str, answer: dict[str, Any], taken: Taken) -> None:
        found.answers[door] = f"{answer['code']}: {answer['err'] or answer['out'][:60]}"
        if answer["code"] not in (0, 2) or "Traceback" in answer["err"] + answer["out"]:
            found.faults.append(f"{door}: {answer['err']}")
        if answer["code"] == 2 and not answer["err"].strip():
            found.faults.append(f"{door}: no sentence")
        self._check_time(found, door, taken)
        assert self._commands is not None
        self._check_memory(found, door, _most_held(self._commands.pid))

    def _end_commands(self) -> int:
        assert self._commands is not None
        for pipe in (self._commands.stdin, self._commands.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        with self._clock.timing(self._commands.pid, killed_after=LONGEST):
            code = self._commands.wait()
        self._commands = None
        return code

    def _check_time(self, found: Findings, door: str, taken: Taken) -> None:
        if taken.seconds > LONGEST:
            found.faults.append(f"{door}: took {taken.seconds:.0f} s")

    def _check_memory(self, found: Findings, door: str, held: int) -> None:
        if held > LARGEST:
            found.faults.append(f"{door}: holds {held / 1e6:.0f} MB")


def _held(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def _most_held(pid: int) -> int:
    """Returns the most memory that a process held since this was asked last; elsewhere than on Linux, what it holds."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
    except FileNotFoundError:
        return _held(pid)
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    """Runs commands from stdin, one JSON list a line, and says how each of them ended."""
    from desktop.cli.main import run

    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        sys.stdout, sys.stderr = out, err
        try:
            code = run(json.loads(line))
        finally:
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        texts = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err) if not stream.flush()]
        answers.write(json.dumps({"code": code, "out": texts[0], "err": texts[1]}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
