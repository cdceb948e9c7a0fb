"""The list of builds of the processor code: those that are here, and what is set all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from desktop.settings import processor_code
from desktop.settings.processor_code import ProcessorCodeField
from desktop.settings.widgets import widget_for
from runtime.llama.files import EngineLibraryMissing
from runtime.params import LoadParams
from runtime.settings import field_of


def shown(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, *names: str) -> ProcessorCodeField:
    files = [Path(f"/lib/libggml-cpu-{name}.so") for name in names]
    monkeypatch.setattr(processor_code, "backend_files", lambda: files)
    field = widget_for(field_of(LoadParams, "cpu_variant"))
    assert isinstance(field, ProcessorCodeField)
    qtbot.addWidget(field)
    qtbot.waitUntil(lambda: field._here is not None)
    return field


def words(field: ProcessorCodeField) -> list[str]:
    return [field.box.itemText(row) for row in range(field.box.count())]


def test_the_automatic_choice_comes_first_and_then_what_is_here(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    field = shown(qtbot, monkeypatch, "x64", "sse42")
    assert words(field)[0] == "automatic"
    assert "x64" in words(field)
    assert field.box.currentText() == "automatic"
    with qtbot.waitSignal(field.changed) as change:
        field.box.activated.emit(field.box.findText("x64"))
    assert change.args == ["x64"]


@pytest.mark.parametrize("written", ["X64", " x64 "])
def test_a_name_in_other_letters_is_the_same_name(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    field = shown(qtbot, monkeypatch, "x64")
    field.set_value(written)
    assert words(field) == ["automatic", "x64"]
    assert field.box.currentText() == "x64"


def test_a_name_that_is_set_and_not_here_stays_and_says_so(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    field = shown(qtbot, monkeypatch, "x64")
    field.set_value("sapphirerapids-of-another-machine")
    assert field.box.currentText() == "sapphirerapids-of-another-machine (not here)"
    field.set_value("auto")
    assert words(field) == ["automatic", "x64"]


def test_without_the_library_there_is_the_automatic_choice_alone(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> list[Path]:
        raise EngineLibraryMissing("It is not installed.")

    monkeypatch.setattr(processor_code, "backend_files", missing)
    field = ProcessorCodeField(field_of(LoadParams, "cpu_variant"))
    qtbot.addWidget(field)
    qtbot.waitUntil(lambda: field._here is not None)
    assert words(field) == ["automatic"]
