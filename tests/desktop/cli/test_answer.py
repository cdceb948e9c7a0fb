"""What stands around an answer: thoughts, apart and never mixed into a result, and what an answer's numbers say."""

from __future__ import annotations

import json

import pytest

from command_line import Run
from desktop.cli import output
from desktop.cli.answer import TextView, finished_words, short_words
from fake_engine import FakeEngine
from runtime.engine import StopFlag
from runtime.messages import Message, Role
from runtime.protocol import Finished, FinishReason, GenerationRequest, Usage


@pytest.fixture
def thinking(engine: FakeEngine) -> FakeEngine:
    engine.thoughts = "Hm, a capital."
    engine.answers = ["Paris it is."]
    return engine


def shown(thinking: FakeEngine, capsys: pytest.CaptureFixture[str], **options: bool) -> tuple[str, str]:
    TextView(**options).show(thinking.generate(GenerationRequest(prompt="x"), StopFlag()))
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_reasoning_is_pale_and_apart_on_a_terminal(
    thinking: FakeEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda _stream: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for wrap in (False, True):
        thinking.answers = ["Paris it is."]
        out, _err = shown(thinking, capsys, wrap=wrap)
        plain = out.replace("\x1b[2m", "").replace("\x1b[0m", "")
        assert plain == "Hm, a capital.\n\nParis it is.\n"
        assert out.index("\x1b[2m") < out.index("capital") < out.rindex("\x1b[0m") < out.index("Paris")
    thinking.answers = ["Paris it is."]
    assert shown(thinking, capsys, reasoning=False)[0] == "Paris it is.\n"


def test_a_pipe_gets_the_answer_alone(thinking: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(thinking, capsys) == ("Paris it is.\n", "")


def test_an_answer_that_ended_in_thought_says_so(thinking: FakeEngine, capsys: pytest.CaptureFixture[str]) -> None:
    thinking.answers = [""]
    out, err = shown(thinking, capsys)
    assert (out, "still thinking" in err) == ("", True)


def test_json_tells_reasoning_and_answer_apart(thinking: FakeEngine, run: Run) -> None:
    events = [json.loads(line) for line in run("chat", "starter", "-p", "Where?", "--json").out.splitlines()]
    texts = [event for event in events if event["type"] == "text"]
    assert "".join(event["text"] for event in texts if event["reasoning"]) == "Hm, a capital."
    assert "".join(event["text"] for event in texts if not event["reasoning"]) == "Paris it is."
    assert events[-1]["usage"]["reasoning_tokens"] == 3


def test_the_conversation_keeps_reasoning_apart(thinking: FakeEngine, run: Run) -> None:
    assert run("chat", "starter", "--hide-reasoning", stdin="Where?\nSure?\n").out.startswith("Paris it is.\n")
    assert thinking.requests[1].messages[1] == Message(Role.ASSISTANT, "Paris it is.", "Hm, a capital.")


def test_what_came_of_guesses_is_told_where_any_were_made() -> None:
    def ended(**numbers: int) -> Finished:
        usage = Usage(generated_tokens=2000, generation_seconds=1.0, **numbers)
        return Finished(id=0, reason=FinishReason.END, usage=usage)

    many, one = ended(drafted_tokens=1500, accepted_tokens=1200), ended(drafted_tokens=1)
    assert "1,200 of 1,500 guesses came true" in short_words(many)
    assert "0 of 1 guess came true" in short_words(one)
    assert "Of 1,500 tokens that were guessed ahead, 1,200 came true." in finished_words(many)
    assert "guess" not in short_words(ended()) + finished_words(ended())
