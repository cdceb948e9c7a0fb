"""The engine's process: reads commands from stdin, owns one model, writes events to stdout.

The main thread loads and evaluates. A second thread reads stdin and does nothing else, so that Stop works at any
moment; a third one answers questions that need no evaluation, while an answer runs. The process ends when stdin
closes. Knows no Qt.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec

from runtime import interrupts, protocol, text
from runtime.engine import Engine, LoadListener, StopFlag
from runtime.engines import open_engine
from runtime.errors import ErrorInfo, UserError
from runtime.model_errors import OutOfMemory
from runtime.model_hash import ModelHashes
from runtime.network import close_network
from runtime.places import path_of, shown_path
from runtime.priority import prefer_answers
from runtime.private_text import plain_traceback
from runtime.text import _
from runtime.text_merge import merged

_LEAVE_AFTER = 2.0  # seconds from the end of stdin until the process ends whatever it is doing
_PROGRESS_STEPS = 100
_LONGEST_LINE = 1 << 28  # bytes; what is longer comes in pieces, none of which is a command
_NO_COMMAND = (msgspec.DecodeError, RecursionError)  # what decoding raises; the second one for endless nesting

OpenEngine = Callable[..., Engine]


class NoModelLoaded(UserError):
    """A command came that needs a model."""

    code = "no_model"

    def __init__(self) -> None:
        super().__init__(_("No model is loaded."), _("Nothing can answer before one is."), _("Choose a model first."))


class SystemRefused(UserError):
    """The system did not do what a command needs: a drive is gone, a folder may not be entered, a name is too long."""

    code = "system_refused"

    def __init__(self, error: OSError) -> None:
        title = _("The system refused what the engine needs.")
        if error.filename is not None:
            title = _("“{path}” cannot be used.").format(path=shown_path(Path(os.fsdecode(error.filename))))
        super().__init__(
            title,
            _("The system says: {error}.").format(error=error.strerror or str(error)),
            _("Try again; if it stays so, look after the drive, its room and its permissions."),
        )


class Worker:
    """Answers commands from `lines` with events to `out`; `run` returns when the commands end."""

    def __init__(self, lines: Iterator[bytes], out: BinaryIO, *, open_engine: OpenEngine = open_engine) -> None:
        self._lines = lines
        self._out = out
        self._open_engine = open_engine
        self._engine: Engine | None = None
        self._engine_lock = threading.Lock()  # a model is not freed while the questions' thread tokenizes with it
        self._work: queue.SimpleQueue[tuple[protocol.Command, StopFlag] | None] = queue.SimpleQueue()
        self._questions: queue.SimpleQueue[protocol.Command | None] = queue.SimpleQueue()
        self._write_lock = threading.Lock()
        self._stops: dict[int, StopFlag] = {}
        self._stops_lock = threading.Lock()

    def run(self) -> None:
        self._send(protocol.Hello(id=0, pid=os.getpid()))
        threading.Thread(target=self._read, name="commands", daemon=True).start()
        threading.Thread(target=self._answer_questions, name="questions", daemon=True).start()
        while (work := self._work.get()) is not None:
            self._guarded(*work)
        self._close_engine()

    # --- the reading thread -------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            for line in self._lines:
                self._take(line)
        finally:  # also after a fault of our own: a process that no longer hears must not stay
            self._end()

    def _take(self, line: bytes) -> None:
        try:
            self._receive(protocol.decode_command(line))
        except _NO_COMMAND as error:
            self._refuse(line, error)

    def _end(self) -> None:
        self._work.put(None)
        self._questions.put(None)
        with self._stops_lock:
            for flag in self._stops.values():
                flag.set()
        self._leave()

    def _leave(self) -> None:
        """Ends the process soon, should native code not notice the stop flag."""
        leave = threading.Timer(_LEAVE_AFTER, os._exit, (0,))
        leave.daemon = True
        leave.start()

    def _receive(self, command: protocol.Command) -> None:
        match command:
            case protocol.Stop():
                with self._stops_lock:
                    flag = self._stops.get(command.id)
                    if flag is not None:
                        flag.set()
            case protocol.Tokenize() | protocol.CountTokens() | protocol.MeasureContext():
                self._questions.put(command)
            case protocol.IdentifyModel():  # reads gigabytes, and nobody waits for it
                work = command, self._stoppable(command)
                threading.Thread(target=self._guarded, args=work, name="identify", daemon=True).start()
            case _:
                self._work.put((command, self._stoppable(command)))

    def _stoppable(self, command: protocol.Command) -> StopFlag:
        flag = StopFlag()
        with self._stops_lock:
            self._stops[command.id] = flag
        return flag

    def _refuse(self, line: bytes, error: Exception) -> None:
        """Answers a line that is no command; it names the id if there is one, so that nobody waits for ever."""
        try:
            number = int(msgspec.json.decode(line).get("id", 0))
        except (*_NO_COMMAND, AttributeError, TypeError, ValueError):
            number = 0
        problem = UserError(
            _("The engine did not understand a command."), str(error), _("Quern and its engine may differ in version.")
        )
        self._send(protocol.Failed(id=number, error=problem.info))

    # --- the other threads --------------------------------------------------------------------------------------

    def _answer_questions(self) -> None:
        while (command := self._questions.get()) is not None:
            self._guarded(command, StopFlag())

    def _guarded(self, command: protocol.Command, stop: StopFlag) -> None:
        """Carries a command out; whatever goes wrong becomes its closing event."""
        try:
            for event in self._carry_out(command, stop):
                self._send(event)
        except UserError as error:
            self._send(protocol.Failed(id=command.id, error=error.info))
        except OSError as error:
            sys.stderr.write(plain_traceback(type(error), error, error.__traceback__) + "\n")
            self._send(protocol.Failed(id=command.id, error=SystemRefused(error).info))
        except MemoryError:
            self._send(protocol.Failed(id=command.id, error=OutOfMemory().info))
        except Exception as error:  # noqa: BLE001 - the process must go on, and the parent is told
            sys.stderr.write(plain_traceback(type(error), error, error.__traceback__) + "\n")
            self._send(protocol.Failed(id=command.id, error=_our_bug(traceback.format_exc())))
        finally:
            self._forget(command, stop)

    def _forget(self, command: protocol.Command, stop: StopFlag) -> None:
        """Lets go of a command's stop flag; the id may already stand for a later command with a flag of its own."""
        with self._stops_lock:
            if self._stops.get(command.id) is stop:
                del self._stops[command.id]

    def _carry_out(self, command: protocol.Command, stop: StopFlag) -> Iterator[protocol.Event]:
        match command:
            case protocol.Load():
                yield self._load(command, stop)
            case protocol.Generate():
                command.request.sampling.validated()
                for event in merged(self._model().generate(command.request, stop)):
                    yield msgspec.structs.replace(event, id=command.id)
            case protocol.Tokenize():
                with self._engine_lock:
                    ids = self._model().tokenize(command.text, special=command.special)
                    pieces = self._model().pieces(ids)
                yield protocol.Tokenized(id=command.id, ids=tuple(ids), pieces=tuple(pieces))
            case protocol.CountTokens():
                with self._engine_lock:
                    yield protocol.TokensCounted(id=command.id, total=self._counted(command))
            case protocol.MeasureContext():
                with self._engine_lock:
                    measured = self._model().measure(command.request)
                yield msgspec.structs.replace(measured, id=command.id)
            case protocol.SaveState():
                saved = self._model().save_state(path_of(command.path))
                yield msgspec.structs.replace(saved, id=command.id)
            case protocol.LoadState():
                loaded = self._model().load_state(path_of(command.path))
                yield msgspec.structs.replace(loaded, id=command.id)
            case protocol.Replay():
                for compared in self._model().replay(command.receipt, stop, anyway=command.anyway):
                    yield msgspec.structs.replace(compared, id=command.id)
            case protocol.IdentifyModel():
                sha256 = ModelHashes().of(path_of(self._model().info.path), stop=stop)
                yield protocol.ModelIdentified(id=command.id, sha256=sha256)
            case protocol.Unload():
                self._close_engine()
                yield protocol.Unloaded(id=command.id)

    def _counted(self, command: protocol.CountTokens) -> int:
        model = self._model()
        if command.prompt is None:
            return model.count(command.messages, command.sampling)
        return len(model.begin_marks()) + len(model.tokenize(command.prompt, special=True))

    def _load(self, command: protocol.Load, stop: StopFlag) -> protocol.Loaded:
        text.set_language(command.language)
        self._close_engine()
        self._engine = self._open_engine(
            path_of(command.path),
            command.params.validated(),
            listener=self._load_listener(command.id),
            stop=stop,
        )
        return protocol.Loaded(id=command.id, info=self._engine.info)

    def _load_listener(self, number: int) -> LoadListener:
        shown = -1

        def report(fraction: float) -> bool:
            nonlocal shown
            step = int(fraction * _PROGRESS_STEPS)
            if step != shown:
                shown = step
                self._send(protocol.LoadProgress(id=number, fraction=fraction))
            return True

        return report

    def _model(self) -> Engine:
        if self._engine is None:
            raise NoModelLoaded
        return self._engine

    def _close_engine(self) -> None:
        with self._engine_lock:
            if self._engine is not None:
                self._engine.close()
                self._engine = None

    def _send(self, event: protocol.Event) -> None:
        line = protocol.encode_line(event)
        with self._write_lock:
            try:
                self._out.write(line)
                self._out.flush()
            except (BrokenPipeError, ValueError):
                os._exit(0)  # the parent is gone; nobody is left to answer


def _our_bug(details: str) -> ErrorInfo:
    return UserError(
        _("The engine met an error of its own."),
        _("This is a fault of Quern, not of yours."),
        _("The details say where; the engine goes on."),
        details=details,
        code="engine_bug",
    ).info


def _own_stdout() -> BinaryIO:
    """Returns the protocol's stream and points file descriptor 1 at stderr, because native code prints."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return ours


def _stdin_lines() -> Iterator[bytes]:
    return iter(partial(sys.stdin.buffer.readline, _LONGEST_LINE), b"")


def main(argv: list[str] | None = None) -> int:
    """Runs the engine process until stdin closes."""
    interrupts.leave_to_parent()
    close_network()
    prefer_answers()
    Worker(_stdin_lines(), _own_stdout()).run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
