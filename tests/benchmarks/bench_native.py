"""The native Transformer beside transformers and llama.cpp: prompts, generation, long contexts, loading and memory.

Every side is a process of its own, with the same weights, threads and environment; all are measured by turns in one
run, and what counts is the median of the paired ratios. `cpu` is the same ratio of processor time, which other
programs disturb less.

    python tests/benchmarks/bench_native.py                            transformers, in f32 and bf16, and int8
    python tests/benchmarks/bench_native.py --llama                    llama.cpp on the same weights in F16 too
    python tests/benchmarks/bench_native.py --contexts 128 1024 4096 8000      what a token takes
    python tests/benchmarks/bench_native.py --loading

The targets, at the size of SmolLM2 135M: prompts at least 1.0 of transformers; generation at least 1.4 in bf16, in f32
at least 1.25 or 0.85 of the bound (the measured reading speed over the bytes of weights that a token reads); int8 at
least 1.3 of bf16; loading no slower. Of llama.cpp's F16: prompts in bf16 at least 2, generation at least 0.6.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from bench_llama import environment, in_type, ours, say  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from runtime import devices, starter  # noqa: E402
from runtime.architectures.binding import placements  # noqa: E402
from runtime.architectures.reading import identify, to_hf  # noqa: E402
from runtime.checkpoint import open_checkpoint  # noqa: E402
from runtime.native.load import load_model  # noqa: E402

Report = dict[str, float]
Results = dict[str, list[Report]]

# what is compared with what, and the least ratio for prompts and generation
PAIRS = (
    ("native f32", "transformers f32", 1.0, 1.25),
    ("native bf16", "transformers bf16", 1.0, 1.4),
    ("native int8", "native bf16", 0.0, 1.3),
    ("native int4", "native bf16", 0.0, 0.0),
    ("native bf16", "llama.cpp F16", 2.0, 0.6),
)

class Worker:
    """One side, in a process of its own."""

    def __init__(self, name: str, folder: Path, options: argparse.Namespace) -> None:
        kind, dtype = name.split()
        command = [sys.executable, Path(__file__).with_name("native_side.py"), kind, folder, dtype, options.threads]
        self._process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True,
                                         env=environment())  # fmt: skip
        self.loaded = self._answer()

    def ask(self, what: str, **command: int) -> Report:
        """Returns what the process measured."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **command}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Report:
        assert self._process.stdout is not None
        report: Report = json.loads(self._process.stdout.readline())
        return report

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def worker(name: str, folder: Path, options: argparse.Namespace) -> Iterator[Worker]:
    made = Worker(name, folder, options)
    try:
        yield made
    finally:
        made.close()


def write_folder(gguf: Path, folder: Path, dtype: str) -> None:
    """Writes a GGUF file's weights as transformers reads them: names, settings and forms are those of our table."""
    checkpoint = open_checkpoint(gguf)
    architecture, config = identify(checkpoint)
    model = load_model(checkpoint, dtype=dtype)
    slots = model.slots()
    tensors = {}
    for claim in placements(architecture, model.config, "folder"):
        parts = claim.form.to_source([slots[name].tensor for name in claim.ours], config)
        tensors |= {name: part.contiguous().clone() for name, part in zip(claim.sources, parts, strict=True)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(to_hf(architecture, config)), encoding="utf-8")


# --- speed ------------------------------------------------------------------------------------------------------


def speed(folders: dict[str, Path], options: argparse.Namespace) -> None:
    """Prints the speed of every side, and the ratios of those that are compared."""
    prompts: Results = defaultdict(list)
    answers: Results = defaultdict(list)
    bandwidth = []
    with ExitStack() as stack:
        workers = {name: stack.enter_context(worker(name, folders[name], options)) for name in options.sides}
        llama = stack.enter_context(ours(llama_file(stack, options), options)) if options.llama else None
        for name in workers:
            workers[name].ask("prompt", tokens=options.prompt)
        for number in range(options.repetitions):
            sides = list(workers.items())[:: -1 if number % 2 else 1]  # nobody is always the first
            for name, side in sides:
                prompts[name].append(side.ask("prompt", tokens=options.prompt))
            for name, side in sides:
                answers[name].append(side.ask("generate", tokens=options.generate, context=0))
            if llama is not None:
                reading, writing = llama()
                prompts["llama.cpp F16"].append({"seconds": options.prompt / reading})
                answers["llama.cpp F16"].append({"seconds": options.generate / writing})
            bandwidth.append(sides[0][1].ask("bandwidth", repetitions=3)["bytes_per_second"])
            speeds = (f"{name} {options.generate / reports[-1]['seconds']:.1f}" for name, reports in answers.items())
            say(f"round {number + 1}, generated a second: {', '.join(speeds)}")
        weights = {name: side.loaded.get("weight_bytes", 0.0) for name, side in workers.items()}
    table("prompt", prompts, options.prompt)
    table("generation", answers, options.generate)
    bounds(answers, weights, bandwidth, options.generate)
    for one, other, least_prompt, least_generation in PAIRS:
        if one in answers and other in answers:
            compare("prompt", prompts, one, other, least_prompt)
            compare("generation", answers, one, other, least_generation)


def llama_file(stack: ExitStack, options: argparse.Namespace) -> Path:
    if options.llama_file:
        return Path(options.llama_file)
    return in_type("F16", Path(stack.enter_context(tempfile.TemporaryDirectory())) / "F16.gguf")


def table(title: str, results: Results, tokens: int) -> None:
    say(f"\n{title:<20}{'tokens a second':>32}")
    for name, reports in results.items():
        rates = [tokens / report["seconds"] for report in reports]
        say(f"{name:<20}{statistics.median(rates):>14.1f} ({min(rates):.1f}-{max(rates):.1f})")


