"""Measures how fast a model reads and writes on the path that a chat uses, the process boundary included."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from runtime.engine_process import EngineProcess
from runtime.memory import DEFAULT_CONTEXT
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


def _with_room(params: LoadParams, prompt: int, generate: int) -> LoadParams:
    needed = max(prompt, generate) + 1
    if not params.context_length and needed <= DEFAULT_CONTEXT:
        return params
    return params.replace(context_length=max(params.context_length, needed))


def _tokens(draw: random.Random, info: EngineInfo, count: int) -> tuple[int, ...]:
    return tuple(draw.randrange(info.n_vocab) for _ in range(count))


def _measure(engine: EngineProcess, ids: tuple[int, ...], max_tokens: int) -> tuple[float, float, Usage]:
    """Returns tokens a second of reading `ids` and of writing `max_tokens` as seen from this process, and the usage."""
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
    return len(ids) / (read - sent), (max_tokens - 1) / (ended - read) if max_tokens > 1 else 0.0, usage


def _spread(values: list[float]) -> Spread:
    return Spread(round(statistics.median(values), 2), round(min(values), 2), round(max(values), 2))
