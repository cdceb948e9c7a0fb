"""The least window: a screen of 1280 × 720 at 200 %. Nothing that can be pressed is cut off, on no page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QRect
from PySide6.QtWidgets import QApplication, QPushButton, QToolButton
from pytestqt.qtbot import QtBot

from desktop.language import speak
from desktop.main_window import MainWindow
from desktop.shell import Shell
from window_kit import window_parts

SIZE = (640, 340)


@pytest.fixture(params=["en", "zh_CN"])
def window(request: pytest.FixtureRequest, qapp: QApplication) -> Iterator[MainWindow]:
    speak(qapp, request.param)
    with window_parts() as parts:
        shell = Shell(parts.state)
        shell.resize(*SIZE)
        made = MainWindow(parts)
        shell.furnish(made)
        shell.show()
        parts.models.scan()
        yield made
        shell.close()
        shell.deleteLater()
    speak(qapp, "en")


def cut_off(window: MainWindow) -> list[str]:
    """Returns the buttons that lie outside of the window, or are narrower than their words."""
    found = []
    for button in [*window.findChildren(QPushButton), *window.findChildren(QToolButton)]:
        if not button.isVisible() or button.visibleRegion().isEmpty():
            continue
        right = button.mapTo(window, button.rect().topRight()).x()
        narrow = isinstance(button, QPushButton) and button.width() < button.minimumSizeHint().width()
        if right >= window.width() or narrow:
            found.append(f"{button.accessibleName() or button.text()} ({button.width()}, right {right})")
    return found


@pytest.mark.parametrize("page", ["chat", "notebook", "library", "convert"])
def test_no_button_is_cut_off_on_a_small_screen(window: MainWindow, page: str, qtbot: QtBot) -> None:
    assert (window.width(), window.height()) == SIZE
    window.pages.turn_to(page)
    if page != "chat":
        qtbot.waitUntil(lambda: getattr(window.pages, page).isVisible(), timeout=20_000)
    qtbot.wait(100)
    assert cut_off(window) == []


def test_the_settings_leave_when_a_page_needs_their_room(window: MainWindow, qtbot: QtBot) -> None:
    window.show_panel(True)
    window.pages.turn_to("library")
    qtbot.waitUntil(window.pages.library.isVisible, timeout=20_000)
    assert window.panel is not None
    assert window.panel.isHidden()
    assert window.sidebar.isHidden()
    window.pages.turn_to("chat")
    assert not window.sidebar.isHidden()


def test_a_page_that_was_opened_squeezes_nothing_beside_the_chat(window: MainWindow, qtbot: QtBot) -> None:
    window.window().resize(1120, 720)
    window.show_panel(True)
    qtbot.wait(50)
    assert window.panel is not None
    before = window.sidebar.width(), window.panel.width()
    for page in ("library", "convert", "chat"):
        window.pages.turn_to(page)
        if page != "chat":
            qtbot.waitUntil(getattr(window.pages, page).isVisible, timeout=20_000)
    qtbot.waitUntil(lambda: (window.sidebar.width(), window.panel.width()) == before)


def test_the_bar_that_finds_stays_inside_the_conversation(window: MainWindow) -> None:
    window.show_panel(True)
    window.find_in_chat.open()
    bar = window.find_in_chat.bar
    assert bar.x() + bar.width() <= window.view.viewport().width()
    assert bar.close_button.geometry().right() < bar.width()


def test_the_list_of_keys_fits_the_screen_and_scrolls(window: MainWindow) -> None:
    window.actions_by_name["shortcuts"].trigger()
    card = next(each for each in QApplication.topLevelWidgets() if type(each).__name__ == "ShortcutsCard")
    assert card.width() <= window.screen().availableGeometry().width()
    assert card._area.widget().width() <= card._area.viewport().width(), "nothing is cut off at the side"  # type: ignore[attr-defined]
    card.close()


class SmallScreen:
    """A screen of 1280 × 720 at 200 %, with a bar at its top."""

    def availableGeometry(self) -> QRect:
        return QRect(0, 20, 640, 340)


@pytest.mark.parametrize("top", [20, 150, -100])
def test_what_lies_over_the_window_stays_on_the_screen(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot, top: int
) -> None:
    window.window().move(0, top)
    monkeypatch.setattr(window, "screen", SmallScreen)
    for action, kind in (("palette", "Palette"), ("shortcuts", "ShortcutsCard")):
        window.actions_by_name[action].trigger()
        card = next(each for each in QApplication.topLevelWidgets() if type(each).__name__ == kind)
        qtbot.waitExposed(card)
        assert SmallScreen().availableGeometry().contains(card.geometry()), kind
        card.close()
        qtbot.wait(20)
