"""The list of models: what can run, what cannot and why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot

from desktop.chat.model_names import shown_name
from desktop.chat.model_picker import ModelPicker, facts
from desktop.look import dress
from desktop.theme import LIGHT
from window_kit import LARGE, STARTER, WHISPER


@pytest.fixture
def picker(qapp: QApplication, qtbot: QtBot) -> Iterator[ModelPicker]:
    dress(qapp, LIGHT)
    button = QPushButton()
    qtbot.addWidget(button)
    button.show()
    made = ModelPicker(button)
    made.set_models((WHISPER, STARTER, LARGE))
    made.open_under(button, current=str(STARTER.path))
    yield made
    made.hide()


def names(picker: ModelPicker) -> list[str]:
    return [picker.model.index(row).data() for row in range(picker.model.rowCount())]


def test_names_are_for_people() -> None:
    assert shown_name(STARTER) == "Tiny 1M Instruct"
    assert shown_name(LARGE) == "Large 70B"
    assert shown_name(replace(LARGE, name="hf.co/ann/Poet-GGUF:Q8_0")) == "hf.co/ann/Poet GGUF"
    assert shown_name(replace(LARGE, name="llama3.2:1b")) == "llama3.2:1b"


def test_models_that_run_come_first_and_others_say_why_not(picker: ModelPicker) -> None:
    assert names(picker) == ["Large 70B", "Tiny 1M Instruct", "whisper large"]
    assert facts(STARTER) == "Q4_1  ·  98 MB  ·  8,192 tokens of context"
    assert facts(WHISPER) == "It turns speech into text."


def test_a_caution_takes_the_place_of_the_facts(picker: ModelPicker) -> None:
    heavy = replace(LARGE, caution="It needs about 80 GB.")
    picker.set_models((heavy,))
    assert facts(heavy) == "It needs about 80 GB."
    assert picker.model.index(0).data(Qt.ItemDataRole.ToolTipRole) == f"It needs about 80 GB.\n{heavy.path}"
    assert picker.model.flags(picker.model.index(0)) & Qt.ItemFlag.ItemIsEnabled


def test_a_model_that_holds_no_conversation_says_what_it_is_and_cannot_be_chosen(picker: ModelPicker) -> None:
    chosen: list[str] = []
    picker.chosen.connect(chosen.append)
    translator = replace(LARGE, converses=False, caution="It turns a source text into another text.")
    picker.set_models((translator, STARTER))
    assert names(picker)[-1] == shown_name(translator)
    assert facts(translator) == "It turns a source text into another text."
    last = picker.model.index(1)
    assert not picker.model.flags(last) & Qt.ItemFlag.ItemIsEnabled
    picker._choose(last)
    assert chosen == []


def test_another_name_of_a_model_finds_it(picker: ModelPicker) -> None:
    picker.set_models((STARTER, replace(LARGE, aliases=("llama3.2:latest",))))
    picker.search.setText("3.2:LATEST")
    assert names(picker) == ["Large 70B"]


def test_model_that_cannot_run_cannot_be_chosen(picker: ModelPicker) -> None:
    chosen: list[str] = []
    picker.chosen.connect(chosen.append)
    last = picker.model.index(2)
    assert not picker.model.flags(last) & Qt.ItemFlag.ItemIsEnabled
    picker._choose(last)
    assert chosen == []


def test_loaded_model_is_selected_at_first(picker: ModelPicker) -> None:
    assert picker.list.currentIndex().data() == "Tiny 1M Instruct"


def test_typing_filters_and_enter_chooses(picker: ModelPicker, qtbot: QtBot) -> None:
    qtbot.keyClicks(picker.search, "q8 large")
    assert names(picker) == ["Large 70B"]
    with qtbot.waitSignal(picker.chosen) as chosen:
        qtbot.keyClick(picker.search, Qt.Key.Key_Return)
    assert chosen.args == [str(LARGE.path)]
    assert picker.isHidden()


def test_arrow_keys_in_the_search_move_through_the_list(picker: ModelPicker, qtbot: QtBot) -> None:
    qtbot.keyClick(picker.search, Qt.Key.Key_Up)
    assert picker.list.currentIndex().data() == "Large 70B"


def test_eject_is_offered_only_for_a_loaded_model(picker: ModelPicker) -> None:
    assert picker._eject.isEnabled()
    picker.open_under(picker.parentWidget(), current="")
    assert not picker._eject.isEnabled()


def test_empty_library_says_what_to_do(picker: ModelPicker) -> None:
    picker.set_models(())
    assert not picker._note.isHidden()
    assert ".gguf" in picker._note.text()


def test_what_could_not_be_read_is_said_above_the_list(picker: ModelPicker) -> None:
    picker.set_models((STARTER,), problems=["The folder /gone is missing.", "<b>/x</b> cannot be read."])
    assert picker._note.isVisible()
    assert picker._note.text() == "The folder /gone is missing.\n<b>/x</b> cannot be read."
    assert picker._note.textFormat() == Qt.TextFormat.PlainText
    picker.set_models((STARTER,))
    assert not picker._note.isVisible()
