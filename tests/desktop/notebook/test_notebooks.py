"""The notebook in the window: what a person does, what the engine is asked, what is stored and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QMimeData, Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.main_window import MainWindow, Parts
from desktop.notebook.editor import LONGEST_LINE
from desktop.notebook.page import NotebookPage
from desktop.shell import Shell
from desktop.store.database import ChatDatabase
from desktop.store.notebooks import list_notebooks, read_notebook
from runtime.params import SamplingParams
from runtime.places import places
from window_kit import window_parts

Open = Callable[..., NotebookPage]
REPLY = " there was a miller."


@pytest.fixture
def open_page(qapp: QApplication, qtbot: QtBot) -> Iterator[Open]:
    """Opens a window at its notebook, with an engine that follows a script."""
    with ExitStack() as stack:

        def opened(**script: Any) -> NotebookPage:
            parts = stack.enter_context(window_parts(**{"reply": REPLY, **script}))
            shell = Shell(parts.state)
            window = MainWindow(parts)
            shell.furnish(window)
            stack.callback(shell.deleteLater)
            stack.callback(shell.close)
            shell.show()
            parts.models.start()
            qtbot.waitUntil(lambda: parts.client.info is not None, timeout=20_000)
            window.pages.turn_to("notebook")
            page = window.pages.notebook
            qtbot.waitUntil(lambda: page.isVisible())
            page.window_parts = parts  # type: ignore[attr-defined]
            page.main_window = window  # type: ignore[attr-defined]
            return page

        yield opened


def parts_of(page: NotebookPage) -> Parts:
    parts: Parts = page.window_parts  # type: ignore[attr-defined]
    return parts


def text(page: NotebookPage) -> str:
    return parts_of(page).notebooks.current.text


def marked(page: NotebookPage) -> str:
    start, end = parts_of(page).notebooks.current.mark
    return text(page)[start:end]


def go_on(page: NotebookPage, qtbot: QtBot) -> None:
    qtbot.keyClick(page.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: not parts_of(page).notebooks.busy)


def on_disk() -> dict[str, str]:
    with closing(ChatDatabase(places().chats_file)) as database:
        found = [read_notebook(database.connection, book.id) for book in list_notebooks(database.connection)]
    return {book.title or book.text[:10]: book.text for book in found if book is not None}


def test_control_enter_goes_on_at_the_end_and_marks_what_the_model_wrote(open_page: Open, qtbot: QtBot) -> None:
    page = open_page()
    qtbot.keyClicks(page.edit, "Once upon a time")
    go_on(page, qtbot)
    assert text(page) == "Once upon a time" + REPLY
    assert marked(page) == REPLY
    assert len(page.edit.extraSelections()) == 1
    qtbot.keyClicks(page.edit, " And")
    assert text(page).endswith("miller. And"), "the cursor is behind what was written"
    assert marked(page) == REPLY


def test_undo_takes_the_whole_writing_back_and_so_does_the_button(open_page: Open, qtbot: QtBot) -> None:
    page = open_page()
    qtbot.keyClicks(page.edit, "Once")
    go_on(page, qtbot)
    qtbot.keyClick(page.edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert text(page) == "Once"
    assert page.edit.extraSelections() == []
    go_on(page, qtbot)
    page.back.click()
    assert text(page) == "Once"
    assert not page.back.isEnabled()


def test_again_asks_with_the_same_beginning(open_page: Open, qtbot: QtBot, tmp_path: Path) -> None:
    log = tmp_path / "log"
    page = open_page(log=str(log))
    qtbot.keyClicks(page.edit, "Once")
    go_on(page, qtbot)
    page.again.click()
    qtbot.waitUntil(lambda: not parts_of(page).notebooks.busy)
    assert text(page) == "Once" + REPLY
    asked = [line for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("generate")]
    assert asked == ["generate Once", "generate Once"]


def test_the_model_goes_on_at_the_cursor_in_the_middle(open_page: Open, qtbot: QtBot) -> None:
    page = open_page()
    qtbot.keyClicks(page.edit, "Once The end")
    cursor = page.edit.textCursor()
    cursor.setPosition(4)
    page.edit.setTextCursor(cursor)
    go_on(page, qtbot)
    assert text(page) == "Once" + REPLY + " The end"


def test_stop_keeps_what_is_there_and_the_text_can_only_be_read_meanwhile(open_page: Open, qtbot: QtBot) -> None:
    page = open_page(endless=True, delay=0.01)
    window: MainWindow = page.main_window  # type: ignore[attr-defined]
    qtbot.keyClicks(page.edit, "Once")
    page.go.click()
    qtbot.waitUntil(lambda: len(text(page)) > 40)
    qtbot.keyClicks(page.edit, "typed meanwhile")
    assert "typed" not in text(page)
    assert window.actions_by_name["stop"].isEnabled()
    window.actions_by_name["stop"].trigger()
    qtbot.waitUntil(lambda: not parts_of(page).notebooks.busy)
    assert marked(page) == text(page)[4:]
    qtbot.keyClicks(page.edit, "!")
    assert text(page).endswith("!")


def test_what_was_written_is_kept_while_more_is_being_written(open_page: Open, qtbot: QtBot) -> None:
    page = open_page(endless=True, delay=0.02)
    qtbot.keyClicks(page.edit, "Once")
    page.go.click()
    qtbot.waitUntil(lambda: len(text(page)) > 100)
    before = len(text(page))
    qtbot.waitUntil(lambda: len("".join(on_disk().values())) >= before)  # within a second, where the disk has time
    stored = list(on_disk().values())
    assert page._books.busy
    assert len(stored) == 1
    assert text(page).startswith(stored[0])


def test_an_engine_that_dies_leaves_the_text_and_the_next_try_works(
    open_page: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    page = open_page(crash_at=3, crash_once=str(tmp_path / "crashed"))
    window: MainWindow = page.main_window  # type: ignore[attr-defined]
    qtbot.keyClicks(page.edit, "Once")
    go_on(page, qtbot)
    assert text(page) == "Once there was"
    assert window.notice.isVisible()
    go_on(page, qtbot)
    assert text(page) == "Once there was" + REPLY


def test_each_notebook_keeps_its_text_and_its_undo(open_page: Open, qtbot: QtBot) -> None:
    page = open_page()
    qtbot.keyClicks(page.edit, "First")
    go_on(page, qtbot)
    page.add.click()
    assert text(page) == ""
    qtbot.keyClicks(page.edit, "Second")
    qtbot.waitUntil(lambda: page.list.count() == 2)
    page.list.setCurrentIndex(page.list.findText("First" + REPLY))
    page.list.activated.emit(page.list.currentIndex())
    qtbot.waitUntil(lambda: text(page) == "First" + REPLY)
    page.edit.undo()
    assert text(page) == "First"
    parts_of(page).notebooks.save()
    qtbot.waitUntil(lambda: on_disk() == {"First": "First", "Second": "Second"})


def test_the_model_goes_on_unseen_in_the_notebook_it_was_asked_in(open_page: Open, qtbot: QtBot) -> None:
    page = open_page(delay=0.05)
    books = parts_of(page).notebooks
    qtbot.keyClicks(page.edit, "First")
    first = books.current
    page.go.click()
    page.add.click()
    assert not books.busy
    qtbot.keyClicks(page.edit, "Second")
    qtbot.waitUntil(lambda: not first.writing)
    assert first.text == "First" + REPLY
    assert text(page) == "Second"


def test_a_deleted_notebook_comes_back_with_undo(open_page: Open, qtbot: QtBot) -> None:
    page = open_page()
    qtbot.keyClicks(page.edit, "Precious")
    page.delete.click()
    assert text(page) == ""
    qtbot.waitUntil(lambda: on_disk() == {})
    page.undo_bar.button.click()
    qtbot.waitUntil(lambda: text(page) == "Precious")
    assert on_disk() == {"Precious": "Precious"}


def test_the_search_beside_the_chats_finds_notebooks_and_opens_them(open_page: Open, qtbot: QtBot) -> None:
    page = open_page()
    window: MainWindow = page.main_window  # type: ignore[attr-defined]
    qtbot.keyClicks(page.edit, "Das Wasserrad dreht sich")
    page.add.click()
    window.pages.turn_to("chat")
    window.sidebar.search.setText("wasserrad")
    model = window.sidebar.model
    qtbot.waitUntil(lambda: model.rowCount() == 2)
    assert model.row(model.index(0)).title == "Notebooks"
    window.sidebar.list.opened.emit(model.index(1))
    assert window.pages.page == "notebook"
    qtbot.waitUntil(lambda: text(page) == "Das Wasserrad dreht sich")


def test_the_last_notebook_is_there_after_a_new_start(qapp: QApplication, qtbot: QtBot, open_page: Open) -> None:
    with window_parts() as parts:
        cursor = QTextCursor(parts.notebooks.current.document)
        cursor.insertText("from yesterday")
    page = open_page()
    qtbot.waitUntil(lambda: text(page) == "from yesterday")
    assert not page.edit.document().isUndoAvailable()


def test_a_model_without_a_chat_template_is_offered_the_notebook(open_page: Open, qtbot: QtBot) -> None:
    page = open_page(template=False)
    window: MainWindow = page.main_window  # type: ignore[attr-defined]
    window.pages.turn_to("chat")
    assert window.notice.code == "no_template_in_model"
    window._help(window.notice.code)
    assert window.pages.page == "notebook"


@pytest.mark.parametrize(("name", "expected"), [("tale.md", "# Tale\n\nOnce 模型\n"), ("tale.txt", "Once 模型\n")])
def test_the_text_is_exported_as_it_is(
    open_page: Open, qtbot: QtBot, tmp_path: Path, name: str, expected: str
) -> None:
    page = open_page()
    page.edit.insertPlainText("Once 模型\n")
    parts_of(page).notebooks.rename("Tale")
    page.write(tmp_path / name)
    qtbot.waitUntil(lambda: (tmp_path / name).exists())
    assert (tmp_path / name).read_text(encoding="utf-8") == expected


def test_a_huge_paste_comes_in_slices_and_goes_in_one_undo(open_page: Open, qtbot: QtBot) -> None:
    page = open_page()
    qtbot.keyClicks(page.edit, "Before")
    pasted = QMimeData()
    pasted.setText("\r\n" + "A line of text that is not long.\n" * 4_000 + "\x00")
    page.edit.insertFromMimeData(pasted)
    assert len(text(page)) < 100_000, "the rest comes in later turns"
    qtbot.waitUntil(lambda: len(text(page)) > 130_000)
    assert text(page).startswith("Before\nA line")
    qtbot.waitUntil(lambda: not page.edit.isReadOnly())
    page.edit.undo()
    assert text(page) == "Before"


def test_a_line_without_end_is_broken_and_that_is_said(open_page: Open, qtbot: QtBot) -> None:
    page = open_page()
    said: list[str] = []
    page.edit.said.connect(said.append)
    words, letters = "word " * 20_000, "x" * 20_000
    page.edit.paste_text(f"{words}\n{letters}\nshort")
    qtbot.waitUntil(lambda: text(page).endswith("short"), timeout=20_000)
    lines = text(page).split("\n")
    assert max(map(len, lines)) <= LONGEST_LINE
    assert " ".join(lines[:-4]).split() == words.split(), "no word is lost or cut"
    assert "".join(lines[-4:-1]) == letters
    assert len(said) == 1


def test_the_tokens_up_to_the_cursor_are_counted(open_page: Open, qtbot: QtBot) -> None:
    page = open_page()
    page.edit.insertPlainText("one two three four")
    counted: list[int] = []
    parts_of(page).client.counted.connect(lambda _id, total: counted.append(total))
    qtbot.waitUntil(lambda: 4 in counted)


def test_the_writing_follows_the_settings_of_the_panel(open_page: Open, qtbot: QtBot) -> None:
    page = open_page()
    asked: list[SamplingParams] = []
    client = parts_of(page).client
    generate = client.generate
    client.generate = lambda request: (asked.append(request.sampling), generate(request))[1]  # type: ignore[method-assign]
    parts_of(page).live.set_values(SamplingParams, temperature=0.25)
    page.edit.insertPlainText("Once")
    go_on(page, qtbot)
    assert asked[0].temperature == 0.25
