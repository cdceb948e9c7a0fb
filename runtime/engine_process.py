"""Talks to an engine process without an event loop: for measuring, checking and scripts. Knows no Qt."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from runtime import interrupts, protocol, text
from runtime.errors import UserError
from runtime.large_pages import with_large_pages
from runtime.params import LoadParams
from runtime.places import spelled_path
from runtime.protocol import EngineInfo, GenerationRequest
from runtime.receipt import Receipt
from runtime.text import _

_CLOSE_SECONDS = 5


class EngineDied(UserError):
    """The engine process ended without closing its command."""

    code = "engine_died"

    def __init__(self, exit_status: int | None) -> None:
        super().__init__(
            _("The engine stopped unexpectedly (exit status {status}).").format(status=exit_status),
            _("A negative status is a signal: -4 is an illegal instruction, -9 a kill, often for lack of memory."),
            _("Run “quern doctor” to see what this machine can do."),
        )
        self.exit_status = exit_status


def engine_command() -> list[str]:
    """Returns the command line that starts an engine process, also in a frozen application."""
    if getattr(sys, "frozen", False):
        return [sys.executable, "engine"]
    return [sys.executable, "-m", "runtime.worker"]


class EngineProcess:
    """One engine process. A context manager; leaving it ends the process.

    Every call raises `UserError` for what the engine reports, and `EngineDied` when the process is gone.
    """

    def __init__(self, *, command: list[str] | None = None, environment: Mapping[str, str] | None = None) -> None:
        with interrupts.held_back():
            self._process = subprocess.Popen(
                command or engine_command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=None if getattr(sys, "frozen", False) else Path(__file__).resolve().parent.parent,
                env=with_large_pages(os.environ if environment is None else environment),
            )
        self._next_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def load(self, path: Path, params: LoadParams) -> EngineInfo:
        """Loads a model and returns what the engine says of it."""
        spelled, language = spelled_path(path.absolute()), text.language()  # it lives in another folder
        number = self._send(lambda id_: protocol.Load(id=id_, path=spelled, params=params, language=language))
        *_progress, loaded = self._events(number)
        assert isinstance(loaded, protocol.Loaded)
        return loaded.info

    def generate(self, request: GenerationRequest) -> Iterator[protocol.GenerationEvent]:
        """Yields the events of one answer as they come, `Finished` last."""
        yield from self._events(self._send(lambda id_: protocol.Generate(id=id_, request=request)))

    def tokenize(self, words: str, *, special: bool = False) -> protocol.Tokenized:
        """Returns the ids and pieces of a text."""
        number = self._send(lambda id_: protocol.Tokenize(id=id_, text=words, special=special))
        tokenized = next(self._events(number))
        assert isinstance(tokenized, protocol.Tokenized)
        return tokenized

    def save_state(self, path: Path) -> protocol.StateSaved:
        """Saves what the model has read to a file."""
        spelled = spelled_path(path.absolute())
        (saved,) = self._events(self._send(lambda id_: protocol.SaveState(id=id_, path=spelled)))
        assert isinstance(saved, protocol.StateSaved)
        return saved

    def load_state(self, path: Path) -> protocol.StateLoaded:
        """Takes a saved state back; a file of no use is refused with a note."""
        spelled = spelled_path(path.absolute())
        (loaded,) = self._events(self._send(lambda id_: protocol.LoadState(id=id_, path=spelled)))
        assert isinstance(loaded, protocol.StateLoaded)
        return loaded

    def replay(self, receipt: Receipt, *, anyway: bool = False) -> protocol.Replayed:
        """Makes an answer again and returns how it compares."""
        number = self._send(lambda id_: protocol.Replay(id=id_, receipt=receipt, anyway=anyway))
        *_progress, replayed = self._events(number)
        assert isinstance(replayed, protocol.Replayed)
        return replayed

    def identify(self) -> tuple[str, ...]:
        """Returns the SHA-256 of each of the loaded model's files."""
        (found,) = self._events(self._send(lambda id_: protocol.IdentifyModel(id=id_)))
        assert isinstance(found, protocol.ModelIdentified)
        return found.sha256

    def close(self) -> None:
        """Closes the engine's stdin, waits for it to leave, and ends it if it does not."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(_CLOSE_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _send(self, make: Any) -> int:
        self._next_id += 1
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(protocol.encode_line(make(self._next_id)))
            self._process.stdin.flush()
        except OSError as error:
            raise EngineDied(self._process.wait()) from error
        return self._next_id

    def _events(self, number: int) -> Iterator[Any]:
        """Yields the events that answer command `number`, the closing one last."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = protocol.decode_event(line)
            if event.id != number:
                continue
            if isinstance(event, protocol.Failed):
                raise UserError.from_info(event.error)
            yield event
            if isinstance(event, protocol.CLOSING):
                return
        raise EngineDied(self._process.wait())
