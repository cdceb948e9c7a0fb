"""The pages of the window: built over several turns of the event loop, with something to see at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from desktop.convert.page import ConvertPage
from desktop.library.page import LibraryPage
from desktop.main_window import MainWindow
from desktop.notebook.page import NotebookPage
from desktop.shell import Shell
from window_kit import window_parts


@pytest.fixture
def window(qapp: QApplication) -> Iterator[MainWindow]:
    with window_parts() as parts:
        shell = Shell(parts.state)
        made = MainWindow(parts)
        shell.furnish(made)
        shell.show()
        yield made
        shell.close()
        shell.deleteLater()


@pytest.mark.parametrize(("page", "title"), [("library", "Library"), ("convert", "Convert")])
def test_a_page_shows_its_title_at_once_and_the_rest_when_it_is_built(
    window: MainWindow, page: str, title: str, qtbot: QtBot
) -> None:
    window.pages.turn_to(page)
    shown = window.pages.currentWidget()
    assert [label.text() for label in shown.findChildren(QLabel)] == [title]
    assert window.pages.page == page
    qtbot.waitUntil(lambda: window.pages.currentWidget() is not shown, timeout=20_000)
    assert window.pages.currentWidget() is getattr(window.pages, page)


def test_who_turns_on_before_a_page_is_built_stays_where_they_went(window: MainWindow, qtbot: QtBot) -> None:
    window.pages.turn_to("library")
    window.pages.turn_to("chat")
    qtbot.waitUntil(lambda: "library" in window.pages._pages, timeout=20_000)
    assert window.pages.page == "chat"
    assert window.view.isVisible() or window.empty.isVisible()


def test_a_page_that_is_needed_at_once_is_there_at_once(window: MainWindow) -> None:
    window.pages.turn_to("library")
    assert window.pages.library.search.isVisibleTo(window.pages.library)


def test_no_page_is_built_in_one_piece(window: MainWindow) -> None:
    parts = window._parts
    made = (
        LibraryPage(parts.known, window, in_steps=True), ConvertPage(parts.jobs, window, in_steps=True),
        NotebookPage(parts.notebooks, parts.client, window, in_steps=True),
    )  # fmt: skip
    for page in made:
        assert len(list(page.steps)) >= 4
        page.deleteLater()


def test_the_settings_are_built_section_by_section(window: MainWindow, qtbot: QtBot) -> None:
    window.show_panel(True)
    assert window.panel is not None
    assert not window.panel.settled
    qtbot.waitUntil(lambda: window.panel.settled, timeout=20_000)
    expert = window.panel.section("Expert sampling")
    expert.set_open(True)
    assert not expert.settled, "the rows follow"
    qtbot.waitUntil(lambda: expert.settled, timeout=20_000)
    assert sum(row.isVisible() for row in expert.rows.values()) > 5
