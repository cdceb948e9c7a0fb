"""Nothing that a person wrote or named is in any log or in the diagnostics, whatever goes wrong."""

from __future__ import annotations

import logging
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.chat.composer import Draft
from desktop.failures import Failures, start_logging
from desktop.main_window import MainWindow
from runtime.library import ModelInfo
from runtime.params import SamplingParams
from runtime.places import places
from window_kit import Shelf, window_parts

MARK = "Zwiebelfisch"
FILE = "Tagebuch von Ann"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setattr(Path, "home", lambda: folder)
    return folder


@pytest.fixture
def logs(home: Path) -> Iterator[Path]:
    root, level, before = logging.getLogger(), logging.getLogger().level, list(logging.getLogger().handlers)
    start_logging(places().logs)
    yield places().logs
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.fixture
def window(home: Path, logs: Path, qapp: QApplication, qtbot: QtBot) -> Iterator[MainWindow]:
    model = home / f"{FILE}.gguf"
    model.write_bytes(b"GGUF")
    info = ModelInfo(name=FILE, path=model, kind="gguf", runnable=True, source="path")
    garbage = ('{"type":"text","id":1,"text":"' + MARK, f"{MARK} \udcff", "[" * 3000)
    with window_parts(
        Shelf(info), echo=True, garbage=garbage, crash_at=2, crash_once=str(home / "crashed"),
        messages=(f"llama_model_loader: from {model} (version GGUF V3)",),
    ) as parts:  # fmt: skip
        shown = MainWindow(parts)
        shown.show()
        parts.models.load(FILE)
        qtbot.waitUntil(lambda: parts.client.info is not None)
        yield shown
        shown.deleteLater()


def everything_logged() -> str:
    return "\n".join(path.read_text("utf-8", "replace") for path in places().logs.glob("*"))


def test_what_was_written_is_in_no_log_and_not_in_the_diagnostics(window: MainWindow, qtbot: QtBot) -> None:
    parts = window._parts
    parts.session.set_system_prompt(f"You are {MARK}.")
    parts.live.set_values(SamplingParams, stop=(MARK,))
    for _attempt in range(2):  # the engine breaks off in the first answer
        assert parts.session.send(f"Tell me of {MARK} and {MARK}.")
        qtbot.waitUntil(lambda: not parts.session.busy)
    window.composing.composer.set_draft(Draft(f"unsent {MARK}"))
    parts.store.search(MARK, lambda _hits: None)
    logging.getLogger("desktop.test").warning("“%s” cannot be read", parts.models.path)
    card = window.show_diagnostics()
    qtbot.waitUntil(lambda: "engine.log" in card.text.toPlainText())
    told = card.text.toPlainText()
    card.close()
    parts.client.shutdown()
    qtbot.waitUntil(lambda: "llama_model_loader" in everything_logged())
    assert "was no event" in everything_logged()
    assert "the engine's process ended" in everything_logged()
    for text in (told, everything_logged()):
        assert MARK not in text
        assert FILE not in text
    assert "stop=" not in told


def test_exceptions_that_hold_a_message_are_logged_without_it(
    window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = Failures()
    monkeypatch.setattr(sys, "excepthook", failures._take)
    shown: list[str] = []
    failures.happened.connect(lambda error: shown.append(error.message))
    for error in (KeyError(MARK), sqlite3.OperationalError(f'near "{MARK}": syntax error')):
        failures._take(type(error), error, None)
    QTimer.singleShot(0, lambda: None)
    qtbot.waitUntil(lambda: len(shown) == 2)
    assert MARK in shown[0]  # the person may see it
    assert "KeyError" in everything_logged()
    assert MARK not in everything_logged()