def bounds(answers: Results, weights: Report, bandwidth: list[float], tokens: int) -> None:
    """Prints each one's share of what the memory allows: in each round, the speed read against the weights' bytes."""
    rates = [rate / 1e9 for rate in bandwidth]
    say(f"\nmemory: {statistics.median(rates):.1f} GB/s ({min(rates):.1f}-{max(rates):.1f})")
    for name, size in weights.items():
        if size:
            shares = [tokens / report["seconds"] * size / rate
                      for report, rate in zip(answers[name], bandwidth, strict=True)]  # fmt: skip
            say(f"{name:<20}{size / 1e6:>8.0f} MB a token: {statistics.median(shares):.2f} of the bound "
                f"({min(shares):.2f}-{max(shares):.2f})")  # fmt: skip


def compare(title: str, results: Results, one: str, other: str, least: float) -> None:
    def ratios(key: str) -> list[float]:
        pairs = zip(results[other], results[one], strict=True)
        return [theirs[key] / own[key] for theirs, own in pairs if key in theirs and key in own]

    wall, processor = ratios("seconds"), ratios("processor_seconds")
    cpu = f", cpu {statistics.median(processor):.2f}" if processor else ""
    say(f"{title:<11}{one} / {other}: {statistics.median(wall):.2f} ({min(wall):.2f}-{max(wall):.2f}{cpu}; "
        f"target {least})")  # fmt: skip


# --- long contexts, loading -------------------------------------------------------------------------------------


def contexts(folders: dict[str, Path], options: argparse.Namespace) -> None:
    """Prints what a token takes behind contexts of several lengths, and what each thousand tokens more add."""
    taken: dict[str, dict[int, list[float]]] = {name: {at: [] for at in options.contexts} for name in options.sides}
    with ExitStack() as stack:
        workers = {name: stack.enter_context(worker(name, folders[name], options)) for name in options.sides}
        for _ in range(options.repetitions):
            for length in options.contexts:
                for name, side in workers.items():
                    report = side.ask("generate", tokens=options.few, context=length)
                    taken[name][length].append(report["seconds"] / options.few * 1000)
    say("\nmilliseconds a token, by context")
    say(f"{'':<20}" + "".join(f"{length:>10}" for length in options.contexts) + "   per 1,000 more")
    for name, lengths in taken.items():
        middle = {length: statistics.median(values) for length, values in lengths.items()}
        steps = zip(options.contexts, options.contexts[1:], strict=False)
        slopes = ", ".join(f"{(middle[b] - middle[a]) / (b - a) * 1000:.2f}" for a, b in steps)
        say(f"{name:<20}" + "".join(f"{value:>10.1f}" for value in middle.values()) + f"   {slopes}")


def loading(folders: dict[str, Path], options: argparse.Namespace) -> None:
    """Prints how long loading takes: alone, with the first token, and with a prompt of 64 tokens and 32 in answer.

    And the memory that it takes at most. Every process loads once.
    """
    results: Results = defaultdict(list)
    for _ in range(options.repetitions):
        for name in options.sides:
            with worker(name, folders[name], options) as side:
                results[name].append(side.loaded)
    heads = f"{'cpu':>8}{'and a token':>14}{'an answer':>12}{'peak MB':>10}{'weights MB':>12}"
    say(f"\n{'loading':<20}{'seconds':>10}{heads}")
    for name, reports in results.items():
        keys = ("load_seconds", "processor_seconds", "seconds", "answer_seconds", "peak_bytes")
        load, cpu, both, answer, peak = (statistics.median(report[key] for report in reports) for key in keys)
        say(f"{name:<20}{load:>10.2f}{cpu:>8.2f}{both:>14.2f}{answer:>12.2f}{peak / 1e6:>10.0f}"
            f"{reports[0].get('weight_bytes', 0) / 1e6:>12.0f}")  # fmt: skip
    for one, other, *_targets in PAIRS[:2]:
        if one in results and other in results:
            compare("loading", results, one, other, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=starter.starter_path(), help="a GGUF file (default: the starter)")
    parser.add_argument("--sides", nargs="+", metavar="SIDE", help="“native f32”, “transformers bf16”, “native int8” …",
                        default=["native f32", "transformers f32", "native bf16", "transformers bf16", "native int8"])
    parser.add_argument("--llama", action="store_true", help="measure llama.cpp on the starter in F16, too")
    parser.add_argument("--llama-file", type=Path, help="its file, where one is there already")
    parser.add_argument("--contexts", type=int, nargs="+", default=[], help="measure tokens behind these contexts")
    parser.add_argument("--few", type=int, default=8, help="how many tokens behind each")
    parser.add_argument("--loading", action="store_true", help="measure loading")
    parser.add_argument("--folder", type=Path, help="where the weights are written, and found by the next run")
    parser.add_argument("-p", "--prompt", type=int, default=512)
    parser.add_argument("-n", "--generate", type=int, default=128)
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=devices.usable_cores())
    options = parser.parse_args()
    with ExitStack() as stack:
        parent = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folders = {}
        for name in options.sides:
            stored = "f32" if name.endswith("f32") else "bf16"
            folders[name] = parent / stored
            if not folders[name].exists():
                folders[name].mkdir(parents=True)
                write_folder(options.model, folders[name], stored)
        os.sync()  # nothing is left to write while it is measured
        if options.contexts:
            contexts(folders, options)
        if options.loading:
            loading(folders, options)
        if not options.contexts and not options.loading:
            speed(folders, options)


if __name__ == "__main__":
    main()
