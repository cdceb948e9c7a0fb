"""The engine process, with a scripted engine in this process and with a real model in a real one."""

from __future__ import annotations

import errno
import io
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tiny_gguf
from runtime import protocol, worker
from runtime.engine import SAMPLING_DEFAULTS, StopFlag
from runtime.engine_process import EngineDied, EngineProcess, engine_command
from runtime.errors import UserError
from runtime.messages import Message, Role
from runtime.params import LoadParams, SamplingParams
from runtime.places import spelled_path
from runtime.protocol import EngineInfo, Finished, FinishReason, GenerationRequest, TextDelta, Usage
from runtime.worker import Worker


class ScriptedEngine:
    """Says "la" until it is stopped, or whatever its test wants to go wrong."""

    info = EngineInfo(engine="scripted")
    thought = threading.Event()  # set by the test when a long question may end

    def __init__(self, path: Path, _params: LoadParams, *, listener: Any, stop: StopFlag) -> None:
        if path.name == "missing":
            raise UserError("The file is missing.", code="model_missing")
        if path.name == "huge":
            raise MemoryError
        listener(0.5)
        if path.name == "slow":
            while not stop.is_set():
                time.sleep(0.005)
            raise UserError("Loading was stopped.", code="load_stopped")
        self.closed = False

    def generate(self, request: GenerationRequest, stop: StopFlag) -> Iterator[Any]:
        if request.prompt == "bug":
            raise RuntimeError("a bug")
        count = 0
        while not stop.is_set() and count != request.sampling.max_tokens:
            count += 1
            yield TextDelta(id=0, text="la", n_tokens=count)
            time.sleep(0.005)
        reason = FinishReason.STOPPED if stop.is_set() else FinishReason.LENGTH
        yield Finished(id=0, reason=reason, usage=Usage(generated_tokens=count))

    def begin_marks(self) -> list[int]:
        return [1]

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        if text == "endless":
            self.thought.wait(60)
        return list(text.encode())

    def pieces(self, ids: list[int]) -> list[str]:
        return [chr(token) for token in ids]

    def decode(self, ids: Iterable[int], *, special: bool = False) -> bytes:
        return bytes(ids)

    def count(self, messages: tuple[Message, ...], sampling: SamplingParams = SAMPLING_DEFAULTS) -> int:
        return sum(len(message.content) for message in messages)

    def close(self) -> None:
        self.closed = True


