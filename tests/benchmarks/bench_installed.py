"""The installed application beside the one from source: speed of a model, and time from the start to the first paint.

    python tests/benchmarks/bench_installed.py --quern /usr/lib/quern/quern
    python tests/benchmarks/bench_installed.py --quern … --only paint --cold        as root: nothing is in memory
    python tests/benchmarks/bench_installed.py --quern … --only paint --bare PROGRAM  beside a frozen bare Qt window

Both sides alternate in one run, with the same model, threads and environment, and are quoted as ratios. The targets:
generation at least 0.98 of the source's, the first paint within 1.5 times the source's. A paint is seen in the
memory of an X server without a screen (Xvfb), so no program has to take part.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from runtime import bench, devices, starter  # noqa: E402
from runtime.engine_process import EngineProcess, engine_command  # noqa: E402
from runtime.params import LoadParams  # noqa: E402

SOURCE = (sys.executable, "-m", "desktop")
BARE = """
from PySide6.QtWidgets import QApplication, QLabel, QMainWindow
app = QApplication([])
window = QMainWindow()
window.setCentralWidget(QLabel("Hello"))
window.resize(1120, 760)
window.show()
app.exec()
"""
_STRIDE, _SHARE, _PATIENCE = 997, 0.01, 60.0  # bytes between samples; how many must change; seconds


# --- a model's speed --------------------------------------------------------------------------------------------


def compare_speeds(quern: Path, options: argparse.Namespace) -> None:
    """Prints how fast each engine reads and writes, and the ratios of the pairs."""
    commands = {"installed": [str(quern), "engine"], "source": engine_command()}
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    with ExitStack() as stack:
        measures = {name: stack.enter_context(engine(command, options)) for name, command in commands.items()}
        for number in range(options.repetitions):
            for name in sorted(measures, reverse=bool(number % 2)):  # who goes first changes, too
                results[name].append(measures[name]())
    for at, what in enumerate(("prompt", "generation")):
        tell(what, "t/s", {name: [value[at] for value in values] for name, values in results.items()})


@contextmanager
def engine(command: list[str], options: argparse.Namespace) -> Iterator[Callable[[], tuple[float, float]]]:
    """Yields what measures one engine with the model loaded: tokens a second, read and written."""
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "QUERN_HOME": home}
        with EngineProcess(command=command, environment=environment) as process:
            info = process.load(options.model or starter.starter_path(), LoadParams(threads=options.threads))
            say(f"{command[0]}: {info.engine} {info.build}")
            bench._measure(process, bench._tokens(draw, info, 32), 8)

            def measure() -> tuple[float, float]:
                bench._measure(process, bench._tokens(draw, info, options.prompt), 2)
                reading = bench._measure(process, bench._tokens(draw, info, options.prompt), 1)[0]
                return reading, bench._measure(process, bench._tokens(draw, info, 1), options.generate)[1]

            yield measure


# --- the first paint --------------------------------------------------------------------------------------------


class Screen:
    """An X server whose picture is a file."""

    def __init__(self, folder: Path) -> None:
        self._read, write = os.pipe()
        self._server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", "1600x1000x24", "-fbdir", str(folder), "-nocursor",
             "-noreset"],
            pass_fds=[write], stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(write)
        self.name = f":{os.read(self._read, 16).decode().strip()}"
        with next(folder.glob("Xvfb_screen*")).open("rb") as file:
            self._picture = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

    def look(self) -> bytes:
        """Returns some of the picture's bytes, spread over all of it."""
        return self._picture[::_STRIDE]

    def close(self) -> None:
        """Ends the server."""
        self._server.terminate()
        self._server.wait()
        os.close(self._read)  # not before: the server ends where nobody reads


def seconds_to_paint(command: Sequence[str], screen: Screen, environment: dict[str, str], *, cold: bool) -> float:
    """Returns the time until a program has painted something on the screen; ends it then."""
    if cold:
        drop_caches()
    before, started = screen.look(), time.perf_counter()
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    while sum(a != b for a, b in zip(before, screen.look(), strict=True)) < _SHARE * len(before):
        if process.poll() is not None or time.perf_counter() - started > _PATIENCE:
            raise SystemExit(f"{command[0]} has painted nothing; it ended with {process.poll()}")
        time.sleep(0.002)
    taken = time.perf_counter() - started
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)
    time.sleep(0.3)  # the server clears the picture
    return taken


def drop_caches() -> None:
    """Makes the system forget every file that it holds in memory. Needs root."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")


def compare_starts(quern: Path, options: argparse.Namespace) -> None:
    """Prints the time to the first paint of each program, and the ratios of the pairs."""
    bare = [str(options.bare)] if options.bare else [sys.executable, "-c", BARE]
    commands = {"installed": [str(quern)], "source": list(SOURCE), "bare": bare}
    times: dict[str, list[float]] = {name: [] for name in commands}
    with ExitStack() as stack:
        folders = {name: stack.enter_context(tempfile.TemporaryDirectory()) for name in (*commands, "screen")}
        screen = Screen(Path(folders["screen"]))
        stack.callback(screen.close)
        for number in range(options.repetitions + 1):  # the first start makes the profile, and does not count
            for name, command in commands.items():
                environment = {**os.environ, "DISPLAY": screen.name, "QT_QPA_PLATFORM": "xcb",
                               "QUERN_HOME": folders[name]}  # fmt: skip
                environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a person's second start has the bytecode
                taken = seconds_to_paint(command, screen, environment, cold=options.cold and number > 0)
                if number > 0:
                    times[name].append(taken)
    what = "first paint, nothing in memory" if options.cold else "first paint"
    tell(what, "s", {name: times[name] for name in ("installed", "source")})
    tell(what, "s", {name: times[name] for name in ("installed", "bare")})


# --- telling ----------------------------------------------------------------------------------------------------


def tell(what: str, unit: str, values: dict[str, list[float]]) -> None:
    """Prints two series and the median of the ratios of their pairs."""
    (one, ours), (other, theirs) = values.items()
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    shown = ", ".join(f"{name} {statistics.median(series):.2f} {unit}" for name, series in values.items())
    say(f"{what}: {shown}; {one} / {other} {statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f}) "
        f"in {len(ratios)} pairs")  # fmt: skip


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quern", type=Path, required=True, help="the installed program")
    parser.add_argument("--only", choices=("speed", "paint"), help="measure one of the two")
    parser.add_argument("--model", type=Path, help="a GGUF file; the starter where none is named")
    parser.add_argument("--bare", type=Path, help="a program that shows a bare Qt window; else Python does")
    parser.add_argument("--cold", action="store_true", help="empty the system's memory of files before each start")
    parser.add_argument("-p", "--prompt", type=int, default=256)
    parser.add_argument("-n", "--generate", type=int, default=128)
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=devices.usable_cores())
    options = parser.parse_args()
    quern = options.quern.absolute()
    if options.only != "paint":
        compare_speeds(quern, options)
    if options.only != "speed":
        compare_starts(quern, options)


if __name__ == "__main__":
    main()
