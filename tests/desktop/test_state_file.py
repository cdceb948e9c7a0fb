"""What the application remembers about itself: comfort that may be lost, and never stands in the way."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from desktop.state_file import StateFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "Ünï 模型" / "state.json"


def test_values_are_there_at_the_next_start(path: Path) -> None:
    first = StateFile(path)
    first.set("window", {"x": 1, "name": "模型"})
    first.set("theme", "dark")
    first.flush()
    again = StateFile(path)
    assert again.get("window") == {"x": 1, "name": "模型"}
    assert again.get("theme") == "dark"
    assert again.get("unknown", "otherwise") == "otherwise"


def test_changes_from_several_threads_are_all_kept(path: Path) -> None:
    state = StateFile(path)
    threads = [threading.Thread(target=state.set, args=(f"key {n}", n)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state.flush()
    assert [StateFile(path).get(f"key {n}") for n in range(20)] == list(range(20))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 50_000])
def test_a_damaged_file_is_begun_anew(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    state = StateFile(path)
    assert state.get("theme") is None
    state.set("theme", "dark")
    state.flush()
    assert StateFile(path).get("theme") == "dark"


def test_a_place_that_cannot_be_written_stops_nothing(path: Path) -> None:
    path.parent.write_text("a file where the folder should be")
    state = StateFile(path)
    state.set("theme", "dark")
    state.flush()
    assert state.get("theme") == "dark"
