"""Buttons and lists in our look."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication, QStyle, QStyleOptionComboBox
from pytestqt.qtbot import QtBot

from desktop.controls.buttons import Choice
from desktop.look import dress
from desktop.theme import LIGHT, Space


@pytest.mark.parametrize("entries", [["automatic"], ["自动", "f32"], ["x"], ["short", "the longest of all entries"]])
def test_the_widest_entry_of_a_list_is_shown_whole(qapp: QApplication, qtbot: QtBot, entries: list[str]) -> None:
    dress(qapp, LIGHT)
    choice = Choice()
    qtbot.addWidget(choice)
    choice.addItems(entries)
    choice.setCurrentIndex(len(entries) - 1)
    choice.resize(choice.sizeHint())
    option = QStyleOptionComboBox()
    choice.initStyleOption(option)
    field = choice.style().subControlRect(
        QStyle.ComplexControl.CC_ComboBox, option, QStyle.SubControl.SC_ComboBoxEditField, choice
    )
    widest = max(map(choice.fontMetrics().horizontalAdvance, entries))
    assert field.width() - Space.TINY >= widest
