"""What the window says about Quern itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from desktop.about import about_text, licence_file
from desktop.about_card import AboutCard
from runtime.installation import full_version


def test_version_engines_and_licences_are_told() -> None:
    text = about_text()
    assert text.startswith(f"Quern {full_version()}\n")
    for part in ("llama-cpp-python", "torch ", "Qt 6", "Python 3", "LGPL-3.0", "Apache-2.0"):
        assert part in text
    assert all(len(line) < 160 for line in text.splitlines())


def test_a_copy_from_source_has_no_file_of_licences() -> None:
    assert licence_file() is None


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    window = QWidget()
    window.resize(900, 700)
    qtbot.addWidget(window)
    return window


def _card(qtbot: QtBot, window: QWidget, licences: Path | None, shown: list[Path]) -> AboutCard:
    card = AboutCard(lambda: "Quern 0.1.0", licences, shown.append, window)
    card.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(card)
    card.open_over(window)
    qtbot.waitUntil(lambda: card.text.toPlainText() == "Quern 0.1.0")
    return card


def test_the_card_is_copied_and_leads_to_the_licences(
    qtbot: QtBot, window: QWidget, tmp_path: Path
) -> None:
    shown: list[Path] = []
    card = _card(qtbot, window, tmp_path / "licences.txt", shown)
    card.copy.click()
    assert QApplication.clipboard().text() == "Quern 0.1.0"
    assert card._said.text().startswith("Copied.")
    card.show_licences.click()
    assert shown == [tmp_path / "licences.txt"]


def test_without_a_file_there_is_no_button_for_it(qtbot: QtBot, window: QWidget) -> None:
    card = _card(qtbot, window, None, [])
    assert not card.show_licences.isVisible()
    qtbot.keyClick(card, Qt.Key.Key_Escape)
    assert not card.isVisible()
