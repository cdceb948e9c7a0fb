"""A model's content hash is read once, and again when the file changes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from runtime.engine import StopFlag
from runtime.errors import UserError
from runtime.model_hash import ModelHashes


@pytest.fixture
def hashes(tmp_path: Path) -> ModelHashes:
    return ModelHashes(tmp_path / "cache" / "hashes.json")


def test_a_hash_is_that_of_the_content_and_is_remembered(hashes: ModelHashes, tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"weights")
    assert hashes.known(model) == ()
    read: list[float] = []
    assert hashes.of(model, progress=read.append) == (hashlib.sha256(b"weights").hexdigest(),)
    assert read == [1.0]
    assert hashes.of(model, progress=read.append) == hashes.known(model) != ()
    assert read == [1.0]


def test_a_changed_file_is_read_again(hashes: ModelHashes, tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"weights")
    before = hashes.of(model)
    model.write_bytes(b"WEIGHTS")
    os.utime(model, ns=(1, 1))
    assert hashes.known(model) == ()
    assert hashes.of(model) != before


def test_every_part_of_a_split_model_has_its_hash(hashes: ModelHashes, tmp_path: Path) -> None:
    for part in (1, 2):
        (tmp_path / f"m-0000{part}-of-00002.gguf").write_bytes(b"%d" % part)
    assert hashes.of(tmp_path / "m-00001-of-00002.gguf") == tuple(
        hashlib.sha256(b"%d" % part).hexdigest() for part in (1, 2)
    )


def test_reading_can_be_stopped_and_a_missing_file_is_named(hashes: ModelHashes, tmp_path: Path) -> None:
    stop = StopFlag()
    stop.set()
    (tmp_path / "m.gguf").write_bytes(b"weights")
    with pytest.raises(UserError) as caught:
        hashes.of(tmp_path / "m.gguf", stop=stop)
    assert caught.value.code == "hashing_stopped"
    with pytest.raises(UserError) as caught:
        hashes.of(tmp_path / "none.gguf")
    assert caught.value.code == "model_missing"


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"x": 3}', b"[" * 100_000])
def test_a_damaged_memory_is_no_hindrance(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "hashes.json").write_bytes(content)
    (tmp_path / "m.gguf").write_bytes(b"weights")
    hashes = ModelHashes(tmp_path / "hashes.json")
    assert hashes.of(tmp_path / "m.gguf") == hashes.known(tmp_path / "m.gguf") != ()
