"""Harmful model files come to a sentence by every door: opened, listed, described, tokenized, loaded."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path

import pytest

import hostile_gguf
from hostile_doors import Doors, Findings
from running_clock import RunningClock
from runtime.devices import usable_cores

# Of each kind that ends in another way, or ended a process once
QUICK = {
    "a sound model", "embedding_length = 1073741824", "a template with an endless loop",
    "a template with deep brackets", "a token with a zero byte", "a merge without a space", "unknown tokens only",
    "an unknown pre-tokenizer", "a BPE vocabulary called RWKV", "an end of message outside", "weights of NaN",
    "keys with too few rows", "no embedding", "tensors that overlap", "a name of escapes", "scores of NaN",
    "a cut file", "SentencePiece without types", "SentencePiece called unigram",
}  # fmt: skip


def check(folder: Path, files: Iterator[tuple[str, bytes]]) -> Counter[str]:
    """Opens each file by every door, as many at once as there are cores; returns how often loading ended how."""
    waiting, lock = iter(files), threading.Lock()

    def work(number: int, clock: RunningClock) -> list[tuple[str, Findings]]:
        place = folder / str(number)
        place.mkdir()
        found = []
        with Doors(place, clock) as doors:
            while True:
                with lock:
                    name, data = next(waiting, ("", b""))
                if not name:
                    return found
                found.append((name, doors.try_all(data)))

    cores = usable_cores()
    with RunningClock() as clock, ThreadPoolExecutor(cores) as pool:
        all_found = dict(chain.from_iterable(pool.map(work, range(cores), repeat(clock))))
    assert {name: found.faults for name, found in all_found.items() if found.faults} == {}
    return Counter(found.answers["load and answer"].split(":")[0].split(" ")[0] for found in all_found.values())


@pytest.mark.timeout(300)
def test_harmful_files_of_each_kind_come_to_a_sentence(tmp_path: Path) -> None:
    handmade = dict(hostile_gguf.handmade())
    assert handmade.keys() >= QUICK
    endings = check(tmp_path, ((name, handmade[name]) for name in sorted(QUICK)))
    assert endings["answered"] >= 3, "the sound ones are not refused"
    assert endings["damaged_model"] >= 1
    assert endings["engine_died"] == 0


@pytest.mark.timeout(300)
def test_some_files_damaged_by_chance_come_to_a_sentence(tmp_path: Path) -> None:
    endings = check(tmp_path, hostile_gguf.mutants(12, seed=7))
    assert endings["engine_died"] == 0


@pytest.mark.acceptance
@pytest.mark.timeout(1800)
def test_every_harmful_file_comes_to_a_sentence(tmp_path: Path) -> None:
    files = dict(hostile_gguf.handmade())
    assert len(files) >= 100
    assert check(tmp_path, iter(files.items()))["engine_died"] == 0


@pytest.mark.acceptance
@pytest.mark.timeout(7200)
def test_two_thousand_damaged_files_come_to_a_sentence(tmp_path: Path) -> None:
    endings = check(tmp_path, hostile_gguf.mutants(2000))
    assert endings["answered"] > 100
    assert endings["engine_died"] == 0
