"""Renders chat templates in a child process that can be ended at any time, because a template may never end itself.

Both ends are here: `TemplateRenderer` is the parent's, `main` the child's. They exchange one JSON object a line. The
child limits its memory and its life, and exits when its stdin closes. Knows no engine and no tokens.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, BinaryIO

import msgspec

from runtime import chat_template, control_text, interrupts, turns
from runtime.child_imports import with_our_packages
from runtime.child_limits import CAN_LIMIT_MEMORY, limit_memory
from runtime.errors import UserError
from runtime.messages import Message
from runtime.network import close_network
from runtime.text import _

MEMORY_LIMIT = 256 * 1024 * 1024  # bytes a template may use, beyond what the child holds when it starts
_START_LIMIT = 30.0  # seconds; a cold disk and a virus scanner together
_LOOK_SECONDS = 0.05  # how often a rendering that takes long is looked after
_BACKSTOP = 1.0  # seconds after which the child ends itself, should nobody be left to end it


class Rendered(msgspec.Struct, frozen=True):
    """A conversation as the template writes it.

    `text` is what the model reads. `segments` is the same text cut into control tokens and plain text; where
    `guarded` is set, some message contains what looks like a control token, and only the segments tell them apart.
    `notes` says in the person's language what was changed in the conversation so that the template takes it.
    """

    text: str
    notes: tuple[str, ...] = ()
    segments: tuple[control_text.Segment, ...] = ()
    guarded: bool = False


class RendererUnavailable(UserError):
    """The child process cannot be started."""

    code = "renderer_unavailable"

    def __init__(self, cause: str) -> None:
        super().__init__(
            _("The process that applies chat templates cannot be started."),
            cause,
            _("Raw completion works without it. Run `quern doctor` to find out what is missing."),
        )


# --- what the two say to each other -----------------------------------------------------------------------------


class _Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    source: str
    messages: tuple[Message, ...]
    now: datetime
    seconds: float
    bos: str = ""
    eos: str = ""
    add_generation_prompt: bool = True
    continue_last: bool = False
    variables: dict[str, Any] = {}


class _Ready(msgspec.Struct, frozen=True, tag="ready"):
    pass


class _Text(msgspec.Struct, frozen=True, tag="text"):
    text: str
    notes: tuple[turns.RenderNote, ...] = ()


class _Error(msgspec.Struct, frozen=True, tag="error"):
    """A `ChatTemplateError` by its code and its constructor's arguments: the parent has the person's language."""

    code: str
    arguments: tuple[Any, ...] = ()


_answers: msgspec.json.Decoder[_Text | _Error] = msgspec.json.Decoder(_Text | _Error)
_requests = msgspec.json.Decoder(_Request)
_errors = {
    error.code: error
    for error in (
        chat_template.TemplateBroken,
        chat_template.TemplateRefused,
        chat_template.TemplateTooLarge,
        chat_template.CannotContinue,
    )
}


# --- the parent's end -------------------------------------------------------------------------------------------


class TemplateRenderer:
    """Renders through a child that is started when first needed and kept. Any thread may call, one is served at a time.

    `timeout` is in seconds and holds for one rendering, the start of the child apart.
    """

    def __init__(
        self,
        command: Sequence[str] | None = None,
        timeout: float = 2.0,
        *,
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._command = tuple(command or _child_command())
        self._timeout = timeout
        self._clock = clock
        self._now: datetime | None = None
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def warm_up(self) -> None:
        """Starts the child without waiting, so that the first rendering need not wait. Raises `RendererUnavailable`."""
        with self._lock:
            self._running_child()

    def render(
        self,
        source: str,
        messages: tuple[Message, ...],
        *,
        bos: str = "",
        eos: str = "",
        control_texts: Iterable[str] = (),
        add_generation_prompt: bool = True,
        continue_last: bool = False,
        variables: Mapping[str, Any] | None = None,
        now: datetime | None = None,
        is_stopped: Callable[[], bool] | None = None,
    ) -> Rendered:
        """Returns the conversation, with the template's fallbacks and with messages unable to forge control tokens.

        `control_texts` are the texts of the model's control tokens. Without `now` the template is told a time that
        stays the same all day: an answer must not cost a new reading of the whole conversation every minute.
        Raises a `ChatTemplateError`, `RendererUnavailable` where no child can be started, and `Stopped` soon after
        `is_stopped` says so.
        """
        if not messages:
            raise ValueError("a conversation has at least one message")
        chat_template.check_source(source)
        request = _Request(
            source=control_text.whole_characters(source),
            messages=tuple(map(_of_whole_characters, messages)),
            now=now or self._time_of_today(),
            seconds=self._timeout,
            bos=bos,
            eos=eos,
            add_generation_prompt=add_generation_prompt,
            continue_last=continue_last,
            variables=dict(variables or {}),
        )
        return self._guarded(request, tuple(control_texts), is_stopped)

    def close(self) -> None:
        """Ends the child. May be called twice; another rendering would start a new child."""
        with self._lock:
            self._end_child()

    def _guarded(
        self, request: _Request, control_texts: tuple[str, ...], is_stopped: Callable[[], bool] | None
    ) -> Rendered:  # fmt: skip
        rendered = self._with_guard(request, control_texts, is_stopped)
        if control_text.holds_all(rendered.text, request.messages):
            return rendered
        # A template that cuts pieces out of a message may join a control text from the rest. With every beginning of
        # one broken it cannot: what it then writes differs, and is right.
        strict = self._with_guard(request, control_texts, is_stopped, strict=True)
        return rendered if _controls(rendered) == _controls(strict) else strict

    def _with_guard(
        self, request: _Request, control_texts: tuple[str, ...], is_stopped: Callable[[], bool] | None, *,
        strict: bool = False,
    ) -> Rendered:  # fmt: skip
        messages, sentinel = control_text.guard(request.messages, control_texts, strict=strict)
        answer = self._ask(msgspec.structs.replace(request, messages=messages), is_stopped)
        return Rendered(
            text=answer.text.replace(sentinel, "") if sentinel else answer.text,
            notes=tuple(note.sentence for note in answer.notes),
            segments=tuple(control_text.split_rendered(answer.text, control_texts, sentinel)),
            guarded=bool(sentinel),
        )

    def _ask(self, request: _Request, is_stopped: Callable[[], bool] | None) -> _Text:
        line = msgspec.json.encode(request) + b"\n"
        with self._lock:
            answer = self._answer(line, is_stopped)
        if isinstance(answer, _Error):
            raise _errors[answer.code](*answer.arguments)
        return answer

    def _answer(self, line: bytes, is_stopped: Callable[[], bool] | None) -> _Text | _Error:
        """Returns the child's answer. A child that died is replaced once: it may have been ended from outside."""
        for _attempt in range(2):
            try:
                answer = self._running_child().ask(line, self._timeout, is_stopped)
            except BaseException:  # Stop and Ctrl+C as well: its late answer must not meet the next question
                self._end_child()
                raise
            if answer:
                return _answers.decode(answer)
            self._end_child()
        raise chat_template.TemplateBroken(_("The process that applies it died."))

    def _running_child(self) -> _Child:
        if self._child is None:
            self._child = _Child(self._command)
        return self._child

    def _end_child(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def _time_of_today(self) -> datetime:
        now = self._clock()
        if self._now is None or self._now.date() != now.date():
            self._now = now
        return self._now


class _Child:
    """The running child. A thread of its own talks to it, since only a thread can give up waiting on every system."""

    def __init__(self, command: Sequence[str]) -> None:
        try:
            with interrupts.held_back():
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=with_our_packages(),
                    creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
                )
        except OSError as error:
            raise RendererUnavailable(str(error)) from error
        self._is_ready = False
        self._questions: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._talk, name="chat template", daemon=True)
        self._thread.start()

    def ask(self, line: bytes, seconds: float, is_stopped: Callable[[], bool] | None = None) -> bytes:
        """Returns the answer's line, empty where the child died.

        Raises `TemplateTimeout`, `TemplateTooLarge`, and `Stopped` where `is_stopped` says so meanwhile.
        """
        if not self._is_ready:
            self._wait_until_ready()
        self._questions.put(line)
        deadline = time.monotonic() + seconds
        waits_whole = CAN_LIMIT_MEMORY and is_stopped is None
        while (left := deadline - time.monotonic()) > 0:
            try:
                return self._answers.get(timeout=left if waits_whole else min(left, _LOOK_SECONDS))
            except queue.Empty:
                self._check_memory()
                if is_stopped is not None and is_stopped():
                    from runtime.evaluation import Stopped  # the child's start need not wait for what that brings

                    raise Stopped from None
        raise chat_template.TemplateTimeout(seconds)

    def end(self) -> None:
        self._process.kill()
        self._questions.put(b"")
        self._thread.join()
        self._process.wait()

    def _wait_until_ready(self) -> None:
        try:
            self._is_ready = bool(self._answers.get(timeout=_START_LIMIT))
        except queue.Empty:
            raise RendererUnavailable(_("It did not answer for {n} seconds.").format(n=f"{_START_LIMIT:g}")) from None
        if not self._is_ready:
            raise RendererUnavailable(_("It ended with code {code}.").format(code=self._process.wait()))

    def _check_memory(self) -> None:
        if not CAN_LIMIT_MEMORY and _resident_bytes(self._process.pid) > MEMORY_LIMIT:
            raise chat_template.TemplateTooLarge("memory", MEMORY_LIMIT)

    def _talk(self) -> None:
        """Passes on the line with which the child starts, then the answer to each question, until one of them ends."""
        sent, received = self._process.stdin, self._process.stdout
        assert sent is not None
        assert received is not None
        with contextlib.suppress(OSError):
            self._answers.put(received.readline())
            while question := self._questions.get():
                sent.write(question)
                sent.flush()
                self._answers.put(received.readline())
        self._answers.put(b"")
        for pipe in (sent, received):
            with contextlib.suppress(OSError):
                pipe.close()


