"""How much faster answers come with speculation, and that they do not come slower where it cannot help.

The same answers are written without and with speculation, one after the other in two engine processes, by turns. Each
pair gives a ratio (above 1 is faster); only the ratios mean something, since the machines are noisy. The second ratio
is that of the processor time that the answers took: other programs disturb it less.

    python tests/benchmarks/bench_speculation.py                       n-grams, the starter model
    python tests/benchmarks/bench_speculation.py --draft small.gguf --model large.gguf -r 7

The targets: clearly above 1 for tasks that repeat a given text, and never below 0.95 for the others.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402

from runtime import devices, starter  # noqa: E402
from runtime.engine_process import EngineProcess  # noqa: E402
from runtime.messages import Message, Role  # noqa: E402
from runtime.params import LoadParams, SamplingParams  # noqa: E402
from runtime.protocol import Finished, GenerationRequest, PromptProgress, Usage  # noqa: E402

_CODE = '''\
class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("the amount must be positive")
        self.balance = self.balance + amount
        return self.balance

    def withdraw(self, amount):
        if amount <= 0:
            raise ValueError("the amount must be positive")
        if amount > self.balance:
            raise ValueError("there is not enough money")
        self.balance = self.balance - amount
        return self.balance
'''
_STORY = (
    "The miller opened the sluice early that morning, and the great wheel began to turn. By noon the first sacks stood "
    "ready at the door, and the people of the village came with their carts to fetch them. An old woman asked whether "
    "the flour would be cheaper this year, and the miller said that it depended on the harvest and on the rain."
)


@dataclass(frozen=True)
class Task:
    """A request, and whether its answer repeats what stands in it."""

    name: str
    prompt: str
    repeats: bool
    temperature: float = 0.0
    chat: bool = False

    def request(self, seed: int, max_tokens: int) -> GenerationRequest:
        sampling = SamplingParams(temperature=self.temperature, seed=seed, max_tokens=max_tokens)
        if self.chat:
            messages = (Message(Role.USER, self.prompt),)
            return GenerationRequest(messages=messages, sampling=sampling, ignore_end=True)
        return GenerationRequest(prompt=self.prompt, sampling=sampling, ignore_end=True)


TASKS = (
    Task("code again", f"The file:\n\n{_CODE}\nThe same file once more:\n\n{_CODE[:60]}", repeats=True),
    Task("text again", f"{_STORY}\n\nThe story once more:\n\n{_STORY[:50]}", repeats=True),
    Task("text again, sampled", f"{_STORY}\n\nThe story once more:\n\n{_STORY[:50]}", repeats=True, temperature=0.8),
    Task("story", "Once upon a time, in a town by the sea,", repeats=False, temperature=0.8),
    Task("question", "Why do leaves change their colour in autumn?", repeats=False, temperature=0.8, chat=True),
    Task("hot", "The committee met on Tuesday and", repeats=False, temperature=1.5),
)


def write(engine: EngineProcess, request: GenerationRequest) -> tuple[float, float, Usage]:
    """Returns an answer's seconds by the clock and of processor time, after its prompt was read, and its usage."""
    process, spent = psutil.Process(engine.pid), 0.0
    for event in engine.generate(request):
        if isinstance(event, PromptProgress):
            spent = sum(process.cpu_times()[:2])
    assert isinstance(event, Finished)
    return event.usage.generation_seconds, sum(process.cpu_times()[:2]) - spent, event.usage


def compare(plain: EngineProcess, guessing: EngineProcess, task: Task, options: argparse.Namespace) -> None:
    clock, processor, usages = [], [], []
    for turn in range(options.repetitions):
        request = task.request(turn + 1, options.generate)
        pair = [(plain, 0), (guessing, 1)] if turn % 2 else [(guessing, 1), (plain, 0)]
        results = {at: write(engine, request) for engine, at in pair}
        clock.append(results[0][0] / results[1][0])
        processor.append(results[0][1] / results[1][1])
        usages.append(results[1][2])
    drafted, accepted = sum(u.drafted_tokens for u in usages), sum(u.accepted_tokens for u in usages)
    say(f"{task.name:<22}{'repeats' if task.repeats else '':<9}{spread(clock):>20}{spread(processor):>20}"
        f"{accepted:>7} of {drafted} guesses came true")  # fmt: skip


def spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; the starter model where none is named")
    parser.add_argument("--draft", type=Path, default=None, help="a draft model; n-grams where none is named")
    parser.add_argument("-n", "--generate", type=int, default=192)
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=devices.usable_cores())
    options = parser.parse_args()
    model, load = (options.model or starter.starter_path()).absolute(), LoadParams(threads=options.threads)
    if options.draft:
        speculative = load.replace(speculation="draft", draft_model=str(options.draft.absolute()))
    else:
        speculative = load.replace(speculation="ngram")
    with EngineProcess() as plain, EngineProcess() as guessing:
        plain.load(model, load)
        guessing.load(model, speculative)
        for engine in (plain, guessing):
            write(engine, TASKS[0].request(1, 16))
        say(f"{'times as fast, median of pairs':<31}{'by the clock':>20}{'processor time':>20}")
        for task in TASKS:
            compare(plain, guessing, task, options)


if __name__ == "__main__":
    main()
