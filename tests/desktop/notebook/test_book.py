"""A notebook in memory: one piece of writing is one step of undo, and the mark stays with its text."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication

from desktop.notebook.book import Notebook
from desktop.store.records import NotebookRecord


@pytest.fixture
def book(qapp: QApplication) -> Notebook:
    made = Notebook()
    put(made, 0, "Once upon a time")
    return made


def put(book: Notebook, at: int, text: str, *, remove: int = 0) -> None:
    cursor = QTextCursor(book.document)
    cursor.setPosition(at)
    cursor.setPosition(at + remove, QTextCursor.MoveMode.KeepAnchor)
    cursor.insertText(text)


def write(book: Notebook, *pieces: str, at: int | None = None, again: bool = False) -> None:
    book.begin(book.length if at is None else at, again=again)
    for piece in pieces:
        book.write(piece)
    book.finish()


def marked(book: Notebook) -> str:
    start, end = book.mark
    return book.text.encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")


def test_undo_takes_back_all_that_was_written_and_nothing_else(book: Notebook) -> None:
    write(book, " there", " was\n", "a miller", ".")
    assert book.text == "Once upon a time there was\na miller."
    assert marked(book) == " there was\na miller."
    book.document.undo()
    assert book.text == "Once upon a time"
    assert marked(book) == ""
    book.document.redo()
    assert book.text == "Once upon a time there was\na miller."


def test_two_pieces_of_writing_are_two_steps_of_undo(book: Notebook) -> None:
    write(book, " one", " two")
    write(book, " three", " four")
    assert marked(book) == " three four"
    book.document.undo()
    assert book.text == "Once upon a time one two"
    book.document.undo()
    assert book.text == "Once upon a time"


def test_again_puts_other_words_in_the_same_place_and_undo_brings_the_former_back(book: Notebook) -> None:
    write(book, " there was")
    write(book, " nobody", " came", again=True)
    assert book.text == "Once upon a time nobody came"
    assert marked(book) == " nobody came"
    book.document.undo()
    assert book.text == "Once upon a time there was"


def test_the_model_writes_in_the_middle_and_what_follows_stays(book: Notebook) -> None:
    write(book, " a", " long", at=4)
    assert book.text == "Once a long upon a time"
    assert book.text_before(11) == "Once a long"


@pytest.mark.parametrize(
    ("at", "text", "remove", "kept"),
    [
        (0, "So: ", 0, True),  # before it
        (16, "!", 0, True),  # at its beginning
        (26, " And", 0, True),  # at its end
        (20, "x", 0, False),  # within
        (18, "", 3, False),
        (10, "", 8, False),  # across its beginning
    ],
)
def test_a_change_inside_makes_the_words_the_persons_own(
    book: Notebook, at: int, text: str, remove: int, kept: bool
) -> None:
    write(book, " there was")
    put(book, at, text, remove=remove)
    assert marked(book) == (" there was" if kept else "")


def test_positions_count_as_qt_does_also_behind_an_emoji(book: Notebook) -> None:
    put(book, 0, "🦙 ")
    write(book, " 模型", " 🦙")
    assert marked(book) == " 模型 🦙"
    book.take_back()
    assert book.text == "🦙 Once upon a time"


def test_what_was_stored_comes_back_with_its_mark_and_nothing_to_undo(qapp: QApplication) -> None:
    text = "It is\u00a0late.\n\n" * 5_000
    stored = Notebook(NotebookRecord(id="a", title="Named", text=text, mark=(3, 9), created=1.0, updated=2.0))
    assert len(list(stored.fill())) > 1, "a long text comes in slices"
    assert stored.text == text
    assert stored.mark == (3, 9)
    assert stored.title == "Named"
    assert not stored.document.isUndoAvailable()
    assert stored.record.text == text
    assert stored.record.updated == 2.0, "reading is no change"


def test_a_notebook_without_a_name_is_called_by_its_first_line(book: Notebook) -> None:
    assert book.title == "Once upon a time"
    book.rename("Tale")
    assert book.title == "Tale"
    book.rename("")
    put(book, 0, "\n\n  ")
    assert book.title == "Once upon a time"
