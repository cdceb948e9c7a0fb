"""What the window costs: time to the first paint beside a bare PySide6 window, memory, idle processor time, its maps.

    python tests/benchmarks/bench_window.py              on the display, or on Xvfb where there is none
    python tests/benchmarks/bench_window.py -r 15 --idle 60

Starts alternate in one run and are quoted as a ratio. The targets: first paint within 1.6 times the bare window's,
under 0.5 % of a core when idle with a model loaded, under 200 MB, no torch and no llama.cpp mapped, no process left.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent.parent

_BARE = """
import sys
from PySide6.QtCore import QEvent, QObject, QTimer
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow
class Painted(QObject):
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            QTimer.singleShot(0, lambda: (print("painted", flush=True), QApplication.quit()))
        return False
app = QApplication(sys.argv)
window = QMainWindow()
window.setCentralWidget(QLabel("Hello"))
window.resize(1120, 760)
filter = Painted()
window.installEventFilter(filter)
window.show()
app.exec()
"""
_QUERN = """
import sys
from desktop import app
furnish = app.Opening.furnish
def painted(self):
    print("painted", flush=True)
    if "--leave" in sys.argv:
        self.shell.close()
    else:
        self.shell.furnished.connect(lambda: (self.application.window.repaint(), print("usable", flush=True)))
        furnish(self)
app.Opening.furnish = painted
raise SystemExit(app.main([]))
"""
_FORBIDDEN = ("libtorch", "libllama", "libggml", "/torch/", "/llama_cpp/")


@contextmanager
def display() -> Iterator[dict[str, str]]:
    """Yields an environment with a display, on an Xvfb of our own where there is none."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a person's second start has the bytecode
    if sys.platform != "linux" or os.environ.get("DISPLAY"):
        yield environment
        return
    if shutil.which("Xvfb") is None:
        raise SystemExit("no display, and no Xvfb to make one")
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1600x1000x24"], pass_fds=[write], stderr=subprocess.DEVNULL
    )
    os.close(write)
    number = os.read(read, 16).decode().strip()
    yield {**environment, "DISPLAY": f":{number}", "QT_QPA_PLATFORM": "xcb"}
    server.terminate()
    server.wait()


def seconds_to_use(environment: dict[str, str]) -> float:
    """Returns the time until the whole window is built and painted."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", _QUERN], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    process.stdout.readline(), process.stdout.readline()
    taken = time.perf_counter() - started
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    return taken


def seconds_to_paint(code: str, environment: dict[str, str]) -> float:
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code, "--leave"], stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    process.stdout.readline()
    taken = time.perf_counter() - started
    process.wait(30)
    return taken


def compare_starts(environment: dict[str, str], repetitions: int) -> None:
    seconds_to_paint(_BARE, environment), seconds_to_paint(_QUERN, environment)  # warm the disk
    bare, quern, usable = [], [], []
    for _ in range(repetitions):
        bare.append(seconds_to_paint(_BARE, environment))
        quern.append(seconds_to_paint(_QUERN, environment))
        usable.append(seconds_to_use(environment))
    for name, values in (("first paint", quern), ("whole window", usable)):
        ratio = statistics.median(ours / theirs for ours, theirs in zip(values, bare, strict=True))
        say(f"{name}: {statistics.median(values):.2f} s, bare {statistics.median(bare):.2f} s, ratio {ratio:.2f}")


def watch_idle(environment: dict[str, str], idle: float) -> None:
    process = subprocess.Popen([sys.executable, "-c", _QUERN], stdout=subprocess.PIPE, env=environment)
    window = psutil.Process(process.pid)
    wait_for_engine(window)
    time.sleep(5)
    before, started = used(window), time.monotonic()
    time.sleep(idle)
    share = (used(window) - before) / (time.monotonic() - started)
    memory = window.memory_full_info()
    mapped = sorted({path for path in _FORBIDDEN for item in window.memory_maps() if path in item.path})
    say(f"idle with a model loaded: {share:.2%} of a core, window and children")
    say(f"window: {memory.rss / 1e6:.0f} MB resident, {memory.uss / 1e6:.0f} MB its own; forbidden maps: {mapped}")
    children = window.children(recursive=True)
    closing = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.wait(30)
    _gone, alive = psutil.wait_procs(children, timeout=3)
    say(f"closed in {time.monotonic() - closing:.1f} s; of {len(children)} children {len(alive)} are left")


def wait_for_engine(window: psutil.Process) -> None:
    deadline = time.monotonic() + 30
    while not window.children(recursive=True) and time.monotonic() < deadline:
        time.sleep(0.1)


def used(window: psutil.Process) -> float:
    times = [process.cpu_times() for process in (window, *window.children(recursive=True))]
    return sum(item.user + item.system for item in times)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-r", "--repetitions", type=int, default=10)
    parser.add_argument("--idle", type=float, default=30, help="seconds to watch the idle window")
    options = parser.parse_args()
    with display() as environment, tempfile.TemporaryDirectory() as home:
        environment["QUERN_HOME"] = home
        compare_starts(environment, options.repetitions)
        watch_idle(environment, options.idle)


if __name__ == "__main__":
    main()