def _of_whole_characters(turn: Message) -> Message:
    whole = control_text.whole_characters
    return Message(turn.role, whole(turn.content), whole(turn.reasoning))


def _controls(rendered: Rendered) -> list[str]:
    return [segment.text for segment in rendered.segments if segment.control]


def _resident_bytes(pid: int) -> int:
    import psutil  # only where the child cannot limit itself

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _child_command() -> list[str]:
    if getattr(sys, "frozen", False):
        return [sys.executable, "render"]
    return [sys.executable, "-P", "-m", "runtime.render"]  # -P: nothing is imported from the current folder


# --- the child's end --------------------------------------------------------------------------------------------


def main() -> int:
    """Answers requests from stdin until it closes. Returns the exit code."""
    interrupts.leave_to_parent()
    close_network()
    limit_memory(MEMORY_LIMIT)
    with open(0, "rb", closefd=False) as requests, open(1, "wb", closefd=False) as answers:
        _serve(requests, answers)
    return 0


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    with open(os.devnull, "wb") as nowhere:
        _send(_Ready(), answers)
        for line in requests:
            request = _requests.decode(line)
            # The clock runs in C: it also ends one endless multiplication, for which no Python thread would get a turn.
            faulthandler.dump_traceback_later(request.seconds + _BACKSTOP, exit=True, file=nowhere)
            answer = _answer_to(request)
            faulthandler.cancel_dump_traceback_later()
            _send(answer, answers)


def _send(answer: _Ready | _Text | _Error, answers: BinaryIO) -> None:
    try:
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()
    except OSError:
        os._exit(0)  # the parent is gone, and nobody is left to tell


def _answer_to(request: _Request) -> _Text | _Error:
    try:
        template = _compiled(request.source, request.bos, request.eos)
        text, notes = turns.render_turns(
            template,
            request.messages,
            add_generation_prompt=request.add_generation_prompt,
            continue_last=request.continue_last,
            variables=request.variables,
            now=request.now,
        )
        return _Text(control_text.whole_characters(text), notes)
    except chat_template.ChatTemplateError as error:
        return _Error(error.code, tuple(map(_sendable, error.arguments)))
    except MemoryError:
        return _Error(chat_template.TemplateTooLarge.code, ("memory", MEMORY_LIMIT))


def _sendable(argument: Any) -> Any:
    return control_text.whole_characters(argument) if isinstance(argument, str) else argument


@lru_cache(maxsize=8)
def _compiled(source: str, bos: str, eos: str) -> chat_template.ChatTemplate:
    return chat_template.ChatTemplate(source, bos=bos, eos=eos)


if __name__ == "__main__":
    sys.exit(main())