class Conversation:
    """Feeds a worker commands one by one, and collects its events."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        out = io.BytesIO()
        out.write = self._receive  # type: ignore[method-assign,assignment]
        worker = Worker(iter(self._lines.get, None), out, open_engine=ScriptedEngine)  # type: ignore[arg-type]
        worker._leave = lambda: None  # type: ignore[method-assign]
        self.thread = threading.Thread(target=worker.run, daemon=True)
        self.thread.start()
        assert isinstance(self.next(), protocol.Hello)

    def _receive(self, line: bytes) -> int:
        self._events.put(protocol.decode_event(line))
        return len(line)

    def say(self, command: protocol.Command | bytes) -> None:
        self._lines.put(command if isinstance(command, bytes) else protocol.encode_line(command))

    def next(self) -> Any:
        return self._events.get(timeout=60)

    def until_closed(self, number: int) -> list[Any]:
        """Returns the events up to the closing one of command `number`."""
        events = [self.next()]
        while not (events[-1].id == number and isinstance(events[-1], protocol.CLOSING)):
            events.append(self.next())
        return events

    def load(self, name: str = "model") -> list[Any]:
        self.say(protocol.Load(id=1, path=name))
        return self.until_closed(1)

    def end(self) -> None:
        self._lines.put(None)
        self.thread.join(60)
        assert not self.thread.is_alive()


@pytest.fixture
def talk() -> Iterator[Conversation]:
    conversation = Conversation()
    yield conversation
    conversation.end()


def generate(number: int, prompt: str = "sing", max_tokens: int = -1) -> protocol.Generate:
    sampling = SamplingParams(max_tokens=max_tokens)
    return protocol.Generate(id=number, request=GenerationRequest(prompt=prompt, sampling=sampling))


def test_a_command_is_answered_under_its_own_id(talk: Conversation) -> None:
    talk.load()
    talk.say(generate(7, max_tokens=3))
    events = talk.until_closed(7)
    assert {event.id for event in events} == {7}
    assert "".join(event.text for event in events[:-1]) == "la" * 3


def test_stop_ends_the_answer_it_names_and_no_other(talk: Conversation) -> None:
    talk.load()
    talk.say(generate(2))
    assert isinstance(talk.next(), TextDelta)
    talk.say(protocol.Stop(id=99))
    talk.say(protocol.Stop(id=2))
    assert talk.until_closed(2)[-1].reason is FinishReason.STOPPED
    talk.say(generate(3, max_tokens=2))
    assert talk.until_closed(3)[-1].reason is FinishReason.LENGTH


def test_a_queued_answer_can_be_stopped_before_it_begins(talk: Conversation) -> None:
    talk.load()
    talk.say(generate(2))
    talk.say(generate(3))
    talk.say(protocol.Stop(id=3))
    talk.say(protocol.Stop(id=2))
    talk.until_closed(2)
    assert talk.until_closed(3)[-1].usage.generated_tokens == 0


def test_questions_are_answered_while_an_answer_runs(talk: Conversation) -> None:
    talk.load()
    talk.say(generate(2))
    talk.say(protocol.Tokenize(id=3, text="ab"))
    talk.say(protocol.CountTokens(id=4, messages=(Message(Role.USER, "abc"),)))
    talk.say(protocol.CountTokens(id=5, prompt="abcd"))
    events = [event for number in (3, 4, 5) for event in talk.until_closed(number)]
    assert next(event for event in events if event.id == 3).ids == (97, 98)
    assert next(event for event in events if event.id == 4).total == 3
    assert next(event for event in events if event.id == 5).total == 5, "a raw prompt begins with the model's own mark"
    talk.say(protocol.Stop(id=2))
    talk.until_closed(2)


def test_stop_does_not_wait_for_a_question_that_takes_long(talk: Conversation) -> None:
    talk.load()
    talk.say(generate(2))
    assert isinstance(talk.next(), TextDelta)
    talk.say(protocol.Tokenize(id=3, text="endless"))
    talk.say(protocol.Stop(id=2))
    assert talk.until_closed(2)[-1].reason is FinishReason.STOPPED
    ScriptedEngine.thought.set()
    assert isinstance(talk.until_closed(3)[-1], protocol.Tokenized)


def test_a_load_reports_progress_and_can_be_stopped(talk: Conversation) -> None:
    talk.say(protocol.Load(id=1, path="slow"))
    assert talk.next().fraction == 0.5
    talk.say(protocol.Stop(id=1))
    assert talk.until_closed(1)[-1].error.code == "load_stopped"


@pytest.mark.parametrize(("name", "code"), [("missing", "model_missing"), ("huge", "out_of_memory")])
def test_a_load_that_fails_says_why_and_the_process_goes_on(talk: Conversation, name: str, code: str) -> None:
    assert talk.load(name)[-1].error.code == code
    assert isinstance(talk.load()[-1], protocol.Loaded)


def test_a_bug_in_the_engine_is_reported_and_the_process_goes_on(
    talk: Conversation, capsys: pytest.CaptureFixture[str]
) -> None:
    talk.load()
    talk.say(generate(2, "bug"))
    error = talk.until_closed(2)[-1].error
    assert error.code == "engine_bug"
    assert "RuntimeError: a bug" in error.details
    assert "RuntimeError" in capsys.readouterr().err
    talk.say(generate(3, max_tokens=1))
    assert isinstance(talk.until_closed(3)[-1], Finished)


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (OSError(errno.EIO, "Input/output error", "/media/stick/m.gguf"), "“/media/stick/m.gguf” cannot be used."),
        (OSError(errno.ENOSPC, "No space left on device"), "The system refused what the engine needs."),
    ],
)
def test_what_the_system_refuses_is_no_bug_of_ours(
    talk: Conversation, monkeypatch: pytest.MonkeyPatch, error: OSError, title: str
) -> None:
    def refused(*_arguments: object) -> Iterator[Any]:
        raise error

    monkeypatch.setattr(ScriptedEngine, "generate", refused)
    talk.load()
    talk.say(generate(2))
    told = talk.until_closed(2)[-1].error
    assert (told.code, told.title) == ("system_refused", title)
    assert error.strerror in told.message


def test_without_a_model_every_question_says_so(talk: Conversation) -> None:
    commands = [
        generate(2), protocol.Tokenize(id=3, text="a"), protocol.CountTokens(id=4, messages=()),
        protocol.SaveState(id=5, path="a"), protocol.LoadState(id=6, path="a"),
    ]  # fmt: skip
    for number, command in enumerate(commands, 2):
        talk.say(command)
        assert talk.until_closed(number)[-1].error.code == "no_model"


@pytest.mark.parametrize(
    ("line", "number"), [(b"nonsense\n", 0), (b'{"type":"reboot","id":9}\n', 9), (b'{"id":"x"}\n', 0), (b"[]\n", 0)]
)
def test_a_line_that_is_no_command_is_refused_under_its_id(talk: Conversation, line: bytes, number: int) -> None:
    talk.say(line)
    assert talk.until_closed(number)[-1].error.code == "error"


def test_a_line_nested_beyond_all_measure_is_refused_and_the_process_goes_on(talk: Conversation) -> None:
    talk.say(b"[" * 100_000 + b"\n")
    assert isinstance(talk.next(), protocol.Failed)
    assert isinstance(talk.load()[-1], protocol.Loaded)


def test_a_line_without_end_is_taken_in_pieces_that_fit_and_the_next_command_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "_LONGEST_LINE", 100)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x" * 250 + b"\nnext\n")))
    assert list(worker._stdin_lines()) == [b"x" * 100, b"x" * 100, b"x" * 50 + b"\n", b"next\n"]


def test_an_id_can_be_used_again_as_soon_as_its_command_is_closed() -> None:
    class Parent(Conversation):
        """Loads once more while the first load's closing event is still being written."""

        def _receive(self, line: bytes) -> int:
            if isinstance(protocol.decode_event(line), protocol.Loaded) and not self.asked_again:
                self.asked_again = True
                self.say(protocol.Load(id=1, path="again"))
                time.sleep(0.1)  # long enough for the reading thread to take the command
            return super()._receive(line)

        asked_again = False

    talk = Parent()
    assert isinstance(talk.load()[-1], protocol.Loaded)
    assert isinstance(talk.until_closed(1)[-1], protocol.Loaded)
    talk.end()


