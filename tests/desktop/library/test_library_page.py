"""The library's page: what a person does with a model, on real small files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

import tiny_gguf
from desktop.application import LibraryFinder
from desktop.library import moving
from desktop.library.known_files import KnownFiles
from desktop.library.page import LibraryPage
from desktop.state_file import StateFile
from runtime.library import ModelInfo

Open = Callable[[], LibraryPage]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "models"
    found.mkdir()
    tiny_gguf.write_tiny(found / "Small.gguf")
    return found


@pytest.fixture
def known(tmp_path: Path) -> KnownFiles:
    state = StateFile(tmp_path / "state.json")
    return KnownFiles(state)


@pytest.fixture
def page(folder: Path, known: KnownFiles, qtbot: QtBot) -> LibraryPage:
    finder = LibraryFinder(known, lambda: (str(folder),))
    made = LibraryPage(known)
    qtbot.addWidget(made)

    def scan() -> None:
        made.set_models(_without_starter(finder.scan()), memory=(8 << 30, 16 << 30))

    made.rescan_requested.connect(scan)
    made.resize(1000, 700)
    made.show()
    scan()
    return made


def _without_starter(models: object) -> list[ModelInfo]:
    return [info for info in models if info.source != "starter"]  # type: ignore[attr-defined]


def names(page: LibraryPage) -> list[str]:
    return [page.rows.index(row).data() for row in range(page.rows.rowCount())]


def test_renaming_keeps_the_ending_and_selects_the_new_name(page: LibraryPage, folder: Path, qtbot: QtBot) -> None:
    page.do("rename")
    assert page.ask.edit.text() == "Small"
    page.ask.edit.setText("Other")
    qtbot.keyClick(page.ask.edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: (folder / "Other.gguf").exists() and names(page) == ["Other"])
    assert page.current is not None
    assert page.current.path.name == "Other.gguf"


def test_a_name_that_is_taken_is_refused_in_a_sentence(page: LibraryPage, folder: Path, qtbot: QtBot) -> None:
    tiny_gguf.write_tiny(folder / "Taken.gguf")
    page.do("rename")
    page.ask.edit.setText("Taken")
    page.ask.agree.click()
    qtbot.waitUntil(lambda: page.notice.isVisible())
    assert page.notice.code == "unusable_name"
    assert (folder / "Small.gguf").exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\0b", "x" * 300])
def test_names_that_no_file_can_have_are_refused(page: LibraryPage, name: str) -> None:
    assert page.current is not None
    with pytest.raises(moving.UnusableName):
        moving.rename(page.current, name)


def test_a_removed_model_comes_back_by_undo(
    page: LibraryPage, folder: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    page.do("remove")
    page.ask.agree.click()
    qtbot.waitUntil(lambda: page.undo.isVisible())
    assert not (folder / "Small.gguf").exists()
    assert names(page) == []
    page.undo.button.click()
    qtbot.waitUntil(lambda: names(page) == ["Small"])
    assert (folder / "Small.gguf").exists()


def test_a_file_of_another_program_is_not_removed_without_saying_so(page: LibraryPage, folder: Path) -> None:
    import msgspec

    assert page.current is not None
    page.set_models([msgspec.structs.replace(page.current, source="lm-studio")], memory=(1, 1))
    page.do("remove")
    assert "LM Studio" in page.ask.accessibleName()
    assert (folder / "Small.gguf").exists()


def test_a_missing_file_is_listed_and_located_again(
    page: LibraryPage, known: KnownFiles, tmp_path: Path, qtbot: QtBot
) -> None:
    gone, here = tmp_path / "gone.gguf", tmp_path / "elsewhere" / "found.gguf"
    known.add(gone)
    page.rescan_requested.emit()
    page.choose(str(gone))
    assert page.current is not None
    assert page.current.source == "missing"
    here.parent.mkdir()
    tiny_gguf.write_tiny(here)
    moves: list[tuple[str, str]] = []
    page.moved.connect(lambda before, after: moves.append((before, after)))
    page.located(page.current, str(here))
    assert moves == [(str(gone), str(here))]
    assert "found" in names(page)
    assert known.paths == (here,)


def test_a_missing_file_can_be_taken_out_of_the_list_and_back(
    page: LibraryPage, known: KnownFiles, tmp_path: Path
) -> None:
    known.add(tmp_path / "gone.gguf")
    page.rescan_requested.emit()
    page.choose(str(tmp_path / "gone.gguf"))
    page.do("forget")
    assert names(page) == ["Small"]
    page.undo.button.click()
    assert "gone" in names(page)


def test_details_show_metadata_and_tensors_and_search_in_them(page: LibraryPage, qtbot: QtBot) -> None:
    page.do("details")
    details = page.details
    qtbot.waitUntil(lambda: details.tensors.rowCount() > 0)
    details._show_part(1)
    details.search.setText("general.architecture")
    assert details.metadata.rowCount() == 1
    assert details.metadata.index(0, 1).data() == "llama"
    qtbot.keyClick(details, Qt.Key.Key_Escape)
    assert not details.isVisible()


def test_every_action_is_reached_by_key_or_button(page: LibraryPage, qtbot: QtBot) -> None:
    asked: list[str] = []
    page.convert_requested.connect(asked.append)
    page.list.setFocus()
    qtbot.keyClick(page.list, Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier)
    assert page.current is not None
    assert asked == [str(page.current.path)]
    qtbot.keyClick(page.list, Qt.Key.Key_F2)
    assert page.ask.isVisible()
    qtbot.keyClick(page.ask.edit, Qt.Key.Key_Escape)
    assert not page.ask.isVisible()
