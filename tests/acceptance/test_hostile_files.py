"""Harmful model files come to a sentence by every door: opened, listed, described, tokenized, loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import hostile_gguf
from hostile_doors import Doors

# Of each kind that ends in another way, or ended a process once
QUICK = {
    "a sound model", "embedding_length = 1073741824", "a template with an endless loop",
    "a template with deep brackets", "a token with a zero byte", "a merge without a space", "unknown tokens only",
    "an unknown pre-tokenizer", "a BPE vocabulary called RWKV", "an end of message outside", "weights of NaN",
    "keys with too few rows", "no embedding", "tensors that overlap", "a name of escapes", "scores of NaN",
    "a cut file", "SentencePiece without types", "SentencePiece called unigram",
}  # fmt: skip


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    with Doors(tmp_path) as opened:
        yield opened


def check(doors: Doors, files: Iterator[tuple[str, bytes]]) -> Counter[str]:
    """Opens each file by every door; returns how often loading ended in each way."""
    endings: Counter[str] = Counter()
    faults: dict[str, list[str]] = {}
    for name, data in files:
        found = doors.try_all(data)
        endings[found.answers["load and answer"].split(":")[0].split(" ")[0]] += 1
        if found.faults:
            faults[name] = found.faults
    assert faults == {}
    return endings


@pytest.mark.timeout(300)
def test_harmful_files_of_each_kind_come_to_a_sentence(doors: Doors) -> None:
    handmade = dict(hostile_gguf.handmade())
    assert handmade.keys() >= QUICK
    endings = check(doors, ((name, handmade[name]) for name in sorted(QUICK)))
    assert endings["answered"] >= 3, "the sound ones are not refused"
    assert endings["damaged_model"] >= 1
    assert endings["engine_died"] == 0


@pytest.mark.timeout(300)
def test_some_files_damaged_by_chance_come_to_a_sentence(doors: Doors) -> None:
    endings = check(doors, hostile_gguf.mutants(12, seed=7))
    assert endings["engine_died"] == 0


@pytest.mark.acceptance
@pytest.mark.timeout(1800)
def test_every_harmful_file_comes_to_a_sentence(doors: Doors) -> None:
    files = dict(hostile_gguf.handmade())
    assert len(files) >= 100
    assert check(doors, iter(files.items()))["engine_died"] == 0


@pytest.mark.acceptance
@pytest.mark.timeout(7200)
def test_two_thousand_damaged_files_come_to_a_sentence(doors: Doors) -> None:
    endings = check(doors, hostile_gguf.mutants(2000))
    assert endings["answered"] > 100
    assert endings["engine_died"] == 0