def test_a_question_with_the_id_of_a_running_answer_does_not_keep_it_from_stopping(talk: Conversation) -> None:
    talk.load()
    talk.say(generate(2))
    talk.say(protocol.Tokenize(id=2, text="hi"))
    while not isinstance(talk.next(), protocol.Tokenized):
        pass
    talk.say(protocol.Stop(id=2))
    assert talk.until_closed(2)[-1].reason is FinishReason.STOPPED


def test_a_setting_out_of_bounds_is_refused_before_the_engine_sees_it(talk: Conversation) -> None:
    talk.say(b'{"type":"load","id":1,"path":"model","params":{"threads":-4}}\n')
    assert talk.until_closed(1)[-1].error.code == "bad_setting"
    talk.load()
    talk.say(b'{"type":"generate","id":2,"request":{"prompt":"x","sampling":{"top_p":7}}}\n')
    assert talk.until_closed(2)[-1].error.code == "bad_setting"


def test_unloading_frees_the_model(talk: Conversation) -> None:
    talk.load()
    talk.say(protocol.Unload(id=2))
    assert isinstance(talk.until_closed(2)[-1], protocol.Unloaded)
    talk.say(generate(3))
    assert talk.until_closed(3)[-1].error.code == "no_model"


def test_the_end_of_commands_stops_a_running_answer_and_the_worker_returns() -> None:
    conversation = Conversation()
    conversation.load()
    conversation.say(generate(2))
    conversation.next()
    conversation.end()


# --- real processes ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("worker") / "modèle.gguf"
    tiny_gguf.write_scripted(path, [b"la ", b"li "], cyclic=True)
    return path


PARAMS = LoadParams(context_length=256, threads=1)
SING = GenerationRequest(prompt="x", sampling=SamplingParams(max_tokens=6, temperature=0.0))


def test_a_real_process_loads_answers_and_leaves(model: Path) -> None:
    with EngineProcess() as engine:
        assert engine.load(model, PARAMS).context_length == 256
        events = list(engine.generate(SING))
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "la li la li la li "
        assert engine.tokenize("ab").pieces == ("a", "b")
        process = engine._process
    assert process.returncode == 0


