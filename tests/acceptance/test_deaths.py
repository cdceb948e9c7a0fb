"""The real window on the real starter model, and processes killed in the middle of an answer."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from desktop.store.database import ChatDatabase
from driven_window import DrivenWindow
from lived_time import clock, seconds_to_end
from window_kills import Kills

STORY = "Write a long story about an old mill by the river, with many details."
REAL_KILLS = 20
KILLS = 80


@pytest.fixture
def window(quern_home: Path) -> Iterator[DrivenWindow]:
    driven = DrivenWindow(quern_home)
    yield driven
    driven.kill()


def test_a_killed_engine_leaves_its_text_and_the_next_message_is_answered(window: DrivenWindow) -> None:
    window.ready()
    window.do("send", text=STORY)
    before = window.until(lambda state: len(state["texts"]) == 2 and len(state["texts"][1]) > 80)
    os.kill(before["pid"], signal.SIGKILL)
    after = window.until(lambda state: state["states"][1] == "failed")
    assert after["texts"][1].startswith(before["texts"][1])
    assert after["error"]
    window.do("send", text="What is 2+2?")
    answered = window.until(lambda state: len(state["texts"]) == 4 and state["texts"][3].strip() != "")
    assert answered["states"][3] in ("streaming", "complete")  # a small model may go on for minutes
    assert answered["texts"][1] == after["texts"][1]


def test_a_closed_window_keeps_the_partial_answer_and_leaves_no_process(window: DrivenWindow) -> None:
    window.ready()
    window.do("send", text=STORY)
    before = window.until(lambda state: len(state["texts"]) == 2 and len(state["texts"][1]) > 40)
    family = psutil.Process(window.process.pid).children(recursive=True)
    started = clock().now()
    assert window.close() == 0
    assert clock().now() - started < 4
    assert seconds_to_end(family, 30) < 3
    again = DrivenWindow(Path(os.environ["QUERN_HOME"]))
    again.ready()
    again.do("open", chat=before["chat"])
    state = again.until(lambda state: len(state["texts"]) == 2)
    assert state["texts"][1].startswith(before["texts"][1])
    assert state["states"][1] == "stopped"
    again.close()


@pytest.mark.acceptance
@pytest.mark.timeout(7200)
def test_a_window_killed_while_the_real_model_writes_loses_at_most_the_last_second(quern_home: Path) -> None:
    draw = random.Random(20)
    for _ in range(REAL_KILLS):
        window = DrivenWindow(quern_home)
        window.ready()
        window.do("send", text=STORY)
        window.until(lambda state: len(state["texts"]) == 2 and state["texts"][1] != "")
        kill_at = window.lived() + draw.uniform(0.1, 3.0)
        seen: list[tuple[float, str]] = []
        while window.lived() < kill_at:
            state = window.do("look")
            seen.append((window.lived(), state["texts"][1]))
            time.sleep(0.02)
        family = psutil.Process(window.process.pid).children(recursive=True)
        killed_at = window.lived()
        window.kill()
        assert seconds_to_end(family, 60) < 5, "the engine outlived the window"
        _check_kept(quern_home, state["chat"], seen, killed_at)


def _check_kept(home: Path, chat: str, seen: list[tuple[float, str]], killed_at: float) -> None:
    database = ChatDatabase(home / "chats.db")
    database.recover()
    opened = database.open_chat(chat)
    database.close()
    assert opened is not None
    question, answer = opened.messages
    assert question.content == STORY
    a_second_before = [text for moment, text in seen if moment <= killed_at - 1.0]
    assert answer.content.startswith(a_second_before[-1] if a_second_before else "")
    assert seen[-1][1].startswith(answer.content) or answer.content.startswith(seen[-1][1])


@pytest.mark.acceptance
@pytest.mark.timeout(7200)
def test_a_window_killed_at_any_moment_keeps_everything_that_was_finished(tmp_path: Path) -> None:
    kills = Kills(tmp_path)
    for number in range(KILLS):
        kills.kill_once(number)
    told = f"slowest start {max(kills.starts):.1f} s, children gone within {max(kills.ends):.1f} s"
    sys.stdout.write(f"{KILLS} kills, {told}\n")
    assert max(kills.starts) < 5
    assert max(kills.ends) < 5
