"""Measures how fast a model reads and writes on the path that a chat uses, the process boundary included."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from runtime import memory
from runtime.engine_process import EngineProcess
from runtime.errors import ErrorInfo, UserError
from runtime.gguf_header import read_header
from runtime.memory import DEFAULT_CONTEXT
from runtime.model_files import weight_files
from runtime.params import LoadParams, SamplingParams
from runtime.protocol import EngineInfo, Finished, GenerationRequest, PromptProgress, Usage

_WARM_UP_TOKENS = 32


class Spread(msgspec.Struct, frozen=True):
    """Median, least and most of repeated measurements, in tokens a second."""

    median: float
    min: float
    max: float


class BenchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `quern bench` prints as JSON."""

    prompt_tokens_per_second: Spread
    generation_tokens_per_second: Spread
    prompt_tokens: int
    generated_tokens: int
    repetitions: int
    drafted_tokens: int = 0  # in all repetitions of writing: guesses that were evaluated, where speculation is on
    accepted_tokens: int = 0  # and those that came true
    model: EngineInfo


def run(
    path: Path,
    params: LoadParams,
    *,
    prompt: int = 512,
    generate: int = 128,
    repetitions: int = 5,
    progress: Callable[[int], None] = lambda done: None,
) -> BenchResult:
    """Measures in a process of its own, after a warm-up; `progress` hears how many repetitions are done.

    Each repetition reads `prompt` random tokens into an empty cache, then writes `generate` tokens after a single one,
    with the default sampling of a chat. Raises `UserError` where the model cannot be loaded or run.
    """
    draw = random.Random(0)
    reading, writing, usages = [], [], list[Usage]()
    with EngineProcess() as engine:
        info = engine.load(path, _with_room(params, prompt, generate))
        _measure(engine, _tokens(draw, info, _WARM_UP_TOKENS), 2)
        for done in range(repetitions):
            reading.append(_measure(engine, _tokens(draw, info, prompt), 1)[0])
            _reading_speed, speed, usage = _measure(engine, _tokens(draw, info, 1), generate)
            writing.append(speed)
            usages.append(usage)
            progress(done + 1)
    return BenchResult(
        prompt_tokens_per_second=_spread(reading),
        generation_tokens_per_second=_spread(writing),
        prompt_tokens=prompt,
        generated_tokens=generate,
        repetitions=repetitions,
        drafted_tokens=sum(usage.drafted_tokens for usage in usages),
        accepted_tokens=sum(usage.accepted_tokens for usage in usages),
        model=info,
    )


# --- several settings -------------------------------------------------------------------------------------------


class Variant(msgspec.Struct, frozen=True):
    """Settings of loading to be measured; `settings` are those by which it differs from the others."""

    settings: dict[str, Any]
    params: LoadParams


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One variant's speed. A ratio is the median of those to the first variant within each round."""

    settings: dict[str, Any]
    prompt_tokens_per_second: Spread
    generation_tokens_per_second: Spread
    prompt_ratio: float
    generation_ratio: float
    drafted_tokens: int = 0  # as in `BenchResult`
    accepted_tokens: int = 0
    model: EngineInfo


class NotMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """A variant that cannot be loaded or run, and why."""

    settings: dict[str, Any]
    reason: ErrorInfo


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What `quern bench` prints as JSON where settings are compared."""

    compared: tuple[Measured, ...]
    not_measured: tuple[NotMeasured, ...]
    prompt_tokens: int
    generated_tokens: int
    repetitions: int


def compare(
    path: Path,
    variants: Sequence[Variant],
    *,
    prompt: int = 512,
    generate: int = 128,
    repetitions: int = 5,
    progress: Callable[[int], None] = lambda done: None,
) -> Comparison:
    """Measures variants in turn, round by round, so that a machine's moods meet all of them alike.

    `progress` hears how many measurements are done. What cannot be loaded or run is named, and the rest is measured.
    """
    with _Rounds(path, variants, prompt=prompt, generate=generate) as rounds:
        for number in range(repetitions):
            rounds.measure(number, progress)
        return Comparison(
            compared=tuple(rounds.measured()),
            not_measured=tuple(rounds.failed.values()),
            prompt_tokens=prompt,
            generated_tokens=generate,
            repetitions=repetitions,
        )


def with_excluded(comparison: Comparison, excluded: Sequence[NotMeasured]) -> Comparison:
    """Returns a comparison that also names what was excluded before anything was measured."""
    return msgspec.structs.replace(comparison, not_measured=(*excluded, *comparison.not_measured))


class _Rounds:
    """The engines of all variants, each in a process of its own, and what was measured of them.

    Where they do not fit into memory together, each one is loaded anew for its turn.
    """

    def __init__(self, path: Path, variants: Sequence[Variant], *, prompt: int, generate: int) -> None:
        self.failed: dict[int, NotMeasured] = {}
        self._path, self._variants = path, variants
        self._prompt, self._generate = prompt, generate
        self._params = [_with_room(variant.params, prompt, generate) for variant in variants]
        self._together = sum(_size(path, each) for each in self._params) < memory.free_memory()
        self._open: dict[int, EngineProcess] = {}
        self._infos: dict[int, EngineInfo] = {}
        self._speeds: dict[int, list[tuple[float, float]]] = {}
        self._usages: dict[int, list[Usage]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for number in list(self._open):
            self._leave(number)

    def measure(self, number: int, progress: Callable[[int], None]) -> None:
        """Measures every variant once, beginning with another one in each round."""
        count = len(self._variants)
        for done in range(count):
            self._take_turn((number + done) % count, seed=number)
            progress(number * count + done + 1)

    def measured(self) -> Iterator[Measured]:
        """Yields what was measured, with ratios to the first variant that works."""
        working = [at for at in range(len(self._variants)) if at not in self.failed]
        first = self._speeds[working[0]] if working else []
        for at in working:
            reading, writing = (list(each) for each in zip(*self._speeds[at], strict=True))
            pairs = list(zip(self._speeds[at], first, strict=True))
            yield Measured(
                settings=self._variants[at].settings,
                prompt_tokens_per_second=_spread(reading),
                generation_tokens_per_second=_spread(writing),
                prompt_ratio=round(statistics.median(mine[0] / theirs[0] for mine, theirs in pairs), 3),
                generation_ratio=round(statistics.median(mine[1] / theirs[1] for mine, theirs in pairs), 3),
                drafted_tokens=sum(usage.drafted_tokens for usage in self._usages[at]),
                accepted_tokens=sum(usage.accepted_tokens for usage in self._usages[at]),
                model=self._infos[at],
            )

    def _take_turn(self, at: int, *, seed: int) -> None:
        if at in self.failed:
            return
        try:
            speeds = self._measured_once(at, random.Random(seed))
            self._speeds.setdefault(at, []).append(speeds)
        except UserError as error:
            self.failed[at] = NotMeasured(settings=self._variants[at].settings, reason=error.info)
            self._leave(at)
        if not self._together:
            self._leave(at)

    def _measured_once(self, at: int, draw: random.Random) -> tuple[float, float]:
        if at not in self._open:
            self._open[at] = EngineProcess()
            self._infos[at] = self._open[at].load(self._path, self._params[at])
            _measure(self._open[at], _tokens(draw, self._infos[at], _WARM_UP_TOKENS), 2)
        engine, info = self._open[at], self._infos[at]
        reading = _measure(engine, _tokens(draw, info, self._prompt), 1)[0]
        _reading_speed, writing, usage = _measure(engine, _tokens(draw, info, 1), self._generate)
        self._usages.setdefault(at, []).append(usage)
        return reading, writing

    def _leave(self, at: int) -> None:
        engine = self._open.pop(at, None)
        if engine is not None:
            engine.close()


# --- one measurement --------------------------------------------------------------------------------------------


def _with_room(params: LoadParams, prompt: int, generate: int) -> LoadParams:
    needed = max(prompt, generate) + 1
    if not params.context_length and needed <= DEFAULT_CONTEXT:
        return params
    return params.replace(context_length=max(params.context_length, needed))


def _tokens(draw: random.Random, info: EngineInfo, count: int) -> tuple[int, ...]:
    return tuple(draw.randrange(info.n_vocab) for _ in range(count))


def _measure(engine: EngineProcess, ids: tuple[int, ...], max_tokens: int) -> tuple[float, float, Usage]:
    """Returns tokens a second of reading `ids` and of writing `max_tokens` as seen from this process, and the usage.

    A process that is woken late sees several events at once: nothing took less time than the engine says.
    """
    sampling = SamplingParams(max_tokens=max_tokens, seed=1)
    request = GenerationRequest(prompt_ids=ids, sampling=sampling, ignore_end=True)
    sent = read = ended = time.perf_counter()
    usage = Usage()
    for event in engine.generate(request):
        ended = time.perf_counter()
        if isinstance(event, PromptProgress):
            read = ended
        elif isinstance(event, Finished):
            usage = event.usage
            assert usage.generated_tokens == max_tokens
    reading, writing = max(read - sent, usage.prompt_seconds), max(ended - read, usage.generation_seconds)
    return len(ids) / reading, (max_tokens - 1) / writing if max_tokens > 1 else 0.0, usage


def _spread(values: list[float]) -> Spread:
    return Spread(round(statistics.median(values), 2), round(min(values), 2), round(max(values), 2))


def _size(path: Path, params: LoadParams) -> int:
    """Returns about how much memory a model takes, loaded like that."""
    if path.is_dir():
        return sum(file.stat().st_size for file in weight_files(path))
    return memory.estimate(read_header(path), params).total
