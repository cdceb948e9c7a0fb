"""Comparing settings: variants are measured in turn, and what fails does not stop the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tiny_gguf
from runtime import bench, memory
from runtime.bench import Comparison, Variant
from runtime.engine_process import EngineDied
from runtime.errors import UserError
from runtime.params import LoadParams
from runtime.protocol import EngineInfo, Finished, FinishReason, PromptProgress, Usage

SPEEDS = {1: 1.0, 2: 2.0, 3: 0.5}  # tokens a millisecond, by the number of threads


class Clock:
    """Time that passes only when a fake engine works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.mood = 1.0  # how slow the machine is just now

    def __call__(self) -> float:
        return self.now


class FakeProcess:
    """Stands in for an engine process: as fast as its threads say, failing where they are 4 or 5."""

    clock = Clock()
    log: list[tuple[str, int]]

    def __init__(self) -> None:
        self.threads = 0

    def load(self, _path: Path, params: LoadParams) -> EngineInfo:
        self.threads = params.threads
        self.log.append(("load", self.threads))
        if self.threads == 4:
            raise UserError("No room.", "It needs more.")
        return EngineInfo(engine="llama", n_vocab=100, context_length=params.context_length)

    def generate(self, request: Any) -> Iterator[object]:
        if len(request.prompt_ids) == 64:
            self.log.append(("read", self.threads))
            if self.threads == 5 and ("read", 5) in self.log[:-1]:
                raise EngineDied(-9)
            self.clock.mood *= 1.5  # the machine gets slower all the time
        tokens = request.sampling.max_tokens
        self.clock.now += len(request.prompt_ids) * self.clock.mood / SPEEDS.get(self.threads, 1.0)
        yield PromptProgress(id=0, done=1, total=1)
        self.clock.now += tokens * self.clock.mood / SPEEDS.get(self.threads, 1.0)
        usage = Usage(generated_tokens=tokens, drafted_tokens=tokens, accepted_tokens=1)
        yield Finished(id=0, reason=FinishReason.LENGTH, usage=usage)

    def close(self) -> None:
        self.log.append(("close", self.threads))

    def __enter__(self) -> FakeProcess:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    FakeProcess.log, FakeProcess.clock = [], Clock()
    monkeypatch.setattr(bench, "EngineProcess", FakeProcess)
    monkeypatch.setattr(bench.time, "perf_counter", FakeProcess.clock)
    return FakeProcess.log


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def compared(model: Path, *threads: int, repetitions: int = 3, **more: Any) -> Comparison:
    variants = [Variant({"threads": count}, LoadParams(threads=count)) for count in threads]
    return bench.compare(model, variants, prompt=64, generate=8, repetitions=repetitions, **more)


def test_variants_take_turns_and_each_round_begins_with_another(model: Path, log: list[tuple[str, int]]) -> None:
    done: list[int] = []
    compared(model, 1, 2, 3, progress=done.append)
    assert [threads for what, threads in log if what == "read"] == [1, 2, 3, 2, 3, 1, 3, 1, 2]
    assert [threads for what, threads in log if what == "load"] == [1, 2, 3]
    assert sorted(log[-3:]) == [("close", 1), ("close", 2), ("close", 3)]
    assert done == list(range(1, 10))


def test_ratios_are_those_within_a_round(model: Path, log: list[tuple[str, int]]) -> None:
    first, second = compared(model, 1, 2, repetitions=6).compared
    assert (first.settings, second.settings) == ({"threads": 1}, {"threads": 2})
    assert (first.prompt_ratio, first.generation_ratio) == (1.0, 1.0)
    # In the rounds it follows the first the machine is half as fast again, in the others the other way round
    assert second.prompt_ratio == pytest.approx((2 / 1.5 + 2 * 1.5) / 2, abs=0.01)
    assert (second.drafted_tokens, second.accepted_tokens) == (6 * 8, 6)
    spread = second.prompt_tokens_per_second
    assert spread.min < spread.median < spread.max


def test_what_cannot_be_loaded_is_named_and_the_rest_is_measured(model: Path, log: list[tuple[str, int]]) -> None:
    result = compared(model, 4, 2, 3)
    assert [each.settings for each in result.compared] == [{"threads": 2}, {"threads": 3}]
    (missing,) = result.not_measured
    assert (missing.settings, missing.reason.title) == ({"threads": 4}, "No room.")
    assert result.compared[0].prompt_ratio == 1.0  # the first one that works
    assert [what for what in log if what == ("load", 4)] == [("load", 4)]


def test_an_engine_that_dies_in_the_middle_is_named_and_the_rest_goes_on(
    model: Path, log: list[tuple[str, int]]
) -> None:
    result = compared(model, 1, 5)
    assert [each.settings for each in result.compared] == [{"threads": 1}]
    assert result.not_measured[0].reason.code == "engine_died"
    assert ("close", 5) in log


def test_models_that_do_not_fit_together_are_loaded_for_their_turn(
    model: Path, log: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 10_000_000)
    compared(model, 1, 2, repetitions=2)
    alive = 0
    for what, _threads in log:
        alive += {"load": 1, "close": -1}.get(what, 0)
        assert alive <= 1
    assert [threads for what, threads in log if what == "load"] == [1, 2, 2, 1]


def test_the_context_is_long_enough_for_what_is_measured(model: Path, log: list[tuple[str, int]]) -> None:
    variants = [Variant({"context_length": 32}, LoadParams(context_length=32))]
    (measured,) = bench.compare(model, variants, prompt=64, generate=8, repetitions=1).compared
    assert measured.model.context_length == 65


def test_events_that_are_seen_late_make_no_engine_faster_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(FakeProcess):
        def generate(self, request: Any) -> Iterator[object]:
            yield PromptProgress(id=0, done=1, total=1)
            self.clock.now += 0.001
            tokens = request.sampling.max_tokens
            usage = Usage(generated_tokens=tokens, prompt_seconds=2.0, generation_seconds=3.0)
            yield Finished(id=0, reason=FinishReason.LENGTH, usage=usage)

    monkeypatch.setattr(bench.time, "perf_counter", Late.clock)
    reading, writing, _usage = bench._measure(Late(), (1, 2, 3, 4), 7)  # type: ignore[arg-type]
    assert (reading, writing) == (2.0, 2.0)
