"""Lists of files and folders in the settings: added, weighed, removed, and said where they are missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from desktop.settings.path_lists import AdapterListField, AdapterRow, PathListField
from desktop.settings.widgets import widget_for
from runtime.adapters import read_adapter
from runtime.params import AppSettings, LoadParams
from runtime.settings import field_of


@pytest.fixture
def adapters(qtbot: QtBot) -> AdapterListField:
    made = widget_for(field_of(LoadParams, "lora"))
    assert isinstance(made, AdapterListField)
    qtbot.addWidget(made)
    made.changed.connect(made.set_value)  # as the row around it does
    made.show()
    return made


def row(field: AdapterListField, number: int) -> AdapterRow:
    found = field.rows[number]
    assert isinstance(found, AdapterRow)
    return found


def type_factor(field: AdapterListField, number: int, text: str, qtbot: QtBot) -> None:
    edit = row(field, number).factor
    edit.selectAll()
    qtbot.keyClicks(edit, text)
    qtbot.keyClick(edit, Qt.Key.Key_Return)


@pytest.mark.parametrize("name", ["style.gguf", "Ünï 模型=0.5.gguf", "odd=2"])
def test_an_adapter_is_added_weighed_and_removed(
    adapters: AdapterListField, tmp_path: Path, name: str, qtbot: QtBot
) -> None:
    path = tmp_path / name
    path.write_bytes(b"GGUF")
    adapters.take(str(path))
    adapters.take(str(path))
    assert len(adapters.rows) == 1, "it is there already"
    assert read_adapter(adapters.value()[0]) == (path, 1.0)
    type_factor(adapters, 0, "0,25", qtbot)
    assert read_adapter(adapters.value()[0]) == (path, 0.25)
    row(adapters, 0).remove.click()
    assert adapters.value() == ()


@pytest.mark.parametrize("text", ["much", " ", "500", "nan"])
def test_a_factor_that_is_none_is_marked_and_changes_nothing(
    adapters: AdapterListField, text: str, qtbot: QtBot
) -> None:
    adapters.set_value(("/models/style.gguf=0.5",))
    type_factor(adapters, 0, text, qtbot)
    assert row(adapters, 0).factor.property("wrong") == "true"
    assert adapters.value() == ("/models/style.gguf=0.5",)


def test_a_file_that_is_gone_is_said_to_be(adapters: AdapterListField, tmp_path: Path, qtbot: QtBot) -> None:
    here = tmp_path / "here.gguf"
    here.write_bytes(b"GGUF")
    adapters.set_value((str(here), "/nowhere/gone.gguf=0.5"))
    qtbot.waitUntil(lambda: adapters.rows[1].missing.isVisible())
    assert "/nowhere/gone.gguf" in adapters.rows[1].missing.text()
    assert not adapters.rows[0].missing.isVisible()


def test_folders_are_a_list_too(tmp_path: Path, qtbot: QtBot) -> None:
    field = widget_for(field_of(AppSettings, "model_folders"))
    assert isinstance(field, PathListField)
    qtbot.addWidget(field)
    field.changed.connect(field.set_value)
    field.take(str(tmp_path))
    assert field.value() == (str(tmp_path),)
    field.rows[0].remove.click()
    assert field.value() == ()
