"""Generation and prompt speed of the path a chat uses, beside llama-bench and llama-cpp-python's high-level API.

All three run the same libraries on the same model, with the same threads and environment, alternating in one run:

    python tests/benchmarks/bench_llama.py --build /tmp/llama-bench     builds llama-bench there, once
    python tests/benchmarks/bench_llama.py --llama-bench /tmp/llama-bench/bin/llama-bench -r 7
    python tests/benchmarks/bench_llama.py --types Q4_1 Q8_0 F16 --model gemma.gguf --llama-bench …    several files
    python tests/benchmarks/bench_llama.py --busy 2                     Quern's own speed beside busy processes
    python tests/benchmarks/bench_llama.py --memory                     what a second turn and a saved state save

The high-level API is measured twice: with these threads, and as it comes, which is with half of the cores.
Only the ratios mean something: the machines are noisy. The target is at least 0.97 of llama-bench, at least 1.2 times
the high-level API, and at least half of the quiet speed beside two busy processes.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from runtime import bench, devices, protocol, starter  # noqa: E402
from runtime.engine_process import EngineProcess  # noqa: E402
from runtime.gguf_header import read_header  # noqa: E402
from runtime.gguf_types import FILE_TYPES  # noqa: E402
from runtime.llama import library  # noqa: E402
from runtime.llama.files import library_folder  # noqa: E402
from runtime.messages import Message, Role  # noqa: E402
from runtime.params import LoadParams, SamplingParams  # noqa: E402
from runtime.protocol import Finished, GenerationRequest, TextDelta, Usage  # noqa: E402
from runtime.spinning import bound_spinning  # noqa: E402

Measure = Callable[[], tuple[float, float]]

_GIVEN = dict(os.environ)  # before any engine that is loaded here adds to it

_HIGH_LEVEL = """
import json, sys, time
from llama_cpp import Llama
model, threads, prompt, generate = sys.argv[1], *map(int, sys.argv[2:5])
given = {"n_threads": threads, "n_threads_batch": threads, "flash_attn": True} if threads else {}
llama = Llama(model, n_ctx=4096, verbose=False, **given)
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
    shared = {**_GIVEN, "LD_LIBRARY_PATH": str(library_folder()), "PYTHONPATH": str(ROOT)}
    bound_spinning(shared)
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
def high_level(model: Path, options: argparse.Namespace, *, threads: int) -> Iterator[Measure]:
    """Without `threads` the API chooses them itself, as for somebody who sets nothing."""
    arguments = [str(model), str(threads), str(options.prompt), str(options.generate)]
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


@contextmanager
def files(options: argparse.Namespace) -> Iterator[dict[str, Path]]:
    """Yields the files to measure, by name: those that were named, and the starter model in other types."""
    with tempfile.TemporaryDirectory() as folder:
        found = {path.stem: path for path in options.model}
        for kind in options.types:
            found[f"starter {kind}"] = in_type(kind, Path(folder) / f"{kind}.gguf")
        yield found or {"starter": starter.starter_path()}


def in_type(kind: str, path: Path) -> Path:
    """Returns the starter model in a type, made by llama.cpp's own quantizer."""
    source = starter.starter_path()
    if read_header(source).quantization == kind:
        return source
    lib = library.load_library()
    params = lib.llama_model_quantize_default_params()
    params.ftype = next(number for number, name in FILE_TYPES.items() if name == kind)
    params.allow_requantize = True
    if lib.llama_model_quantize(os.fsencode(source), os.fsencode(path), ctypes.byref(params)):
        raise SystemExit(f"llama.cpp could not make {kind}: {library.log_tail(5)}")
    return path


def table(ratios: dict[str, dict[str, list[float]]]) -> None:
    """Prints Quern's speed as a share of each other's, a line for each file."""
    say("")
    say(f"{'':<32}{'prompt':>10}{'generation':>12}")
    for file, others in ratios.items():
        for other, (prompt, generation) in others.items():
            say(f"{file[:18]:<18} / {other:<11}{prompt:>10.3f}{generation:>12.3f}")


