"""The tray: only where there is one, and never a process that nobody sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from desktop import icons
from desktop.state_file import StateFile
from desktop.theme import LIGHT
from desktop.tray import Tray

pytestmark = pytest.mark.qt_log_ignore("systemTrayWindowChanged")  # offscreen has no tray of its own


class Desktop:
    """A desktop whose tray comes and goes, and what was shown in it."""

    def __init__(self) -> None:
        self.has_tray = True
        self.messages: list[tuple[str, str]] = []

    def available(self) -> bool:
        return self.has_tray


@pytest.fixture
def desktop(monkeypatch: pytest.MonkeyPatch) -> Desktop:
    made = Desktop()
    show = lambda _icon, title, words, *_rest: made.messages.append((title, words))  # noqa: E731
    monkeypatch.setattr(QSystemTrayIcon, "showMessage", show)
    return made


@pytest.fixture
def window(qapp: QApplication) -> Iterator[QWidget]:
    qapp.setWindowIcon(icons.icon("quern", LIGHT))
    made = QWidget()
    made.show()
    yield made
    made.close()


@pytest.fixture
def tray(window: QWidget, desktop: Desktop, tmp_path: Path) -> Iterator[Tray]:
    made = Tray(window, StateFile(tmp_path / "state.json"), available=desktop.available)
    yield made
    made.close()


def test_there_is_no_icon_unless_it_is_wanted(tray: Tray) -> None:
    assert not tray.keeps
    assert tray.icon is None
    tray.follow(True)
    assert tray.keeps
    tray.follow(False)
    assert not tray.keeps
    assert tray.icon is None


def test_without_a_tray_nothing_stays(tray: Tray, desktop: Desktop) -> None:
    desktop.has_tray = False
    tray.follow(True)
    assert not tray.keeps
    assert tray.icon is None
    desktop.has_tray = True
    assert tray.keeps, "the tray came later"


def test_where_the_window_went_is_said_once(tray: Tray, window: QWidget, desktop: Desktop) -> None:
    tray.follow(True)
    tray.take_window()
    assert not window.isVisible()
    tray.bring_window()
    assert window.isVisible()
    tray.take_window()
    assert [title for title, _words in desktop.messages] == ["Quern is still running"]


def test_finished_answers_are_told_of_only_while_the_window_is_hidden(
    tray: Tray, window: QWidget, desktop: Desktop
) -> None:
    tray.follow(True)
    tray.tell("Chat", "The answer is finished.", "chat")
    assert desktop.messages == []
    tray.take_window()
    desktop.messages.clear()
    tray.tell("Chat", "The answer is finished.", "chat")
    assert desktop.messages == [("Chat", "The answer is finished.")]
    clicked: list[str] = []
    tray.message_clicked.connect(clicked.append)
    assert tray.icon is not None
    tray.icon.messageClicked.emit()
    assert clicked == ["chat"]
    assert window.isVisible()


@pytest.mark.parametrize("how", ["the tray is gone", "the setting is off"])
def test_a_hidden_window_comes_back_when_nothing_shows_that_it_is_there(
    tray: Tray, window: QWidget, desktop: Desktop, how: str
) -> None:
    tray.follow(True)
    tray.take_window()
    if how == "the tray is gone":
        desktop.has_tray = False
        tray._look.timeout.emit()
    else:
        tray.follow(False)
    assert window.isVisible()
    assert tray.icon is None