def test_a_process_takes_up_what_an_earlier_one_has_read(model: Path, tmp_path: Path) -> None:
    file = tmp_path / "état.state"
    with EngineProcess() as engine:
        engine.load(model, PARAMS)
        list(engine.generate(SING))
        saved = answer_to(engine, lambda number: protocol.SaveState(id=number, path=spelled_path(file)))
        assert saved == protocol.StateSaved(id=2 + 1, tokens=6, size_bytes=file.stat().st_size)
    with EngineProcess() as engine:
        engine.load(model, PARAMS)
        loaded = answer_to(engine, lambda number: protocol.LoadState(id=number, path=spelled_path(file)))
        assert loaded == protocol.StateLoaded(id=2, tokens=6)
        refused = answer_to(engine, lambda number: protocol.LoadState(id=number, path=spelled_path(tmp_path)))
        assert (refused.tokens, bool(refused.note)) == (0, True)
        assert isinstance(list(engine.generate(SING))[-1], Finished)


def answer_to(engine: EngineProcess, make: Callable[[int], protocol.Command]) -> Any:
    return list(engine._events(engine._send(make)))[-1]


def test_native_prints_never_reach_the_protocol(model: Path) -> None:
    code = """
import os, sys
from runtime import worker
out = worker._own_stdout()
os.write(1, b"native noise\\n")
print("python noise")
out.write(b"protocol\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"protocol\n"
    assert b"native noise" in done.stderr
    assert b"python noise" in done.stderr


def test_a_killed_engine_is_reported_with_its_signal(model: Path) -> None:
    with EngineProcess() as engine:
        engine.load(model, PARAMS)
        os.kill(engine.pid, signal.SIGKILL)
        with pytest.raises(EngineDied) as caught:
            list(engine.generate(SING))
        assert caught.value.exit_status == -signal.SIGKILL


def test_the_process_leaves_when_its_stdin_closes_in_the_middle_of_an_answer(model: Path) -> None:
    endless = GenerationRequest(prompt="x", sampling=SamplingParams(temperature=0.0), ignore_end=True)
    with EngineProcess() as engine:
        engine.load(model, PARAMS.replace(context_length=200_000))
        next(engine.generate(endless))
        process = engine._process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def test_an_answer_is_identified_and_made_again_in_the_process(model: Path, tmp_path: Path) -> None:
    with EngineProcess() as engine:
        engine.load(model, PARAMS)
        last = list(engine.generate(msgspec.structs.replace(SING, receipt=True)))[-1]
        assert isinstance(last, Finished)
        assert last.receipt is not None
        receipt = msgspec.structs.replace(last.receipt, model_sha256=engine.identify())
        assert engine.replay(receipt).difference is None
        saved = engine.save_state(tmp_path / "state")
        assert engine.load_state(tmp_path / "state").tokens == saved.tokens > 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_an_interrupt_in_the_terminal_does_not_end_the_engine(model: Path) -> None:
    with EngineProcess() as engine:
        engine.load(model, PARAMS)
        os.kill(engine.pid, signal.SIGINT)
        assert isinstance(list(engine.generate(SING))[-1], Finished)


@pytest.mark.skipif(os.name == "nt", reason="signals as POSIX has them")
def test_an_interrupt_before_the_engine_is_ready_for_it_does_not_end_it(model: Path) -> None:
    early = "import os, signal; os.kill(os.getpid(), signal.SIGINT); from runtime import worker; worker.main()"
    with EngineProcess(command=[sys.executable, "-c", early]) as engine:
        assert engine.load(model, LoadParams(context_length=256, threads=1)).engine == "llama"
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_the_parent_gone_the_engine_goes_too(model: Path) -> None:
    code = f"""
import os, sys
from pathlib import Path
from runtime.engine_process import EngineProcess
from runtime.params import LoadParams
engine = EngineProcess()
engine.load(Path({str(model)!r}), LoadParams(context_length=256, threads=1))
print(engine.pid, flush=True)
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    pid = int(done.stdout)
    deadline = time.monotonic() + 60
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(pid)


def _alive(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_frozen_application_starts_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert engine_command() == [sys.executable, "engine"]