def what_memory_saves(model: Path, options: argparse.Namespace) -> None:
    """Prints what the second turn of a long chat evaluates, and how long a saved state takes instead of reading."""
    words = " ".join(f"The miller filled sack {number}." for number in range(options.chat // 7))
    first = [Message(Role.USER, words)]
    sampling = SamplingParams(max_tokens=16, seed=1)
    with EngineProcess(environment=environment()) as engine, tempfile.TemporaryDirectory() as folder:
        engine.load(model, LoadParams(threads=options.threads, context_length=options.chat * 2))
        text, reading = turn(engine, first, sampling)
        second = [*first, Message(Role.ASSISTANT, text), Message(Role.USER, "And then?")]
        saved = Path(folder) / "state"
        told(engine, lambda id_: protocol.SaveState(id=id_, path=str(saved)))
        _text, going_on = turn(engine, second, sampling)
        engine.load(model, LoadParams(threads=options.threads, context_length=options.chat * 2))
        started = time.perf_counter()
        told(engine, lambda id_: protocol.LoadState(id=id_, path=str(saved)))
        seconds = time.perf_counter() - started
        _text, reopened = turn(engine, second, sampling)
    say(f"first turn: {reading.evaluated_tokens} tokens evaluated in {reading.prompt_seconds:.2f} s")
    say(f"second turn: {going_on.evaluated_tokens} of {going_on.prompt_tokens} tokens evaluated")
    share = (seconds + reopened.prompt_seconds) / reading.prompt_seconds
    say(f"reopened: {reopened.evaluated_tokens} of {reopened.prompt_tokens} tokens evaluated; restoring and reading "
        f"took {share:.3f} of reading everything (target: below 0.1)")  # fmt: skip


def turn(engine: EngineProcess, messages: list[Message], sampling: SamplingParams) -> tuple[str, Usage]:
    events = list(engine.generate(GenerationRequest(messages=tuple(messages), sampling=sampling)))
    finished = events[-1]
    assert isinstance(finished, Finished)
    return "".join(event.text for event in events if isinstance(event, TextDelta)), finished.usage


def told(engine: EngineProcess, make: Callable[[int], protocol.Command]) -> None:
    for _event in engine._events(engine._send(make)):
        pass


def compare(contenders: dict[str, Measure], repetitions: int) -> dict[str, list[float]]:
    """Prints each one's speed, and returns Quern's share of each other's: prompt and generation."""
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for _ in range(repetitions):
        for name, measure in contenders.items():
            results[name].append(measure())
    say(f"{'':<12}{'prompt t/s':>28}{'generation t/s':>30}")
    for name, values in results.items():
        say(f"{name:<12}" + "".join(f"{_spread([value[at] for value in values]):>28}  " for at in (0, 1)))
    shares = {}
    for name in list(results)[1:]:
        pairs = list(zip(results["quern"], results[name], strict=True))
        shares[name] = ratios = [statistics.median(a[at] / b[at] for a, b in pairs) for at in (0, 1)]
        say(f"quern / {name}: prompt {ratios[0]:.3f}, generation {ratios[1]:.3f} (medians of paired ratios)")
    return shares


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
    parser.add_argument("--model", type=Path, nargs="+", default=[], help="GGUF files; the starter where none is named")
    parser.add_argument("--types", nargs="+", default=[], metavar="TYPE", choices=sorted(set(FILE_TYPES.values())),
                        help="also the starter in these types: Q4_1, Q8_0, F16 …")
    parser.add_argument("--memory", action="store_true", help="measure what a second turn and a saved state save")
    parser.add_argument("--chat", type=int, default=2000, help="tokens of the chat for --memory, about")
    parser.add_argument("--llama-bench", type=Path, help="the program")
    parser.add_argument("--build", type=Path, help="a folder to build llama-bench in")
    parser.add_argument("--high-level", action="store_true", help="also measure llama-cpp-python's high-level API")
    parser.add_argument("--busy", type=int, default=0, help="measure beside this many busy processes instead")
    parser.add_argument("-p", "--prompt", type=int, default=512)
    parser.add_argument("-n", "--generate", type=int, default=128)
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=devices.usable_cores())
    options = parser.parse_args()
    program = build_llama_bench(options.build) if options.build else options.llama_bench
    ratios = {}
    with files(options) as models:
        for name, model in models.items():
            say(f"{name}: {read_header(model).quantization}")
            if options.memory:
                what_memory_saves(model, options)
            else:
                ratios[name] = measure_file(model, program, options)
    if any(ratios.values()):
        table(ratios)


def measure_file(model: Path, program: Path | None, options: argparse.Namespace) -> dict[str, list[float]]:
    """Measures one file; returns Quern's share of each other's speed."""
    with ExitStack() as stack:
        contenders = {"quern": stack.enter_context(ours(model, options))}
        if options.busy:
            beside_busy_processes(contenders["quern"], options.busy, options.repetitions)
            return {}
        if program:
            contenders["llama-bench"] = llama_bench(program, model, options)
        if options.high_level:
            contenders["high-level"] = stack.enter_context(high_level(model, options, threads=options.threads))
            contenders["as it comes"] = stack.enter_context(high_level(model, options, threads=0))
        return compare(contenders, options.repetitions)


if __name__ == "__main__":
    main()
