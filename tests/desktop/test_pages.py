"""The pages of the window: built over several turns of the event loop, with something to see at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

import tiny_gguf
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


def begun(window: MainWindow) -> tuple[LibraryPage, ConvertPage, NotebookPage]:
    """Returns one page of each kind of which nothing is built yet."""
    parts = window._parts
    return (
        LibraryPage(parts.known, window, in_steps=True), ConvertPage(parts.jobs, window, in_steps=True),
        NotebookPage(parts.notebooks, parts.client, window, in_steps=True),
    )  # fmt: skip


def test_no_page_is_built_in_one_piece(window: MainWindow) -> None:
    for page in begun(window):
        assert len(list(page.steps)) >= 4
        page.deleteLater()


def test_a_page_may_be_painted_between_any_two_steps(window: MainWindow) -> None:
    for page in begun(window):
        for number, _step in enumerate(page.steps):
            page.resize(700 + 10 * number, 500)
            page.grab()
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


@pytest.fixture
def later(window: MainWindow, qapp: QApplication, qtbot: QtBot) -> Callable[[], MainWindow]:
    """Builds the window that takes the place of the first one, as another language does."""

    def made() -> MainWindow:
        newer = MainWindow(window._parts, replaces=window)
        qtbot.addWidget(newer)
        window.hand_over(newer)
        newer.show()
        return newer

    return made


def test_another_language_keeps_what_was_chosen_for_a_conversion(
    window: MainWindow, later: Callable[[], MainWindow], tmp_path: Path, qtbot: QtBot
) -> None:
    source = tiny_gguf.write_tiny(tmp_path / "a model that nobody has listed.gguf")
    window.pages.turn_to("convert")
    page = window.pages.convert
    page.choose(str(source))
    page.table.selectRow(0)
    page.verify.click()
    proposed = page.target.text()
    newer = later()
    qtbot.waitUntil(lambda: "convert" in newer.pages._pages, timeout=20_000)
    again = newer.pages.convert
    assert newer.pages.page == "convert"
    assert (again._wanted, again.recipe, again.target.text()) == (str(source), page.recipe, proposed)
    assert (again.verify.isChecked(), again.measure.isChecked()) == (False, True)


def test_another_language_keeps_the_name_that_was_written_for_a_new_file(
    window: MainWindow, later: Callable[[], MainWindow], tmp_path: Path, qtbot: QtBot
) -> None:
    source = tiny_gguf.write_tiny(tmp_path / "tiny.gguf")
    window.pages.turn_to("convert")
    window.pages.convert.choose(str(source))
    window.pages.convert.target.clear()
    qtbot.keyClicks(window.pages.convert.target, "/tmp/another.gguf")
    newer = later()
    qtbot.waitUntil(lambda: "convert" in newer.pages._pages, timeout=20_000)
    newer.pages.convert.table.selectRow(0)
    assert newer.pages.convert.target.text() == "/tmp/another.gguf"


def test_what_was_left_on_a_page_stays_over_two_changes(
    window: MainWindow, later: Callable[[], MainWindow], qtbot: QtBot
) -> None:
    window.pages.turn_to("library")
    window.pages.library.search.setText("70B")
    window.pages.library.sort.setCurrentIndex(1)
    order = window.pages.library.sort.currentData()
    window.pages.turn_to("chat")
    newest = MainWindow(window._parts, replaces=window)
    qtbot.addWidget(newest)
    later().hand_over(newest)
    assert newest.pages.library.search.text() == "70B"
    assert newest.pages.library.sort.currentData() == order


def test_another_language_leaves_the_cursor_of_a_notebook_where_it_was(
    window: MainWindow, later: Callable[[], MainWindow]
) -> None:
    window.pages.turn_to("notebook")
    window.pages.notebook.edit.insertPlainText("Grain by grain")
    window.pages.notebook.edit.select(5, 2)
    cursor = later().pages.notebook.edit.textCursor()
    assert (cursor.anchor(), cursor.position()) == (5, 2)


def test_another_language_keeps_the_place_in_the_settings(
    window: MainWindow, later: Callable[[], MainWindow], qtbot: QtBot
) -> None:
    window.show_panel(True)
    assert window.panel is not None
    qtbot.waitUntil(lambda: window.panel.settled, timeout=20_000)
    window.panel.section("Expert sampling").set_open(True)
    window.panel.section("Appearance").set_open(False)
    qtbot.waitUntil(lambda: window.panel.settled, timeout=20_000)
    qtbot.waitUntil(lambda: window.panel._area.verticalScrollBar().maximum() > 300, timeout=20_000)
    window.panel._area.verticalScrollBar().setValue(300)
    window.remember()
    panel = later().panel
    assert panel is not None
    qtbot.waitUntil(lambda: panel._area.verticalScrollBar().value() == 300, timeout=20_000)
    assert panel.section("Expert sampling").is_open
    assert not panel.section("Appearance").is_open


def test_another_language_keeps_what_is_searched_for(
    window: MainWindow, later: Callable[[], MainWindow], qtbot: QtBot
) -> None:
    window.sidebar.search.setText("mill")
    window.find_in_chat.bar.field.setText("river")
    window.find_in_chat.open()
    window.system_prompt.edit.setPlainText("Answer in French.")
    newer = later()
    assert newer.sidebar.search.text() == "mill"
    assert (newer.find_in_chat.bar.field.text(), newer.find_in_chat.bar.isHidden()) == ("river", False)
    assert newer.system_prompt.text == "Answer in French."
