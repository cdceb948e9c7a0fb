"""What a process takes is computing and waiting, but not standing still and not being kept from the processor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from running_clock import RunningClock, _look

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at what Linux tells of a process")
SPIN = "print(flush=True)\nwhile True: pass"


@pytest.fixture
def clock() -> Iterator[RunningClock]:
    with RunningClock(pause=0.3) as clock:
        yield clock


def when_it_moved(clock: RunningClock, before: float) -> float:
    while (now := clock.now()) == before:
        time.sleep(0.001)
    return now


def spinning(code: str = SPIN) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def end(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


def test_it_counts(clock: RunningClock) -> None:
    before = clock.now()
    assert when_it_moved(clock, before) > before


@pytest.mark.skipif(sys.platform == "win32", reason="no signal stops a process")
def test_a_pause_of_everything_counts_for_no_more_than_a_moment(clock: RunningClock) -> None:
    os.kill(clock.counter.pid, signal.SIGSTOP)
    os.waitpid(clock.counter.pid, os.WUNTRACED)
    before = clock.now()
    time.sleep(1)
    os.kill(clock.counter.pid, signal.SIGCONT)
    assert when_it_moved(clock, before) < before + 0.31


def test_what_hangs_is_killed_and_what_ends_is_not(clock: RunningClock) -> None:
    hanging = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with clock.timing(hanging.pid, killed_after=0.3) as taken:
        assert hanging.wait() != 0
    assert taken.seconds > 0.3
    quick = subprocess.Popen([sys.executable, "-c", ""])
    with clock.timing(quick.pid, killed_after=600):
        assert quick.wait() == 0


@pytest.mark.parametrize("code", [SPIN, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}])"],
                         ids=["itself", "in a child"])  # fmt: skip
def test_what_computes_without_end_is_killed(clock: RunningClock, code: str) -> None:
    busy = spinning(code)
    children = psutil.Process(busy.pid).children()
    with clock.timing(busy.pid, killed_after=0.3):
        assert busy.wait() != 0
    for child in children:
        child.kill()
    end(busy)


@linux
def test_being_kept_from_the_processor_does_not_count(clock: RunningClock) -> None:
    rivals = [spinning() for _ in range(4)]
    for rival in rivals:
        os.sched_setaffinity(rival.pid, {min(os.sched_getaffinity(0))})
    watched = rivals[0]
    before, began = psutil.Process(watched.pid).cpu_times(), clock.now()
    with clock.timing(watched.pid, killed_after=600) as taken:
        while clock.now() < began + 2:
            time.sleep(0.05)
    after, ran = psutil.Process(watched.pid).cpu_times(), clock.now() - began
    end(*rivals)
    used = after.user + after.system - before.user - before.system
    assert used / 2 < taken.seconds < used + 0.05
    assert taken.seconds < ran / 2


@linux
def test_children_that_come_and_go_are_no_trouble(clock: RunningClock) -> None:
    code = (
        "import os\nfor _ in range(1000):\n    child = os.fork()\n"
        "    if not child: os._exit(0)\n    os.waitpid(child, 0)"
    )
    busy = subprocess.Popen([sys.executable, "-c", code])
    with clock.timing(busy.pid, killed_after=600):
        while busy.poll() is None:
            _look(Path(f"/proc/{busy.pid}"))
    assert busy.returncode == 0


@pytest.mark.parametrize("work", [lambda: time.sleep(0.5), lambda: sum(range(20_000_000))], ids=["waits", "computes"])
def test_a_thread_is_measured_for_itself(clock: RunningClock, work: Callable[[], object]) -> None:
    with clock.timing_this_thread() as taken:
        before = clock.now()
        work()
        ran = clock.now() - before
    assert 0.1 < taken.seconds < ran + 0.3


@linux
def test_a_thread_does_not_answer_for_another(clock: RunningClock) -> None:
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            pass

    other = threading.Thread(target=spin)
    other.start()
    with clock.timing_this_thread() as taken:
        before = time.thread_time()
        while time.thread_time() < before + 0.2:
            pass
    over.set()
    other.join()
    assert taken.seconds < 2


def test_a_counter_that_died_is_an_error_and_no_standstill(clock: RunningClock) -> None:
    clock.counter.kill()
    clock.counter.wait()
    with pytest.raises(AssertionError, match="nobody counts"):
        clock.now()
