"""The window's side of the engine process: starts it, asks it, stops it, survives its death. Knows no chat.

One command that needs the model runs at a time; further answers wait in order. After a crash the next `generate`
starts the engine anew, loads the same model, and then asks. Every answer is closed by exactly one of `finished` and
`failed`, whatever happens to the process.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from desktop.engine_child import EngineChild
from desktop.engine_crash import ChildEnd, EngineHung, EngineMismatch, explain
from desktop.engine_log import EngineLog
from desktop.fatal_models import ANSWERING, FatalModels
from desktop.plain_requests import plain_messages, plain_request
from desktop.state_file import StateFile
from desktop.stop_patience import STOP_SECONDS, StopPatience
from desktop.store.records import clean_text
from desktop.text_batches import TextBatches
from runtime import protocol
from runtime.engine import SAMPLING_DEFAULTS
from runtime.engine_process import engine_command
from runtime.errors import ErrorInfo, UserError
from runtime.messages import Message
from runtime.params import LoadParams, SamplingParams
from runtime.places import Places, spelled_path
from runtime.protocol import EngineInfo, FinishReason, GenerationRequest, Usage
from runtime.reading import ReadingStopped
from runtime.reasoning import JoinedText, joined
from runtime.receipt import Receipt
from runtime.text import _, language

_log = logging.getLogger(__name__)
CLOSE_SECONDS = 2.0  # everything is gone within three seconds of closing the window


_Work = protocol.Load | protocol.Generate | protocol.Replay | protocol.SaveState | protocol.LoadState
_Stoppable = protocol.Load | protocol.Generate | protocol.Replay  # the others end by themselves, and soon
_Question = protocol.Tokenize | protocol.CountTokens | protocol.MeasureContext | protocol.IdentifyModel
_Answered = protocol.Tokenized | protocol.TokensCounted | protocol.ContextMeasured | protocol.ModelIdentified


class EngineState(StrEnum):
    """What the engine is doing, for the window."""

    OFF = "off"  # no model is loaded
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    GENERATING = "generating"
    STOPPING = "stopping"
    CRASHED = "crashed"  # the process is gone; the next message starts it again


class NoModelChosen(UserError):
    """Something was asked that needs a model before one was chosen."""

    code = "no_model_chosen"

    def __init__(self) -> None:
        super().__init__(
            _("No model is loaded."), _("Nothing can answer before one is."), _("Choose a model, or open a .gguf file.")
        )


class LoadCancelled(UserError):
    """The person stopped loading."""

    code = "load_cancelled"

    def __init__(self) -> None:
        super().__init__(_("Loading the model was stopped."), "", _("Load it again, or choose another model."))


class EngineClient(QObject):
    """The engine as the window sees it. Every method returns at once; signals bring the answers."""

    state_changed = Signal(object)  # EngineState
    load_progress = Signal(float)  # 0 to 1
    loaded = Signal(object)  # EngineInfo
    load_failed = Signal(object)  # ErrorInfo
    began = Signal(int)  # the answer's turn has come
    prompt_progress = Signal(int, object)  # id, protocol.PromptProgress
    text = Signal(int, str, int)  # id, new text, tokens so far; reasoning comes between marks (`runtime.reasoning`)
    text_replaced = Signal(int, int)  # id, how many of its last characters the next text takes the place of
    context_trimmed = Signal(int, object)  # id, positions in the request that were left out
    finished = Signal(int, object)  # id, protocol.Finished
    failed = Signal(int, object)  # id, ErrorInfo
    state_saved = Signal(int, object)  # id, protocol.StateSaved
    state_loaded = Signal(int, object)  # id, protocol.StateLoaded
    replayed = Signal(int, object)  # id, protocol.Replayed
    identified = Signal(int, object)  # id, the SHA-256 of each of the model's files
    tokenized = Signal(int, object)  # id, protocol.Tokenized
    counted = Signal(int, int)  # id, tokens
    measured = Signal(int, object)  # id, protocol.ContextMeasured
    crashed = Signal(object)  # ErrorInfo
    closed = Signal()  # after `shutdown`: no process is left

    def __init__(
        self,
        places: Places,
        *,
        state: StateFile | None = None,
        command: Callable[[], list[str]] = engine_command,
        stop_seconds: float = STOP_SECONDS,
        close_seconds: float = CLOSE_SECONDS,
        parent: QObject | None = None,
    ) -> None:
        """`state` is where models that end their engine are remembered, `command` what starts the process."""
        super().__init__(parent)
        self._command = command
        self._close_seconds = close_seconds
        self._patience = StopPatience(stop_seconds)
        self._fatal = FatalModels(state or StateFile(places.state_file))
        self._log = EngineLog(places.logs)
        self._child: EngineChild | None = None
        self._wanted: tuple[str, LoadParams] | None = None
        self._info: EngineInfo | None = None
        self._queue: deque[_Work] = deque()
        self._active: _Work | None = None
        self._questions: set[int] = set()
        self._next_id = 0
        self._stop_asked = self._broken = self._hung = self._closing = False
        self._variant = ""  # the processor code that the process was asked to run on; it cannot be changed later
        self._mismatch: ErrorInfo | None = None
        self._shown = EngineState.OFF
        self._answering = ""  # the spelled path of the model that answers
        self._joined = JoinedText()
        self._batches = TextBatches(self)
        self._batches.batch.connect(self.text)
        self._overdue = QTimer(self, singleShot=True)
        self._overdue.timeout.connect(self._enforce_stop)

    # --- what is known ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> EngineState:
        """What the engine is doing now."""
        if self._child is None or self._child.leaving:
            return EngineState.CRASHED if self._broken else EngineState.OFF
        if not self._child.greeted:
            return EngineState.STARTING
        if isinstance(self._active, _Stoppable) and self._stop_asked:
            return EngineState.STOPPING
        if isinstance(self._active, protocol.Load):
            return EngineState.LOADING
        if isinstance(self._active, protocol.Generate | protocol.Replay):
            return EngineState.GENERATING
        return EngineState.READY if self._info is not None else EngineState.OFF

    @property
    def info(self) -> EngineInfo | None:
        """The loaded model; None where none is loaded."""
        return self._info

    @property
    def wanted(self) -> tuple[str, LoadParams] | None:
        """The model that was asked for last and how, also while it is loaded or after a crash."""
        return self._wanted

    @property
    def pid(self) -> int:
        """The process id of the engine, 0 where none runs."""
        return self._child.pid if self._child is not None else 0

    def fatal_moment(self, path: str | os.PathLike[str]) -> str:
        """Returns when this very file ended its engine: loading or answering (`fatal_models`), empty for never.

        Such a model is not loaded by itself at the start.
        """
        return self._fatal.moment(spelled_path(os.path.abspath(path)))

    # --- asking ----------------------------------------------------------------------------------------------------

    def load(self, path: str | os.PathLike[str], params: LoadParams) -> None:
        """Loads a model in place of the present one; a running answer is stopped first, waiting ones use the new."""
        self._wanted = (os.path.abspath(path), params)
        self._drop_loads()
        self._queue.appendleft(self._load_command())
        self._stop_active()
        self._pump()

    def generate(self, request: GenerationRequest) -> int:
        """Asks for an answer and returns its id; it waits where another one is being written."""
        command = protocol.Generate(id=self._new_id(), request=plain_request(request))
        if self._wanted is None:
            self._fail_soon(command.id, NoModelChosen().info)
        else:
            self._queue.append(command)
            QTimer.singleShot(0, self._pump)  # the caller knows the id before the first signal
        return command.id

    def stop(self, id: int | None = None) -> None:
        """Ends an answer, or, without an id, whatever runs now. Enforced: a deaf engine is ended and started again."""
        waiting = next((command for command in self._queue if command.id == id), None)
        if waiting is not None:
            self._queue.remove(waiting)
            self._close_unbegun(waiting)
        elif isinstance(self._active, _Stoppable) and id in (None, self._active.id):
            self._stop_active()
            self._show_state()
        elif self._active is None and id is None and self._has_waiting_load():
            self._cancel_waiting_load()

    def replay(self, receipt: Receipt, *, anyway: bool = False) -> int:
        """Makes an answer again and compares it; `replayed` or `failed` answers, progress comes as for any answer."""
        command = protocol.Replay(id=self._new_id(), receipt=receipt, anyway=anyway)
        if self._wanted is None:
            self._fail_soon(command.id, NoModelChosen().info)
        else:
            self._queue.append(command)
            QTimer.singleShot(0, self._pump)
        return command.id

    def identify(self) -> int:
        """Asks for the model's content hash; `identified` or `failed` answers, also while an answer runs."""
        return self._ask(protocol.IdentifyModel(id=self._new_id()))

    def save_state(self, path: Path) -> int:
        """Saves what the engine has read, if it is free; returns the id of `state_saved`, 0 where nothing is saved."""
        if self._info is None or self._active is not None or self._queue:
            return 0
        command = protocol.SaveState(id=self._new_id(), path=spelled_path(path))
        self._queue.append(command)
        self._pump()
        return command.id

    def load_state(self, path: Path) -> int:
        """Takes a saved state back before the next answer; `state_loaded` says whether it was of use."""
        command = protocol.LoadState(id=self._new_id(), path=spelled_path(path))
        if self._wanted is not None:
            self._queue.append(command)
        return command.id

    def tokenize(self, text: str) -> int:
        """Asks for the tokens of a text; `tokenized` or `failed` answers, also while an answer runs."""
        return self._ask(protocol.Tokenize(id=self._new_id(), text=clean_text(text)))

    def count(self, messages: tuple[Message, ...], sampling: SamplingParams = SAMPLING_DEFAULTS) -> int:
        """Asks for the length of a conversation in tokens; `counted` or `failed` answers, also while an answer runs.

        `sampling` names the chat template.
        """
        command = protocol.CountTokens(id=self._new_id(), messages=plain_messages(messages), sampling=sampling)
        return self._ask(command)

    def count_text(self, text: str) -> int:
        """Asks for the length of a raw prompt in tokens; `counted` or `failed` answers, also while an answer runs."""
        return self._ask(protocol.CountTokens(id=self._new_id(), prompt=clean_text(text)))

    def measure(self, request: GenerationRequest) -> int:
        """Asks what a request would take of the context; `measured` or `failed` answers, also while an answer runs."""
        return self._ask(protocol.MeasureContext(id=self._new_id(), request=plain_request(request)))

    def unload(self) -> None:
        """Gives the model's memory back, by ending the process. Waiting answers are closed as stopped."""
        self._wanted = None
        self._close_waiting()
        if self._child is not None and not self._child.leaving:
            self._child.leave(self._close_seconds)
        self._show_state()

    def shutdown(self) -> None:
        """Ends the process without blocking; `closed` says when it is gone, within `close_seconds` and a moment."""
        self._closing = True
        self.unload()
        if self._child is None:
            QTimer.singleShot(0, self._closed)

    def kill_now(self) -> None:
        """Leaves no process behind, at once: for the very end of the application, where no event loop runs any more."""
        if self._child is not None:
            self._child.kill_and_wait()

    # --- the queue -------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Sends the next command where the engine is free; starts the engine where it has to."""
        if self._queue and self._active is None and not self._closing:
            if self._child is None:
                self._start()
            elif self._child.greeted and not self._child.leaving:
                if self._needs_new_process():
                    self._child.leave(self._close_seconds)
                else:
                    self._send_next(self._child)
        self._show_state()

    def _needs_new_process(self) -> bool:
        """Whether the next model is to run on other processor code than the process has loaded."""
        command = self._queue[0]
        return isinstance(command, protocol.Load) and self._variant not in ("", command.params.cpu_variant)

    def _start(self) -> None:
        self._broken = self._hung = False
        self._variant = ""
        self._mismatch = None
        self._child = EngineChild(self._command(), self._log, self)
        self._child.received.connect(self._receive)
        self._child.ended.connect(self._ended)
        self._child.start()

    def _send_next(self, child: EngineChild) -> None:
        if self._info is None and not isinstance(self._queue[0], protocol.Load):
            self._queue.appendleft(self._load_command())
        command = self._active = self._queue.popleft()
        self._stop_asked = False
        self._patience.begin()
        if isinstance(command, protocol.Load):
            self._info = None  # the child gives the old model back first
            self._variant = command.params.cpu_variant
        child.send(command)
        if isinstance(command, protocol.Generate) and self._wanted is not None:
            self._answering = spelled_path(self._wanted[0])
            self._joined = JoinedText(_continued(command.request))
            self.began.emit(command.id)

    def _load_command(self) -> protocol.Load:
        assert self._wanted is not None
        path, params = self._wanted
        return protocol.Load(id=self._new_id(), path=spelled_path(path), params=params, language=language())

    def _ask(self, command: _Question) -> int:
        if self._child is None or self._info is None or self._child.leaving:
            self._fail_soon(command.id, NoModelChosen().info)
        else:
            self._questions.add(command.id)
            self._child.send(command)
        return command.id

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _fail_soon(self, id: int, error: ErrorInfo) -> None:
        QTimer.singleShot(0, lambda: self.failed.emit(id, error))

    # --- stopping --------------------------------------------------------------------------------------------------

    def _stop_active(self) -> None:
        if isinstance(self._active, _Stoppable) and not self._stop_asked and self._child is not None:
            self._stop_asked = True
            self._child.send(protocol.Stop(id=self._active.id))
            self._overdue.start(int(self._patience.seconds * 1000))

    @Slot()
    def _enforce_stop(self) -> None:
        if self._active is not None and self._child is not None:
            self._hung = True
            self._child.kill()

    # --- events ----------------------------------------------------------------------------------------------------

    @Slot(object)
    def _receive(self, event: protocol.Event) -> None:
        match event:
            case protocol.Hello():
                self._greet(event)
            case _ if isinstance(event, _Answered):
                self._answer(event)
            case protocol.Failed() if event.id in self._questions:
                self._questions.discard(event.id)
                self.failed.emit(event.id, event.error)
            case _ if self._active is not None and event.id == self._active.id:
                self._progress(self._active, event)

    def _greet(self, hello: protocol.Hello) -> None:
        if hello.version != protocol.VERSION and self._child is not None:
            self._mismatch = EngineMismatch(hello.version, protocol.VERSION).info
            self._child.kill()
        else:
            self._pump()

    def _answer(self, event: _Answered) -> None:
        if event.id in self._questions:
            self._questions.discard(event.id)
            if isinstance(event, protocol.Tokenized):
                self.tokenized.emit(event.id, event)
            elif isinstance(event, protocol.ModelIdentified):
                self.identified.emit(event.id, event.sha256)
            elif isinstance(event, protocol.ContextMeasured):
                self.measured.emit(event.id, event)
            else:
                self.counted.emit(event.id, event.total)

    def _progress(self, active: _Work, event: protocol.Event) -> None:
        match event:
            case protocol.TextDelta():
                self._patience.token(event.n_tokens)
                if event.replaces:
                    self.text_replaced.emit(event.id, event.replaces)
                text = self._joined.feed(event.text, reasoning=event.reasoning)
                self._batches.add(event.id, text, event.n_tokens)
            case protocol.PromptProgress():
                self.prompt_progress.emit(event.id, event)
            case protocol.LoadProgress():
                self.load_progress.emit(event.fraction)
            case protocol.ContextTrimmed():
                self.context_trimmed.emit(event.id, event.dropped)
            case protocol.Finished() | protocol.Failed() | protocol.Loaded():
                self._close_active(active, event)
            case protocol.StateSaved() | protocol.StateLoaded() | protocol.Replayed():
                self._close_active(active, event)

    def _close_active(self, active: _Work, event: protocol.Event) -> None:
        self._batches.flush()
        self._overdue.stop()
        self._active = None
        match event:
            case protocol.Finished():
                self._fatal.forgive(self._answering, ANSWERING)
                self.finished.emit(event.id, event)
            case protocol.Replayed():
                self.replayed.emit(event.id, event)
            case protocol.StateSaved():
                self.state_saved.emit(event.id, event)
            case protocol.StateLoaded():
                self.state_loaded.emit(event.id, event)
            case protocol.Loaded():
                self._info = event.info
                self._fatal.forgive(active.path if isinstance(active, protocol.Load) else "")
                self.loaded.emit(event.info)
            case protocol.Failed() if isinstance(active, protocol.Load):
                self._load_failed(event.error)
            case protocol.Failed():
                self.failed.emit(event.id, event.error)
        self._pump()

    def _load_failed(self, error: ErrorInfo) -> None:
        """Tells that loading failed, unless another load has taken its place meanwhile."""
        if any(isinstance(command, protocol.Load) for command in self._queue):
            return
        if self._wanted is not None:
            self.load_failed.emit(error)
        self._fail_waiting(error)

    def _drop_loads(self) -> None:
        gone = protocol.Load | protocol.SaveState  # what was to be saved is given up with the old model
        self._queue = deque(command for command in self._queue if not isinstance(command, gone))

    def _cancel_waiting_load(self) -> None:
        """Loading was stopped while the process itself was still starting."""
        self._drop_loads()
        self._load_failed(LoadCancelled().info)

    def _fail_waiting(self, error: ErrorInfo) -> None:
        waiting, self._queue = self._queue, deque()
        for command in waiting:
            if isinstance(command, protocol.Generate | protocol.Replay):
                self.failed.emit(command.id, error)

    def _close_waiting(self) -> None:
        waiting, self._queue = self._queue, deque()
        for command in waiting:
            self._close_unbegun(command)

    def _close_unbegun(self, command: _Work) -> None:
        if isinstance(command, protocol.Generate):
            self.finished.emit(command.id, _stopped(command.id, 0))
        elif isinstance(command, protocol.Replay):
            self.failed.emit(command.id, ReadingStopped().info)

    # --- the end of the process ------------------------------------------------------------------------------------

    @Slot(object)
    def _ended(self, end: ChildEnd) -> None:
        assert self._child is not None
        asked_for = self._child.leaving
        self._child.deleteLater()
        self._child, self._info = None, None
        self._overdue.stop()
        self._batches.flush()
        active, self._active = self._active, None
        self._forget_questions()
        if asked_for:
            self._close_stopped(active)
        elif self._hung:
            self._hung_up(active)
        else:
            self._crashed(active, self._mismatch or explain(end), to_remember=not end.asked)
        if self._closing:
            self._closed()
        else:
            self._pump()

    def _close_stopped(self, active: _Work | None) -> None:
        if isinstance(active, protocol.Generate):
            self.finished.emit(active.id, _stopped(active.id, self._patience.n_tokens))
        elif isinstance(active, protocol.Replay):
            self._close_unbegun(active)
        elif isinstance(active, protocol.Load):
            self._load_failed(LoadCancelled().info)

    def _hung_up(self, active: _Work | None) -> None:
        """The engine was ended because it did not stop: the answer counts as stopped, and its text stays."""
        self._broken = True
        self._close_stopped(active)
        self.crashed.emit(EngineHung(self._patience.seconds).info)

    def _crashed(self, active: _Work | None, error: ErrorInfo, *, to_remember: bool) -> None:
        _log.warning("the engine's process ended: %s", error.code)  # the words name the model
        self._broken = True
        if isinstance(active, protocol.Load):
            if to_remember:
                self._fatal.remember(active.path)
            self._load_failed(error)
        elif active is None and self._has_waiting_load():
            self._drop_loads()  # the process did not even start
            self._load_failed(error)
        else:
            if isinstance(active, protocol.Generate) and to_remember:
                self._fatal.remember(self._answering, ANSWERING)
            self._fail_answers(active, error)
        self.crashed.emit(error)

    def _fail_answers(self, active: _Work | None, error: ErrorInfo) -> None:
        """Closes the running answer, and those that wait for the same model; a load that waits is still done."""
        if not self._has_waiting_load():
            self._fail_waiting(error)
        if active is not None:
            self.failed.emit(active.id, error)  # last: who hears it may ask again at once

    def _has_waiting_load(self) -> bool:
        return any(isinstance(command, protocol.Load) for command in self._queue)

    def _forget_questions(self) -> None:
        questions, self._questions = self._questions, set()
        for id in sorted(questions):
            self.failed.emit(id, NoModelChosen().info)

    @Slot()
    def _closed(self) -> None:
        self._log.close()
        self._show_state()
        self.closed.emit()

    def _show_state(self) -> None:
        if self.state != self._shown:
            self._shown = self.state
            self.state_changed.emit(self._shown)


def _continued(request: GenerationRequest) -> str:
    return joined(request.messages[-1]) if request.continue_last and request.messages else ""


def _stopped(id: int, n_tokens: int) -> protocol.Finished:
    return protocol.Finished(id=id, reason=FinishReason.STOPPED, usage=Usage(generated_tokens=n_tokens))
