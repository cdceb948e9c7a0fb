"""Generation and prompt speed of the path a chat uses, beside llama-bench and llama-cpp-python's high-level API.

All three run the same libraries on the same model, with the same threads and environment, alternating in one run:

    python tests/benchmarks/bench_llama.py --build /tmp/llama-bench     builds llama-bench there, once
    python tests/benchmarks/bench_llama.py --llama-bench /tmp/llama-bench/bin/llama-bench -r 7
    python tests/benchmarks/bench_llama.py --busy 2                     Quern's own speed beside busy processes

Only the ratios mean something: the machines are noisy. The target is at least 0.97 of llama-bench, at least 1.2 times
the high-level API, and at least half of the quiet speed beside two busy processes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from runtime import bench, devices, starter  # noqa: E402
from runtime.engine_process import EngineProcess  # noqa: E402
from runtime.llama import library  # noqa: E402
from runtime.params import LoadParams  # noqa: E402

Measure = Callable[[], tuple[float, float]]

_HIGH_LEVEL = """
import json, sys, time
from llama_cpp import Llama
model, threads, prompt, generate = sys.argv[1], *map(int, sys.argv[2:5])
llama = Llama(model, n_ctx=4096, n_threads=threads, n_threads_batch=threads, flash_attn=True, verbose=False)
never_ends = {str(llama.token_eos()): -100.0}
def run(ids, count):
    llama.reset()
    started = time.perf_counter()
    stream = llama.create_completion(ids, max_tokens=count, stream=True, top_k=40, top_p=0.95, min_p=0.05,
                                     temperature=0.8, repeat_penalty=1.0, logit_bias=never_ends, seed=1)
    first = None
    for piece in stream:
        first = first or time.perf_counter()
    made = llama.n_tokens - len(ids)
    return len(ids) / (first - started), (made - 1) / max(time.perf_counter() - first, 1e-9)
run([1, 2, 3, 4], 4)
for line in sys.stdin:
    ids = json.loads(line)
    run(ids[::-1], 2)
    speed = run(ids, 2)[0]
    print(json.dumps([speed, run(ids[:1], generate)[1]]), flush=True)
"""


def environment() -> dict[str, str]:
    """Returns the environment that all three share."""
    shared = {**os.environ, "LD_LIBRARY_PATH": str(library.library_folder()), "PYTHONPATH": str(ROOT)}
    library.bound_spinning(shared)
    return shared


def build_llama_bench(folder: Path) -> Path:
    """Builds llama-bench from the unpacked source in build/, in a folder of its own."""
    source = next(iter(sorted((ROOT / "build").glob("llama-cpp-python-*/vendor/llama.cpp"))), None)
    if source is None:
        raise SystemExit("the source of llama.cpp is not unpacked: run “make test” first")
    options = ["-DBUILD_SHARED_LIBS=ON", "-DGGML_NATIVE=OFF", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF",
               "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_UI=OFF", "-DCMAKE_BUILD_TYPE=Release"]  # fmt: skip
    subprocess.run(["cmake", "-S", source, "-B", folder, *options], check=True)
    subprocess.run(["cmake", "--build", folder, "--target", "llama-bench", "-j", str(os.cpu_count())], check=True)
    return folder / "bin" / "llama-bench"


def llama_bench(program: Path, model: Path, options: argparse.Namespace) -> Measure:
    command = [program, "-m", model, "-p", options.prompt, "-n", options.generate, "-r", 1, "-t", options.threads,
               "-fa", 1, "-o", "json"]  # fmt: skip

    def measure() -> tuple[float, float]:
        done = subprocess.run([str(part) for part in command], capture_output=True, check=True, env=environment())
        rows = {bool(row["n_prompt"]): row["avg_ts"] for row in json.loads(done.stdout)}
        return rows[True], rows[False]

    return measure


@contextmanager
def high_level(model: Path, options: argparse.Namespace) -> Iterator[Measure]:
    arguments = [str(model), str(options.threads), str(options.prompt), str(options.generate)]
    process = subprocess.Popen([sys.executable, "-c", _HIGH_LEVEL, *arguments], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env=environment())  # fmt: skip
    draw = random.Random(1)
    assert process.stdin is not None
    assert process.stdout is not None

    def measure() -> tuple[float, float]:
        process.stdin.write(json.dumps([draw.randrange(1000, 40_000) for _ in range(options.prompt)]) + "\n")
        process.stdin.flush()
        reading, writing = json.loads(process.stdout.readline())
        return reading, writing

    yield measure
    process.stdin.close()
    process.wait()


@contextmanager
def ours(model: Path, options: argparse.Namespace) -> Iterator[Measure]:
    draw = random.Random(2)
    with EngineProcess(environment=environment()) as engine:
        info = engine.load(model, LoadParams(threads=options.threads))
        bench._measure(engine, bench._tokens(draw, info, 32), 2)

        def measure() -> tuple[float, float]:
            bench._measure(engine, bench._tokens(draw, info, options.prompt), 2)  # llama-bench warms up each time, too
            reading = bench._measure(engine, bench._tokens(draw, info, options.prompt), 1)[0]
            return reading, bench._measure(engine, bench._tokens(draw, info, 1), options.generate)[1]

        yield measure


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def compare(contenders: dict[str, Measure], repetitions: int) -> None:
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(repetitions):
        for name, measure in contenders.items():
            results[name].append(measure())
    say(f"{'':<12}{'prompt t/s':>28}{'generation t/s':>30}")
    for name, values in results.items():
        say(f"{name:<12}" + "".join(f"{_spread([value[at] for value in values]):>28}  " for at in (0, 1)))
    for name in list(results)[1:]:
        ratios = [statistics.median(a[at] / b[at] for a, b in zip(results["quern"], results[name], strict=True))
                  for at in (0, 1)]  # fmt: skip
        say(f"quern / {name}: prompt {ratios[0]:.3f}, generation {ratios[1]:.3f} (medians of paired ratios)")


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def beside_busy_processes(measure: Measure, count: int, repetitions: int) -> None:
    ratios = []
    for _ in range(repetitions):
        quiet = measure()[1]
        with busy_processes(count):
            ratios.append(measure()[1] / quiet)
    middle, least, most = statistics.median(ratios), min(ratios), max(ratios)
    say(f"generation beside {count} busy processes / quiet: {middle:.2f} ({least:.2f}-{most:.2f})")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; the starter model where none is named")
    parser.add_argument("--llama-bench", type=Path, help="the program")
    parser.add_argument("--build", type=Path, help="a folder to build llama-bench in")
    parser.add_argument("--high-level", action="store_true", help="also measure llama-cpp-python's high-level API")
    parser.add_argument("--busy", type=int, default=0, help="measure beside this many busy processes instead")
    parser.add_argument("-p", "--prompt", type=int, default=512)
    parser.add_argument("-n", "--generate", type=int, default=128)
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=devices.usable_cores())
    options = parser.parse_args()
    model = options.model or starter.starter_path()
    program = build_llama_bench(options.build) if options.build else options.llama_bench
    with ExitStack() as stack:
        contenders = {"quern": stack.enter_context(ours(model, options))}
        if options.busy:
            return beside_busy_processes(contenders["quern"], options.busy, options.repetitions)
        if program:
            contenders["llama-bench"] = llama_bench(program, model, options)
        if options.high_level:
            contenders["high-level"] = stack.enter_context(high_level(model, options))
        return compare(contenders, options.repetitions)


if __name__ == "__main__":
    main()
