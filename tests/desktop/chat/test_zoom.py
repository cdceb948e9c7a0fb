"""The size of the text goes in steps, within bounds, and is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from desktop.chat.zoom import STEPS, Zoom
from desktop.state_file import StateFile


@pytest.fixture
def state(tmp_path: Path) -> StateFile:
    return StateFile(tmp_path / "state.json")


def test_sizes_go_in_steps_between_the_bounds(state: StateFile) -> None:
    zoom = Zoom(state)
    seen = []
    zoom.changed.connect(seen.append)

    for _ in range(20):
        zoom.step(1)
    for _ in range(20):
        zoom.step(-1)

    assert (max(seen), min(seen)) == (250, 70)
    assert set(seen) <= set(STEPS)


def test_the_size_is_remembered(state: StateFile) -> None:
    Zoom(state).step(1)

    assert Zoom(state).percent == 110
    Zoom(state).reset()
    assert Zoom(state).percent == 100


@pytest.mark.parametrize(("kept", "percent"), [("x", 100), (None, 100), (True, 100), (5, 70), (9000, 250), (115, 115)])
def test_a_damaged_file_gives_a_usable_size(state: StateFile, kept: object, percent: int) -> None:
    state.set("zoom", kept)

    assert Zoom(state).percent == percent
