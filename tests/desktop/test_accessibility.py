"""Everything that a person can reach says what it is, and can be reached and seen with the keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractScrollArea,
    QApplication,
    QLabel,
    QLineEdit,
    QScrollBar,
    QSplitterHandle,
    QWidget,
)

from desktop.controls.buttons import ElidedWords
from desktop.language import speak
from desktop.main_window import MainWindow
from desktop.shell import Shell
from patient_qtbot import live
from window_kit import window_parts

_BETWEEN = (QScrollBar, QSplitterHandle)  # they move what has a name
_PATIENCE = 600  # tenths of a second
_MANY = 400  # presses of Tab in which everything comes round


@pytest.fixture
def window(qapp: QApplication) -> Iterator[MainWindow]:
    with window_parts(prompt_steps=3) as parts:
        shell, window = Shell(parts.state), MainWindow(parts)
        shell.furnish(window)
        shell.resize(1400, 900)
        shell.show()
        shell.activateWindow()
        live(100)
        yield window
        shell.close()
        shell.deleteLater()


def views(window: MainWindow) -> Iterator[tuple[str, QWidget]]:
    """Opens one thing after the other; yields its name and what holds its widgets."""
    window.show_prompt(True)
    window.show_panel(True)
    live(600)  # the sections come one by one
    yield "chat", window
    window.actions_by_name["ledger"].trigger()
    live(100)
    yield "what fills the context", window
    for name in ("library", "notebook", "convert"):
        window.actions_by_name[name].trigger()
        live(100)
        yield name, window
    window.pages.turn_to("chat")
    for name in ("palette", "shortcuts", "diagnostics", "receipts", "backups", "models", "find"):
        window.actions_by_name[name].trigger()
        live(100)
        popup = QApplication.activePopupWidget()
        yield name, popup or window
        if popup is not None:
            popup.close()


def unnamed(holder: QWidget) -> list[str]:
    found = []
    for child in holder.findChildren(QWidget):
        if not child.isVisible() or child.focusPolicy() == Qt.FocusPolicy.NoFocus or isinstance(child, _BETWEEN):
            continue
        if isinstance(child.parent(), QAbstractScrollArea) and child.parent().viewport() is child:
            continue
        shown = child.text() if isinstance(child, QAbstractButton) else ""
        interface = QAccessible.queryAccessibleInterface(child)
        name = interface.text(QAccessible.Text.Name) if interface is not None else child.accessibleName()
        if not (name or shown or child.accessibleName()).strip():
            found.append(f"{type(child).__name__} {child.objectName()} in {type(child.parent()).__name__}")
    return found


def test_every_control_of_every_page_has_a_name(window: MainWindow) -> None:
    nameless = {name: missing for name, holder in views(window) if (missing := unnamed(holder))}
    assert nameless == {}


def test_icons_alone_have_words_for_them(window: MainWindow) -> None:
    """The lens in a search field is not pressed."""
    for name, holder in views(window):
        for button in holder.findChildren(QAbstractButton):
            if button.isVisible() and not button.text() and not isinstance(button.parent(), QLineEdit):
                assert button.accessibleName() or button.toolTip(), f"{name}: {button}"


def test_tab_comes_round_to_the_composer_and_sees_every_button_of_the_chat(window: MainWindow) -> None:
    window.focus_composer()
    start, seen = QApplication.focusWidget(), set[QWidget]()
    assert start is window.composing.composer.edit
    for _ in range(_MANY):
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        focused = QApplication.focusWidget()
        assert focused is not None
        assert focused.isVisible()
        if focused is start:
            break
        seen.add(focused)
    assert QApplication.focusWidget() is start, "Tab never came back"
    wanted = {child for child in window.findChildren(QAbstractButton)
              if child.isVisible() and child.isEnabled() and child.focusPolicy() & Qt.FocusPolicy.TabFocus}  # fmt: skip
    assert {button.accessibleName() or button.text() for button in wanted - seen} == set()


def test_the_keyboards_place_can_be_seen(window: MainWindow) -> None:
    """A picture of the focused button differs from one of the same button without the keyboard."""
    button = window.header.panel_button
    window.focus_composer()
    without = button.grab().toImage()
    button.setFocus(Qt.FocusReason.TabFocusReason)
    assert QApplication.focusWidget() is button
    assert button.grab().toImage() != without


def cut_off(holder: QWidget) -> list[str]:
    """Returns the words that have less room than they need; those that are shortened on purpose are left out."""
    found = []
    for child in holder.findChildren(QWidget):
        if not child.isVisible() or isinstance(child, ElidedWords):
            continue
        if isinstance(child, QAbstractButton) and child.text():
            room, needed = child.size(), child.sizeHint()
            if needed.width() > room.width() + 1 or needed.height() > room.height() + 1:
                found.append(f"{child.text()}: {needed.toTuple()} in {room.toTuple()}")
        elif isinstance(child, QLabel) and child.wordWrap():
            if child.text() and child.heightForWidth(child.width()) > child.height() + 1:
                found.append(f"{child.text()}: too low")
        elif isinstance(child, QLabel) and child.fontMetrics().horizontalAdvance(child.text()) > child.width() + 1:
            found.append(f"{child.text()}: too narrow")
    return found


@pytest.mark.parametrize("language", ["en", "zh_CN"])
@pytest.mark.parametrize("size", [(640, 480), (1400, 900)])
def test_nothing_is_cut_off_in_a_small_window_or_another_language(
    qapp: QApplication, language: str, size: tuple[int, int]
) -> None:
    speak(qapp, language)
    try:
        with window_parts(prompt_steps=3) as parts:
            shell, window = Shell(parts.state), MainWindow(parts)
            shell.furnish(window)
            shell.resize(*size)
            shell.show()
            for name, holder in views(window):
                for _ in range(_PATIENCE):
                    if not (found := cut_off(holder)):
                        break
                    live(100)  # it is still being built
                assert found == [], name
            shell.close()
            shell.deleteLater()
    finally:
        speak(qapp, "en")
