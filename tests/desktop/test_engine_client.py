"""The engine's process seen from the window, with a scripted engine in a real process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from pytestqt.qtbot import QtBot

import scripted_engine
import tiny_gguf
from desktop.engine_child import LineSplitter
from desktop.engine_client import EngineClient, EngineState
from desktop.engine_crash import ChildEnd, explain
from desktop.fatal_models import FatalModels
from desktop.state_file import StateFile
from runtime.messages import Message, Role
from runtime.params import LoadParams, SamplingParams
from runtime.places import path_of, places
from runtime.protocol import FinishReason, GenerationRequest
from runtime.reasoning import separated

Make = Callable[..., "Watched"]
REQUEST = GenerationRequest(messages=(Message(Role.USER, "What is the capital of France?"),))
REPLY = "The capital of France is Paris."


class Watched(EngineClient):
    """An engine client that notes what it said."""

    def __init__(self, **script: Any) -> None:
        patience = script.pop("stop_seconds", 0.3)
        closing = script.pop("close_seconds", 0.3)
        self.script = script
        self.said: list[tuple[Any, ...]] = []
        super().__init__(
            places(),
            command=lambda: scripted_engine.command(**self.script),
            stop_seconds=patience,
            close_seconds=closing,
        )
        for name in ("state_changed", "load_progress", "loaded", "load_failed", "began", "prompt_progress", "text",
                     "context_trimmed", "finished", "failed", "tokenized", "counted", "crashed", "closed"):  # fmt: skip
            getattr(self, name).connect(lambda *values, name=name: self.said.append((name, *values)))

    def all(self, name: str) -> list[tuple[Any, ...]]:
        return [values for said, *values in self.said if said == name]

    def written(self, id: int) -> str:
        return "".join(text for number, text, _n in self.all("text") if number == id)


@pytest.fixture
def make(qtbot: QtBot, tmp_path: Path) -> Iterator[Make]:
    """Makes clients, and sees to it that each of them leaves no process behind."""
    clients: list[Watched] = []

    def made(**script: Any) -> Watched:
        clients.append(Watched(**script))
        return clients[-1]

    yield made
    for client in clients:
        with qtbot.waitSignal(client.closed, timeout=10_000):
            client.shutdown()
        assert client.pid == 0


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "模型 é.gguf"
    path.write_bytes(b"GGUF")
    return path


def ended(client: Watched, id: int) -> Callable[[], bool]:
    return lambda: any(number == id for number, _rest in client.all("finished") + client.all("failed"))


def answered(qtbot: QtBot, client: Watched) -> int:
    id = client.generate(REQUEST)
    qtbot.waitUntil(ended(client, id), timeout=10_000)
    return id


def test_an_answer_arrives_whole_and_is_closed_once(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(prompt_steps=2)
    client.load(model, LoadParams())
    id = answered(qtbot, client)
    assert client.written(id) == REPLY
    assert len(client.all("finished")) == 1
    assert client.all("finished")[0][1].reason is FinishReason.END
    assert client.all("loaded")[0][0].name == "模型 é"
    assert len(client.all("prompt_progress")) == 2
    states = [state for (state,) in client.all("state_changed")]
    assert states == ["starting", "loading", "generating", "ready"]


def test_reasoning_arrives_before_the_answer_between_marks(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(thoughts="A capital, then.")
    client.load(model, LoadParams())
    for _turn in range(2):
        text = client.written(answered(qtbot, client))
        answer = separated(Message(Role.ASSISTANT, text))
        assert (answer.reasoning, answer.content) == ("A capital, then.", REPLY)


def test_an_answer_is_identified_and_made_again_and_a_waiting_replay_can_be_stopped(
    qtbot: QtBot, tmp_path: Path
) -> None:
    client = EngineClient(places(), close_seconds=10.0)
    client.load(tiny_gguf.write_tiny(tmp_path / "m.gguf"), LoadParams(context_length=256, threads=1))
    asked = msgspec.structs.replace(REQUEST, receipt=True, sampling=SamplingParams(max_tokens=5))
    with qtbot.waitSignal(client.finished, timeout=20_000) as ended:
        client.generate(asked)
    with qtbot.waitSignal(client.identified, timeout=20_000) as identified:
        client.identify()
    receipt = msgspec.structs.replace(ended.args[1].receipt, model_sha256=identified.args[1])
    with qtbot.waitSignal(client.replayed, timeout=20_000) as replayed:
        client.replay(receipt)
    assert replayed.args[1].difference is None
    with qtbot.waitSignal(client.failed, timeout=20_000) as refused:
        client.replay(msgspec.structs.replace(receipt, build="another"))
    assert refused.args[1].code == "replay_refused"
    with qtbot.waitSignal(client.failed, timeout=20_000) as stopped:
        client.generate(asked)
        client.stop(client.replay(receipt))
    assert stopped.args[1].code == "reading_stopped"
    with qtbot.waitSignal(client.closed, timeout=20_000):
        client.shutdown()


def test_an_answer_asked_for_while_loading_follows_the_load(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(load_seconds=0.2)
    client.load(model, LoadParams())
    id = client.generate(REQUEST)
    qtbot.waitUntil(ended(client, id), timeout=10_000)
    assert client.written(id) == REPLY
    assert client.all("load_progress")


def test_without_a_model_an_answer_fails_with_advice(qtbot: QtBot, make: Make) -> None:
    client = make()
    id = answered(qtbot, client)
    assert client.all("failed") == [[id, client.all("failed")[0][1]]]
    assert client.all("failed")[0][1].code == "no_model_chosen"
    assert client.pid == 0


def test_two_answers_are_written_one_after_the_other(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(echo=True, delay=0.01)
    client.load(model, LoadParams())
    ids = [
        client.generate(GenerationRequest(messages=(Message(Role.USER, f"answer number {n}"),))) for n in range(3)
    ]
    qtbot.waitUntil(lambda: len(client.all("finished")) == 3, timeout=10_000)
    assert [number for number, _finished in client.all("finished")] == ids
    assert [client.written(id) for id in ids] == [f"answer number {n}" for n in range(3)]


def test_stop_keeps_the_text_so_far(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(endless=True, delay=0.005)
    client.load(model, LoadParams())
    id = client.generate(REQUEST)
    qtbot.waitUntil(lambda: len(client.written(id)) > 20, timeout=10_000)
    pid = client.pid
    client.stop(id)
    assert client.state is EngineState.STOPPING
    qtbot.waitUntil(ended(client, id), timeout=10_000)
    assert client.all("finished")[0][1].reason is FinishReason.STOPPED
    assert client.state is EngineState.READY
    assert client.pid == pid, "an engine that listens is not ended"


def test_an_answer_that_waits_can_be_stopped(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(endless=True, delay=0.005)
    client.load(model, LoadParams())
    first, second = client.generate(REQUEST), client.generate(REQUEST)
    qtbot.waitUntil(lambda: client.written(first) != "", timeout=10_000)
    client.stop(second)
    assert [number for number, _finished in client.all("finished")] == [second]
    client.stop()
    qtbot.waitUntil(ended(client, first), timeout=10_000)


def test_a_deaf_engine_is_ended_and_the_next_answer_starts_it_again(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(endless=True, deaf=True, delay=0.005)
    client.load(model, LoadParams())
    id = client.generate(REQUEST)
    qtbot.waitUntil(lambda: client.written(id) != "", timeout=10_000)
    client.stop()
    qtbot.waitUntil(ended(client, id), timeout=10_000)
    assert client.all("finished")[0][1].reason is FinishReason.STOPPED
    assert client.all("crashed")[0][0].code == "engine_hung"
    assert client.state is EngineState.CRASHED
    client.script = {}
    assert client.written(answered(qtbot, client)) == REPLY


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("SIGKILL", "engine_killed"),
        ("SIGSEGV", "engine_fault"),
        ("SIGILL", "engine_illegal_instruction"),
        ("SIGBUS", "engine_file_gone"),
        ("abort", "engine_fault"),
        ("exit 3", "engine_ended"),
    ],
)
def test_a_crash_is_told_and_the_next_message_is_answered(
    qtbot: QtBot, make: Make, model: Path, tmp_path: Path, how: str, code: str
) -> None:
    log = tmp_path / "commands"
    client = make(crash_at=3, crash_how=how, crash_once=str(tmp_path / "crashed"), log=str(log))
    client.load(model, LoadParams())
    id = answered(qtbot, client)
    assert client.written(id) == "The capital of"
    assert client.all("failed")[0][1].code == code
    assert client.all("crashed")[0][0].title
    assert client.state is EngineState.CRASHED
    assert client.written(answered(qtbot, client)) == REPLY
    loads = [line for line in log.read_text().splitlines() if line.startswith("load")]
    assert loads == [f"load {model}"] * 2


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("ggml.c:123: GGML_ASSERT(n > 0) failed", "engine_check_failed"),
        ("CUDA error: out of memory", "engine_out_of_memory"),
        ("terminate called after throwing an instance of 'vk::DeviceLostError'", "engine_card_failed"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "engine_out_of_memory"),
    ],
)
def test_the_last_words_of_the_engine_explain_its_end(
    qtbot: QtBot, make: Make, model: Path, message: str, code: str
) -> None:
    client = make(crash_at=1, crash_how="abort", messages=(message,))
    client.load(model, LoadParams())
    answered(qtbot, client)
    error = client.all("failed")[0][1]
    assert error.code == code
    assert message in error.details


def test_every_way_to_end_has_a_sentence_and_advice() -> None:
    ends = [ChildEnd(code, crashed, started) for code in (0, 1, 4, 6, 7, 9, 11, -1073741795)
            for crashed in (True, False) for started in (True, False)]  # fmt: skip
    for end in ends:
        info = explain(end)
        assert info.title.endswith(".")
        assert info.hint
        assert "{" not in info.message
    assert explain(ChildEnd(-1073741795, crashed=True)).code == "engine_illegal_instruction"


def test_lines_that_are_no_events_are_passed_over(qtbot: QtBot, make: Make, model: Path) -> None:
    late = '{"type":"text","id":999,"text":"of another answer","n_tokens":1}'
    garbage = (late, "hello", "{", '{"type":"text"}', '{"type":"new","id":1}', "[" * 5000, "\udcff\udcfe", "null", "")
    client = make(garbage=garbage)
    client.load(model, LoadParams())
    id = answered(qtbot, client)
    assert client.written(id) == REPLY
    assert {number for number, _text, _n in client.all("text")} == {id}
    assert not client.all("crashed")


def test_a_huge_piece_of_text_arrives_whole(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(huge=3_000_000, reply="")
    client.load(model, LoadParams())
    assert len(client.written(answered(qtbot, client))) == 3_000_000


def test_a_line_without_end_is_dropped_and_the_next_one_read() -> None:
    lines = LineSplitter(limit=10)
    assert lines.feed(b"12345") == []
    assert lines.feed(b"6789012345") == []
    assert lines.feed(b"67\nshort\r\nha") == [b"short"]
    assert lines.feed(b"lf\n\n") == [b"half"]


def test_fast_text_is_told_in_few_batches(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(reply=" ".join("word" for _n in range(2000)))
    client.load(model, LoadParams())
    started = time.monotonic()
    id = answered(qtbot, client)
    elapsed = time.monotonic() - started
    assert client.written(id) == client.script["reply"]
    assert len(client.all("text")) <= elapsed / 0.033 + 2
    assert client.all("text")[-1][2] == 2000


def test_a_model_that_ends_its_engine_while_loading_is_remembered(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(load_crash="SIGILL")
    client.load(model, LoadParams())
    id = client.generate(REQUEST)
    qtbot.waitUntil(ended(client, id), timeout=10_000)
    assert client.all("load_failed")[0][0].code == "engine_illegal_instruction"
    assert client.all("failed")[0][1].code == "engine_illegal_instruction"
    assert client.fatal_moment(model)
    qtbot.waitUntil(lambda: StateFile(places().state_file).get("fatal_models") is not None, timeout=5000)
    assert make().fatal_moment(model), "the next start knows it"
    model.write_bytes(b"another file of the same name")
    assert not make().fatal_moment(model)


def test_a_model_that_loads_after_all_is_forgiven(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(load_crash="SIGSEGV")
    with qtbot.waitSignal(client.load_failed, timeout=10_000):
        client.load(model, LoadParams())
    client.script = {}
    with qtbot.waitSignal(client.loaded, timeout=10_000):
        client.load(model, LoadParams())
    assert not client.fatal_moment(model)


def test_a_model_that_ends_its_engine_while_answering_is_remembered_until_it_answers(
    qtbot: QtBot, make: Make, model: Path
) -> None:
    client = make(crash_at=1)
    client.load(model, LoadParams())
    answered(qtbot, client)
    assert client.fatal_moment(model) == "answering"
    client.script = {}
    id = answered(qtbot, client)  # the model is loaded again by itself, in the same window
    assert client.written(id) == REPLY
    assert not client.fatal_moment(model)


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
@pytest.mark.parametrize("script", [{"load_crash": "SIGTERM"}, {"crash_at": 1, "crash_how": "SIGHUP"}])
def test_an_engine_that_is_asked_to_end_from_outside_does_not_blame_its_model(
    qtbot: QtBot, make: Make, model: Path, script: dict[str, Any]
) -> None:
    client = make(**script)
    client.load(model, LoadParams())
    id = client.generate(REQUEST)
    qtbot.waitUntil(ended(client, id), timeout=10_000)
    assert client.all("failed")[0][1].code == "engine_ended_from_outside"
    assert not client.fatal_moment(model)


def test_an_engine_that_is_ended_with_its_window_does_not_blame_its_model(
    qtbot: QtBot, make: Make, model: Path
) -> None:
    client = make(load_seconds=60.0)
    client.load(model, LoadParams())
    qtbot.waitUntil(lambda: client.state is EngineState.LOADING, timeout=10_000)
    client.kill_now()
    assert client.pid == 0
    assert not client.fatal_moment(model)
    assert not client.all("crashed")


def test_notes_of_earlier_versions_about_fatal_models_are_understood(model: Path) -> None:
    state = StateFile(places().state_file)
    found = model.stat()
    state.set("fatal_models", {str(model): [found.st_size, found.st_mtime_ns], "/gone": "?"})
    fatal = FatalModels(state)
    assert fatal.moment(str(model)) == "loading"
    assert not fatal.moment("/gone")
    state.flush()


def test_other_processor_code_gets_a_new_process(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make()
    with qtbot.waitSignal(client.loaded, timeout=20_000):
        client.load(model, LoadParams())
    first = client.pid
    with qtbot.waitSignal(client.loaded, timeout=20_000):
        client.load(model, LoadParams(threads=1))
    assert client.pid == first
    with qtbot.waitSignal(client.loaded, timeout=20_000):
        client.load(model, LoadParams(cpu_variant="haswell"))
    assert client.pid not in (0, first)
    assert not client.all("load_failed")
    assert not client.all("crashed")


def test_a_refused_load_fails_the_answer_that_waits_for_it(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(load_error="The file is damaged.")
    client.load(model, LoadParams())
    answered(qtbot, client)
    assert client.all("load_failed")[0][0].title == "The file is damaged."
    assert client.all("failed")[0][1].title == "The file is damaged."
    assert client.state is EngineState.OFF
    assert not client.fatal_moment(model)


def test_loading_can_be_stopped(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(load_seconds=5.0, stop_seconds=3.0)
    client.load(model, LoadParams())
    qtbot.waitUntil(lambda: client.state is EngineState.LOADING, timeout=10_000)
    client.stop()
    with qtbot.waitSignal(client.load_failed, timeout=10_000):
        pass
    assert client.state is EngineState.OFF


def test_another_model_takes_the_place_of_a_running_one(
    qtbot: QtBot, make: Make, model: Path, tmp_path: Path
) -> None:
    client = make(endless=True, delay=0.005)
    client.load(model, LoadParams())
    id = client.generate(REQUEST)
    qtbot.waitUntil(lambda: client.written(id) != "", timeout=10_000)
    client.load(tmp_path / "other.gguf", LoadParams())
    qtbot.waitUntil(lambda: client.info is not None and client.info.name == "other", timeout=10_000)
    assert client.all("finished")[0][1].reason is FinishReason.STOPPED


def test_an_engine_that_cannot_start_says_so(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(start_crash="exit 1")
    client.load(model, LoadParams())
    answered(qtbot, client)
    assert client.all("load_failed")[0][0].code == "engine_not_started"
    client._command = lambda: ["/nonexistent/quern-engine"]
    answered(qtbot, client)
    assert client.all("failed")[-1][1].code == "engine_not_started"
    assert not client.fatal_moment(model)


def test_an_engine_of_another_version_is_refused(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(version=999)
    client.load(model, LoadParams())
    with qtbot.waitSignal(client.load_failed, timeout=10_000):
        pass
    assert client.all("load_failed")[0][0].code == "engine_mismatch"


def test_tokens_are_counted_while_an_answer_runs(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(endless=True, delay=0.005)
    client.load(model, LoadParams())
    id = client.generate(REQUEST)
    qtbot.waitUntil(lambda: client.written(id) != "", timeout=10_000)
    counting, cutting = client.count(REQUEST.messages), client.tokenize("a b c")
    qtbot.waitUntil(lambda: bool(client.all("tokenized")), timeout=10_000)
    assert client.all("counted") == [[counting, 6]]
    assert client.all("tokenized")[0][0] == cutting
    client.stop()
    qtbot.waitUntil(ended(client, id), timeout=10_000)


def test_counting_without_a_model_fails_and_starts_nothing(qtbot: QtBot, make: Make) -> None:
    client = make()
    id = client.count(REQUEST.messages)
    qtbot.waitUntil(lambda: bool(client.all("failed")), timeout=10_000)
    assert client.all("failed")[0][0] == id
    assert client.pid == 0


def test_unloading_ends_the_process_and_forgets_the_model(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(endless=True, delay=0.005)
    client.load(model, LoadParams())
    id = client.generate(REQUEST)
    qtbot.waitUntil(lambda: client.written(id) != "", timeout=10_000)
    pid = client.pid
    client.unload()
    qtbot.waitUntil(lambda: client.pid == 0, timeout=10_000)
    assert not psutil.pid_exists(pid)
    assert client.all("finished")[0][1].reason is FinishReason.STOPPED
    assert client.state is EngineState.OFF
    assert not client.all("crashed")


@pytest.mark.parametrize("script", [{}, {"endless": True}, {"endless": True, "deaf": True, "immortal": True},
                                    {"load_seconds": 60.0}])  # fmt: skip
def test_shutting_down_leaves_no_process(qtbot: QtBot, make: Make, model: Path, script: dict[str, Any]) -> None:
    client = make(delay=0.005, **script)
    client.load(model, LoadParams())
    client.generate(REQUEST)
    qtbot.waitUntil(lambda: client.state in (EngineState.GENERATING, EngineState.LOADING), timeout=10_000)
    pid = client.pid
    with qtbot.waitSignal(client.closed, timeout=10_000):
        client.shutdown()
    assert not psutil.pid_exists(pid)
    assert not client.all("crashed")


def test_an_engine_whose_window_is_killed_ends_by_itself(qtbot: QtBot, model: Path, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    window = f"""
import sys
sys.path[:0] = {sys.path!r}
import scripted_engine
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from desktop.engine_client import EngineClient
from runtime.params import LoadParams, SamplingParams
from runtime.places import places
app = QCoreApplication([])
client = EngineClient(places(), command=lambda: scripted_engine.command(endless=True, delay=0.01))
client.loaded.connect(lambda info: Path({str(mark)!r}).write_text(str(client.pid)))
client.load({str(model)!r}, LoadParams())
app.exec()
"""
    process = subprocess.Popen([sys.executable, "-c", window])
    qtbot.waitUntil(lambda: mark.exists() and mark.read_text() != "", timeout=20_000)
    process.kill()
    process.wait()
    pid = int(mark.read_text())
    qtbot.waitUntil(lambda: not _alive(pid), timeout=10_000)


def _alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_the_engines_messages_are_kept_in_a_file(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(messages=("load_backend: hello", "x" * 100_000))
    client.load(model, LoadParams())
    answered(qtbot, client)
    with qtbot.waitSignal(client.closed, timeout=10_000):
        client.shutdown()
    kept = (places().logs / "engine.log").read_text(encoding="utf-8")
    assert "load_backend: hello" in kept
    assert len(kept) < 10_000


def test_a_log_that_cannot_be_written_stops_nothing(qtbot: QtBot, make: Make, model: Path) -> None:
    places().logs.parent.mkdir(parents=True)
    places().logs.write_text("a file where the folder should be")
    client = make(messages=("hello",))
    client.load(model, LoadParams())
    assert client.written(answered(qtbot, client)) == REPLY


def test_relative_paths_reach_the_engine_whole(
    qtbot: QtBot, make: Make, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    client = make()
    with qtbot.waitSignal(client.loaded, timeout=10_000):
        client.load(model.name, LoadParams())
    assert client.all("loaded")[0][0].path == os.path.abspath(model)


def test_loading_can_be_stopped_before_the_process_is_up(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make()
    client.load(model, LoadParams())
    id = client.generate(REQUEST)
    qtbot.waitUntil(lambda: client.state is EngineState.STARTING, timeout=10_000)
    client.stop()
    assert client.all("load_failed")[0][0].code == "load_cancelled"
    qtbot.waitUntil(ended(client, id), timeout=10_000)
    assert client.written(answered(qtbot, client)) == REPLY, "a message afterwards loads it after all"


def test_text_that_json_cannot_hold_reaches_the_engine(qtbot: QtBot, make: Make, model: Path) -> None:
    client = make(echo=True)
    client.load(model, LoadParams())
    messages = (Message(Role.USER, "lone \ud800 end"),)
    id = client.generate(GenerationRequest(messages=messages))
    qtbot.waitUntil(ended(client, id), timeout=10_000)
    assert client.written(id) == "lone � end"
    client.count(messages)
    client.tokenize("lone \ud800 end")
    qtbot.waitUntil(lambda: bool(client.all("tokenized")), timeout=10_000)
    assert client.all("counted")


@pytest.mark.skipif(sys.platform != "linux", reason="names that are not UTF-8 exist on Linux")
def test_a_file_name_that_is_no_text_reaches_the_engine(qtbot: QtBot, make: Make, tmp_path: Path) -> None:
    client = make()
    path = tmp_path / os.fsdecode(b"caf\xe9.gguf")
    with qtbot.waitSignal(client.loaded, timeout=10_000) as loaded:
        client.load(path, LoadParams())
    assert path_of(loaded.args[0].path) == path
    assert client.wanted == (str(path), LoadParams())
