"""The library's rows: searched, sorted, judged by what fits."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from desktop.library import facts
from desktop.library.facts import Fit
from desktop.library.model_rows import SORTS, InfoRole, LibraryRows
from runtime.library import ModelInfo
from window_kit import LARGE, STARTER, WHISPER

_GB = 1_000_000_000


def rows_with(*models: ModelInfo) -> LibraryRows:
    rows = LibraryRows()
    rows.set_models(models, free=8 * _GB, total=16 * _GB)
    return rows


def names(rows: LibraryRows) -> list[str]:
    return [rows.index(row).data() for row in range(rows.rowCount())]


def test_what_cannot_run_comes_last_in_every_order(qtbot: QtBot) -> None:
    rows = rows_with(WHISPER, STARTER, LARGE)
    for order in SORTS:
        rows.sort_by(order)
        assert names(rows)[-1] == "whisper large"


def test_orders_say_what_they_do(qtbot: QtBot) -> None:
    rows = rows_with(STARTER, LARGE)
    rows.sort_by("size")
    assert names(rows) == ["Large 70B", "Tiny 1M Instruct"]
    rows.sort_by("name")
    assert names(rows) == ["Large 70B", "Tiny 1M Instruct"]
    small = msgspec.structs.replace(STARTER, name="Zwei", path=Path("/m/Zwei.gguf"), source="", memory_bytes=1)
    rows.set_models([LARGE, small], free=1, total=1)
    rows.sort_by("memory")
    assert names(rows) == ["Zwei", "Large 70B"]


@pytest.mark.parametrize(("words", "found"), [
    ("tiny", ["Tiny 1M Instruct"]), ("llama q8_0", ["Large 70B"]), ("WHISPER", ["whisper large"]), ("nothing", []),
    ("comes with quern", ["Tiny 1M Instruct"]),
])  # fmt: skip
def test_search_looks_at_name_family_type_and_place(words: str, found: list[str], qtbot: QtBot) -> None:
    rows = rows_with(STARTER, LARGE, WHISPER)
    rows.search(words)
    assert names(rows) == found


@pytest.mark.parametrize(("needed", "how"), [
    (0, Fit.UNKNOWN), (7 * _GB, Fit.FITS), (12 * _GB, Fit.TIGHT), (15 * _GB, Fit.TOO_LARGE), (80 * _GB, Fit.TOO_LARGE),
])  # fmt: skip
def test_fit_follows_free_and_whole_memory(needed: int, how: Fit) -> None:
    assert facts.fit(needed, free=8 * _GB, total=16 * _GB) is how


def test_a_row_is_spoken_with_its_reason(qtbot: QtBot) -> None:
    rows = rows_with(WHISPER)
    assert "It turns speech into text." in rows.index(0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert rows.index(0).data(InfoRole) is WHISPER


def test_a_thousand_models_are_reset_once_and_not_at_all_when_nothing_changed(qtbot: QtBot) -> None:
    many = [
        msgspec.structs.replace(STARTER, name=f"model-{n}", path=Path(f"/m/model-{n}.gguf"), source="folder")
        for n in range(1000)
    ]
    rows = rows_with(*many)
    resets: list[int] = []
    rows.modelReset.connect(lambda: resets.append(1))
    rows.set_models(many, free=8 * _GB, total=16 * _GB)
    assert (rows.rowCount(), resets) == (1000, [])


def test_files_of_programs_that_rename_them_are_not_moved_here() -> None:
    assert not facts.can_move(msgspec.structs.replace(LARGE, source="ollama"))
    assert not facts.can_move(STARTER)
    assert facts.can_move(msgspec.structs.replace(LARGE, source="lm-studio"))
    assert facts.owner(msgspec.structs.replace(LARGE, source="lm-studio")) == "LM Studio"
