"""The language of the window."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QLineEdit

from desktop.language import speak
from runtime.text import _


@pytest.fixture
def in_english_again(qapp: QApplication) -> Iterator[QApplication]:
    yield qapp
    speak(qapp, "en")


def menu_of_a_text_field() -> list[str]:
    field = QLineEdit()
    menu = field.createStandardContextMenu()
    return [action.text().split("\t")[0] for action in menu.findChildren(QAction) if not action.isSeparator()]


def test_qt_speaks_the_language_of_our_texts(in_english_again: QApplication):
    speak(in_english_again, "zh_CN")
    assert _("Copy") == "复制"
    assert any("复制" in words for words in menu_of_a_text_field()), menu_of_a_text_field()


def test_going_back_to_english_leaves_nothing_of_the_other_language(in_english_again: QApplication):
    speak(in_english_again, "zh_CN")
    speak(in_english_again, "zh_CN")
    speak(in_english_again, "en")
    assert _("Copy") == "Copy"
    assert "&Copy" in menu_of_a_text_field()
