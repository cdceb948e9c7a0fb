"""`quern chat` without a terminal: one message, piped messages, JSON, errors."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import tiny_gguf
from command_line import Opened, Run
from fake_engine import ENDLESS, FakeEngine
from runtime import engines
from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.messages import Message, Role
from runtime.protocol import TextDelta


def test_the_answer_goes_to_stdout_and_nothing_else_does(run: Run, engine: FakeEngine, tiny: Path):
    engine.answers = ["It is four."]
    result = run("chat", str(tiny), "-p", "What is 2+2?")
    assert (result.code, result.out, result.err) == (0, "It is four.\n", "")
    assert engine.closed


def test_the_system_prompt_comes_first(run: Run, engine: FakeEngine, tiny: Path):
    run("chat", str(tiny), "-p", "hi", "--system", "Be brief.")
    assert engine.requests[0].messages == (Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "hi"))


def test_each_piped_line_is_a_message_of_one_conversation(run: Run, engine: FakeEngine, tiny: Path):
    result = run("chat", str(tiny), stdin="one\n\n  two \n")
    assert result.out == "echo one\n\necho two\n"
    assert [message.content for message in engine.requests[1].messages] == ["one", "echo one", "two"]


def test_a_dash_takes_the_whole_input_as_one_message(run: Run, engine: FakeEngine, tiny: Path):
    run("chat", str(tiny), "-p", "-", stdin="one\ntwo\n")
    assert [message.content for message in engine.requests[0].messages] == ["one\ntwo\n"]


def test_input_that_is_no_text_is_read_with_replacement_marks(run: Run, engine: FakeEngine, tiny: Path):
    run("chat", str(tiny), "-p", "-", stdin=b"\xef\xbb\xbfcaf\xe9")
    run("chat", str(tiny), stdin=b"caf\xe9")
    assert [request.messages[0].content for request in engine.requests] == ["caf\ufffd", "caf\ufffd"]


@pytest.mark.parametrize("arguments", [[], ["-p", "-"], ["-p", " "]])
def test_empty_input_is_refused_before_a_model_is_loaded(run: Run, opened: Opened, tiny: Path, arguments: list[str]):
    result = run("chat", str(tiny), *arguments)
    assert result.code == 2
    assert "empty" in result.err
    assert opened.path == Path()


def test_json_writes_one_event_a_line_with_the_seed_and_the_reason(run: Run, engine: FakeEngine, tiny: Path):
    engine.answers = ["“好” \x1b"]
    result = run("chat", str(tiny), "-p", "hi", "--json")
    events = [json.loads(line) for line in result.out.splitlines()]
    assert events[0]["type"] == "loaded"
    assert "".join(event["text"] for event in events if event["type"] == "text") == "“好” \x1b"
    finished = events[-1]
    assert (finished["type"], finished["reason"], finished["seed"]) == ("finished", "end", 7)
    assert finished["usage"]["cached_tokens"] == 0
    assert finished["usage"]["generation_tokens_per_second"] == pytest.approx(2.0)


def test_verbose_tells_the_seed_and_the_speed_on_stderr(run: Run, engine: FakeEngine, tiny: Path):
    result = run("chat", str(tiny), "-p", "hi", "-v", "--seed", "42")
    assert result.out == "echo hi\n"
    assert "seed 42" in result.err
    assert "tokens/s" in result.err


def test_dropped_messages_are_mentioned(run: Run, engine: FakeEngine, tiny: Path):
    engine.drops = (1, 2)
    assert "2 earlier messages" in run("chat", str(tiny), "-p", "hi").err


def test_a_note_about_the_conversation_is_told_once(run: Run, engine: FakeEngine, tiny: Path):
    engine.notes = ("The system prompt was put into the first message.",)
    assert run("chat", str(tiny), stdin="one\ntwo\n").err.count("The system prompt") == 1


def test_an_engines_refusal_is_one_message_without_a_traceback(run: Run, engine: FakeEngine, tiny: Path):
    engine.answers = [UserError("The context is full: 70 of 64 tokens.", "", "Raise the context length.")]
    result = run("chat", str(tiny), "-p", "hi")
    assert (result.code, result.out) == (2, "")
    assert result.err == "The context is full: 70 of 64 tokens.\nRaise the context length.\n"
    assert engine.closed


def test_ctrl_c_ends_the_answer_keeps_its_text_and_returns_130(
    run: Run, engine: FakeEngine, tiny: Path, monkeypatch: pytest.MonkeyPatch
):
    engine.answers = [ENDLESS]
    pieces = engine._pieces(ENDLESS)

    def interrupted(_answer: str):
        for count, piece in enumerate(pieces):
            if count == 3:
                os.kill(os.getpid(), signal.SIGINT)
            yield piece

    monkeypatch.setattr(engine, "_pieces", interrupted)
    result = run("chat", str(tiny), "-p", "hi")
    assert result.code == 130
    assert result.out.startswith("on and on and on and ")
    assert "Traceback" not in result.err
    assert engine.closed
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_while_the_model_loads_returns_130_silently(run: Run, tiny: Path, monkeypatch: pytest.MonkeyPatch):
    def slow(_path: Path, _params: object, *, stop: StopFlag, **_options: object) -> FakeEngine:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_set()
        raise UserError("Loading was stopped.")

    monkeypatch.setattr(engines, "open_engine", slow)
    result = run("chat", str(tiny), "-p", "hi")
    assert (result.code, result.out, result.err) == (130, "", "")


def test_a_bug_of_ours_ends_with_1_and_a_log_file(
    run: Run, engine: FakeEngine, tiny: Path, quern_home: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_arguments: object):
        yield TextDelta(id=0, text="so", n_tokens=1)
        raise ZeroDivisionError("in the engine")

    monkeypatch.setattr(engine, "generate", broken)
    result = run("chat", str(tiny), "-p", "hi")
    assert result.code == 1
    assert "Traceback" not in result.err
    assert len(result.err.splitlines()) == 1
    log = next((quern_home / "logs").iterdir())
    assert str(log) in result.err
    assert "ZeroDivisionError: in the engine" in log.read_text()


def test_complete_prints_only_what_the_model_adds(run: Run, engine: FakeEngine, tiny: Path):
    result = run("complete", str(tiny), "-p", "Once upon", "--max-tokens", "5")
    assert result.out == "echo Once upon\n"
    assert (engine.requests[0].prompt, engine.requests[0].messages) == ("Once upon", ())


def test_alternatives_are_asked_of_the_engine_and_only_for_programs(run: Run, engine: FakeEngine, tiny: Path):
    for command in ("chat", "complete"):
        assert run(command, str(tiny), "-p", "hi", "--json", "--alternatives", "3").code == 0
        assert engine.requests[-1].alternatives == 3
        result = run(command, str(tiny), "-p", "hi", "--alternatives", "3")
        assert (result.code, result.out) == (2, "")
        assert "--json" in result.err
    assert len(engine.requests) == 2


def test_a_bad_grammar_is_refused_before_the_model_is_loaded(run: Run, engine: FakeEngine, tiny: Path):
    result = run("chat", str(tiny), "-p", "hi", "--grammar", 'root ::= "a')
    assert (result.code, result.out, engine.requests) == (2, "", [])
    assert "Line 1" in result.err


def test_an_unwritable_profile_does_not_stop_a_chat(
    run: Run, engine: FakeEngine, tiny: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("QUERN_HOME", str(tmp_path / "file" / "home"))
    result = run("chat", str(tiny), "-p", "hi")
    assert (result.code, result.out) == (0, "echo hi\n")


def test_a_model_without_a_chat_template_is_told_how_it_can_be_used(run: Run, tmp_path: Path):
    base = tiny_gguf.write_tiny(tmp_path / "base.gguf", chat_template=None)
    result = run("chat", str(base), "-p", "hi")
    assert (result.code, result.out) == (2, "")
    assert "quern complete" in result.err
    assert "no chat template" in result.err


def test_a_model_without_a_template_is_told_the_one_that_fits_its_vocabulary(run: Run, tmp_path: Path):
    bare = tiny_gguf.write_tiny(tmp_path / "bare.gguf", chat_template=None)
    result = run("chat", str(bare), "-p", "hi", "--context-length", "128")
    assert result.code == 2
    assert "--template chatml" in result.err
    given = ("--context-length", "128", "--max-tokens", "3", "--threads", "1")
    assert run("chat", str(bare), "-p", "hi", "--template", "chatml", *given).code == 0
    result = run("chat", str(bare), "-p", "hi", "--template", "chatlm", *given)
    assert (result.code, "alpaca, chatml" in result.err) == (2, True)


def test_template_variables_reach_the_engine(run: Run, engine: FakeEngine):
    run("chat", "starter", "-p", "hi", "--template-var", "enable_thinking=false", "--template-var", "effort=high")
    assert engine.requests[0].sampling.template_vars == ("enable_thinking=false", "effort=high")
    result = run("chat", "starter", "-p", "hi", "--template-var", "enable thinking")
    assert (result.code, "enable_thinking=false" in result.err) == (2, True)
