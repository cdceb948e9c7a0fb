"""The process of one conversion, as its parent sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tiny_gguf
from convert.job_request import ConvertRequest, convert_command, first_line
from convert.worker import events
from runtime.engine import StopFlag
from runtime.gguf_header import read_header

ROOT = Path(__file__).resolve().parents[2]


def request(source: Path, target: Path, *recipes: str, **more: Any) -> ConvertRequest:
    return ConvertRequest(source=str(source), target=str(target), recipes=recipes, **more)


def test_the_process_tells_its_plan_its_progress_and_its_end(tmp_path: Path) -> None:
    source = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    target = tmp_path / "small.gguf"
    process = subprocess.Popen(convert_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(first_line(request(source, target, "Q8_0")))
    process.stdin.flush()
    told = [json.loads(line)["event"] for line in process.stdout]
    process.stdin.close()
    process.stdout.close()
    assert process.wait(timeout=120) == 0
    assert (told[0], told[-2:]) == ("planned", ["converted", "done"])
    assert "write_progress" in told
    assert read_header(target).quantization == "Q8_0"


def test_a_dry_run_plans_every_type_that_is_named(tmp_path: Path) -> None:
    source = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    asked = request(source, tmp_path / "x.gguf", "F16", "Q8_0", dry_run=True)
    told = list(events(asked, StopFlag()))
    assert [event.get("type") for event in told] == ["F16", "Q8_0", None]
    assert list(tmp_path.iterdir()) == [source]


def test_a_refusal_is_the_last_event_with_its_code(tmp_path: Path) -> None:
    source = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    (last,) = events(request(source, source, "Q8_0"), StopFlag())
    assert last["event"] == "failed"
    assert last["error"]["code"] == "target_is_source"


def test_a_stopped_conversion_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    source = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    stop = StopFlag()
    stop.set()
    told = list(events(request(source, tmp_path / "x.gguf", "Q8_0"), stop))
    assert told[-1]["error"]["code"] == "conversion_stopped"
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_the_window_s_conversion_ends_when_asked_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    source = tiny_gguf.write_tiny(tmp_path / "tiny.gguf", n_layers=4, d_model=256, d_ff=1024)
    (tmp_path / "out").mkdir()
    process = subprocess.Popen(convert_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        wanted = request(source, tmp_path / "out" / "small.gguf", "Q4_0", verify=True, card=True)
        process.stdin.write(first_line(wanted))
        process.stdin.flush()
        next(line for line in process.stdout if json.loads(line)["event"] == "verify_progress")
        os.kill(process.pid, getattr(signal, name))
        if name == "SIGHUP":  # a terminal that closes tells the window, too
            process.stdin.close()
        last = [json.loads(line) for line in process.stdout][-1]
        process.wait(timeout=60)
    assert last["error"]["code"] == "conversion_stopped"
    assert list((tmp_path / "out").iterdir()) == []


DEAF = """
import os, sys, threading, time
from pathlib import Path
from convert import worker
from convert.safe_file import SafeFiles

def work(request, stop):
    with SafeFiles([Path(request.target)]) as files:
        files.write(b"half of it")
        listener = next(thread for thread in threading.enumerate() if thread.name == "stdin")
        nice = [os.getpriority(os.PRIO_PROCESS, id) if sys.platform == "linux" else 0 for id in (0, listener.native_id)]
        yield {"event": "begun", "nice": nice}
        time.sleep(600)

worker.events = work
worker.main()
"""


@pytest.fixture
def deaf(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", DEAF], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(first_line(request(tmp_path / "x.gguf", tmp_path / "y.gguf", "Q8_0")))
    process.stdin.flush()
    with process:
        yield process
        process.kill()


def test_a_deaf_conversion_ends_with_its_parent_and_takes_its_half_file_along(
    deaf: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert deaf.stdin is not None
    assert deaf.stdout is not None
    assert json.loads(deaf.stdout.readline())["event"] == "begun"
    assert list(tmp_path.iterdir()), "the half file lies beside its target"
    deaf.stdin.close()
    assert deaf.wait(timeout=60) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
def test_a_deaf_conversion_that_is_asked_to_end_takes_its_half_file_along(
    deaf: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert deaf.stdout is not None
    assert json.loads(deaf.stdout.readline())["event"] == "begun"
    assert list(tmp_path.iterdir()), "the half file lies beside its target"
    deaf.terminate()
    assert deaf.wait(timeout=60) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all threads share one priority")
def test_the_work_is_low_in_priority_and_what_listens_for_its_end_is_not(deaf: subprocess.Popen[bytes]) -> None:
    assert deaf.stdout is not None
    working, listening = json.loads(deaf.stdout.readline())["nice"]
    assert working > listening
