"""A job's child process: what it says arrives, it can be stopped, and its end is told once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator

import pytest
from pytestqt.qtbot import QtBot

from desktop.job import Job, Jobs, JobState

_ECHO = """
import json, sys
request = json.loads(sys.stdin.readline())
for event in request["events"]:
    print(json.dumps(event), flush=True)
if request.get("waits"):
    sys.stdin.read()
if request.get("deaf"):
    import time
    time.sleep(60)
sys.exit(request.get("code", 0))
"""
Make = Callable[..., Job]


@pytest.fixture
def jobs(qtbot: QtBot) -> Iterator[Jobs]:
    made = Jobs()
    yield made
    made.kill_now()


@pytest.fixture
def make(jobs: Jobs) -> Make:
    def made(*events: dict[str, object], **request: object) -> Job:
        line = json.dumps({"events": events, **request}).encode() + b"\n"
        return Job([sys.executable, "-c", _ECHO], line, name="work")

    return made


def test_what_the_child_says_arrives_in_order_and_closes_the_job(jobs: Jobs, make: Make, qtbot: QtBot) -> None:
    job = make({"event": "planned", "size": 3}, {"event": "progress", "done": 1, "total": 4}, {"event": "done"})
    seen: list[str] = []
    job.received.connect(lambda event: seen.append(event["event"]))
    jobs.add(job)
    qtbot.waitUntil(lambda: not job.active)
    assert (seen, job.state, job.fraction) == (["planned", "progress", "done"], JobState.DONE, 0.25)


def test_jobs_run_one_after_the_other(jobs: Jobs, make: Make, qtbot: QtBot) -> None:
    first, second = make({"event": "begun"}, waits=True), make({"event": "done"})
    jobs.add(first)
    jobs.add(second)
    assert (first.state, second.state) == (JobState.RUNNING, JobState.WAITING)
    first.stop()
    qtbot.waitUntil(lambda: second.state is JobState.DONE)
    assert first.state is JobState.STOPPED


def test_a_waiting_job_is_stopped_without_ever_starting(jobs: Jobs, make: Make, qtbot: QtBot) -> None:
    first, second = make({"event": "begun"}, waits=True), make({"event": "done"})
    jobs.add(first)
    jobs.add(second)
    second.stop()
    first.stop()
    qtbot.waitUntil(lambda: not first.active)
    assert second.state is JobState.STOPPED


def test_a_failure_keeps_the_childs_own_words(jobs: Jobs, make: Make, qtbot: QtBot) -> None:
    job = make({"event": "failed", "error": {"title": "The disk is full.", "code": "no_room", "new_field": 1}})
    jobs.add(job)
    qtbot.waitUntil(lambda: not job.active)
    assert job.state is JobState.FAILED
    assert job.error is not None
    assert (job.error.title, job.error.code) == ("The disk is full.", "no_room")


def test_a_child_that_dies_without_a_word_is_a_failure(jobs: Jobs, make: Make, qtbot: QtBot) -> None:
    job = make({"event": "begun"}, code=3)
    jobs.add(job)
    qtbot.waitUntil(lambda: not job.active)
    assert job.error is not None
    assert job.error.code == "job_died"


def test_a_program_that_is_not_there_is_a_failure(jobs: Jobs, qtbot: QtBot) -> None:
    job = Job(["/no/such/program"], b"{}\n", name="work")
    jobs.add(job)
    qtbot.waitUntil(lambda: not job.active)
    assert job.state is JobState.FAILED


def test_lines_that_are_no_event_are_passed_over(jobs: Jobs, qtbot: QtBot) -> None:
    script = "print('not json'); print('[1, 2]'); print('{\"event\": \"done\"}')"
    job = Job([sys.executable, "-c", script], b"\n", name="work")
    jobs.add(job)
    qtbot.waitUntil(lambda: not job.active)
    assert job.state is JobState.DONE


def test_a_job_that_has_ended_can_be_forgotten_and_one_that_runs_cannot(jobs: Jobs, make: Make, qtbot: QtBot) -> None:
    job = make({"event": "begun"}, waits=True)
    jobs.add(job)
    jobs.remove(job)
    assert jobs.all == (job,)
    job.stop()
    qtbot.waitUntil(lambda: not job.active)
    jobs.remove(job)
    assert jobs.all == ()


def test_stopping_everything_says_when_it_is_quiet(jobs: Jobs, make: Make, qtbot: QtBot) -> None:
    jobs.add(make({"event": "begun"}, waits=True))
    jobs.add(make({"event": "begun"}, waits=True))
    jobs.run_beside(make({"event": "begun"}, waits=True))
    assert jobs.busy
    jobs.stop_all()
    qtbot.waitUntil(lambda: not jobs.busy)
    assert [job.state for job in jobs.all] == [JobState.STOPPED, JobState.STOPPED]


@pytest.mark.parametrize("end", [Jobs.stop_all, Jobs.kill_now])
def test_what_comes_after_the_end_is_stopped_before_it_starts(
    jobs: Jobs, make: Make, end: Callable[[Jobs], None]
) -> None:
    end(jobs)
    late, beside = make({"event": "begun"}, waits=True), make({"event": "begun"}, waits=True)
    jobs.add(late)
    jobs.run_beside(beside)
    assert (late.state, beside.state) == (JobState.STOPPED, JobState.STOPPED)
    assert not jobs.busy
