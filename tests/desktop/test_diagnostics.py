"""Diagnostics: what they hold, and what they must not."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from desktop.diagnostics import report
from desktop.diagnostics_card import DiagnosticsCard
from runtime.places import make_folder, places
from runtime.protocol import EngineInfo


def test_versions_model_settings_and_the_logs_end_are_told() -> None:
    logs = make_folder(places().logs)
    (logs / "engine.log").write_text("\n".join(f"line {number}" for number in range(1000)))
    text = report(places(), EngineInfo(engine="llama", path="/m/Tiny.gguf", context_length=4096), ["top_k=5"])
    assert "Tiny.gguf" in text
    assert "top_k=5" in text
    assert "PySide6" in text
    assert "line 999" in text
    assert "line 10\n" not in text


def test_where_nothing_was_changed_it_says_so() -> None:
    assert "Changed settings\n  all as they are by default\n" in report(places(), None, [])


def test_the_persons_home_is_not_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    logs = make_folder(places().logs)
    (logs / "engine.log").write_text(f"loading {tmp_path}/models/x.gguf\n" + "x" * 5_000)
    text = report(places(), None, [])
    assert str(tmp_path) not in text
    assert "loading ~/….gguf" in text
    assert max(map(len, text.splitlines())) <= 302


def test_nothing_of_a_chat_is_in_it() -> None:
    make_folder(places().data)
    places().chats_file.write_bytes(b"a secret between us")
    assert "secret" not in report(places(), None, [])


def test_the_card_shows_searches_and_copies(qtbot: QtBot) -> None:
    window = QWidget()
    window.resize(900, 700)
    qtbot.addWidget(window)
    card = DiagnosticsCard(lambda: "first\nneedle\nlast", lambda: None, window)
    card.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    qtbot.addWidget(card)
    card.open_over(window)
    qtbot.waitUntil(lambda: "needle" in card.text.toPlainText())
    card.search.setText("needle")
    qtbot.keyClick(card.search, Qt.Key.Key_Return)
    assert card.text.textCursor().selectedText() == "needle"
    card.copy.click()
    assert QApplication.clipboard().text() == "first\nneedle\nlast"
    assert card._said.text() == "Copied. Nothing of your chats is in it. Read it before you pass it on."
