"""What is remembered of trials, and for how long."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.llama.verdicts import TriedDevice, Verdict, Verdicts

DIED = Verdict(reason="SIGILL", details="at the first tile")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    file = tmp_path / "libggml-cpu-zen4.so"
    file.write_bytes(b"code")
    return file


def test_a_verdict_is_read_back(tmp_path: Path, library: Path) -> None:
    card = Verdict(devices=(TriedDevice("Vulkan0", "Card", 3, 4),))
    Verdicts(tmp_path / "v.json").put(library, "this processor", DIED)
    Verdicts(tmp_path / "v.json").put(library, "this driver", card)
    known = Verdicts(tmp_path / "v.json")
    assert known.get(library, "this processor") == DIED
    assert known.get(library, "this driver") == card
    assert (DIED.survived, card.survived) == (False, True)


def test_another_processor_and_another_build_are_tried_anew(tmp_path: Path, library: Path) -> None:
    known = Verdicts(tmp_path / "v.json")
    known.put(library, "this processor", DIED)
    assert known.get(library, "another processor") is None
    os.utime(library, ns=(1, 1))
    assert known.get(library, "this processor") is None


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a": 1}', b"\xff" * 20, b"[" * 100_000])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, library: Path, content: bytes) -> None:
    (tmp_path / "v.json").write_bytes(content)
    known = Verdicts(tmp_path / "v.json")
    assert known.get(library, "") is None
    known.put(library, "", DIED)
    assert Verdicts(tmp_path / "v.json").get(library, "") == DIED


def test_old_entries_make_room(tmp_path: Path, library: Path) -> None:
    known = Verdicts(tmp_path / "v.json")
    for number in range(70):
        known.put(library, f"processor {number}", DIED)
    assert known.get(library, "processor 0") is None
    assert known.get(library, "processor 69") == DIED


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path, library: Path) -> None:
    (tmp_path / "file").touch()
    for known in (Verdicts(tmp_path / "file" / "v.json"), Verdicts(None)):
        known.put(library, "", DIED)
        assert known.get(library, "") == DIED
