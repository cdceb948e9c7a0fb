"""Where a person writes: keys, pastes, the button that is Send and Stop."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QInputMethodEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.chat.composer import LONG_PASTE, Composer, Draft
from desktop.chat.plain_text import cleaned, one_line
from desktop.look import dress
from desktop.theme import LIGHT


@pytest.fixture
def composer(qapp: QApplication, qtbot: QtBot) -> Composer:
    dress(qapp, LIGHT)
    made = Composer()
    qtbot.addWidget(made)
    made.resize(500, 60)
    made.show()
    return made


def sent_by(composer: Composer) -> list[str]:
    messages: list[str] = []
    composer.send_requested.connect(messages.append)
    return messages


def paste(composer: Composer, text: str) -> None:
    data = QMimeData()
    data.setText(text)
    composer.edit.insertFromMimeData(data)


def test_enter_sends_and_shift_enter_breaks_the_line(composer: Composer, qtbot: QtBot) -> None:
    messages = sent_by(composer)
    qtbot.keyClicks(composer.edit, "one")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(composer.edit, "two")
    assert messages == []
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert messages == ["one\ntwo"]


def test_blank_text_is_not_sent(composer: Composer, qtbot: QtBot) -> None:
    messages = sent_by(composer)
    qtbot.keyClicks(composer.edit, "   ")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert messages == []


def test_enter_that_ends_a_composed_word_does_not_send(composer: Composer, qtbot: QtBot) -> None:
    messages = sent_by(composer)
    qtbot.keyClicks(composer.edit, "ni")
    composer.edit.inputMethodEvent(QInputMethodEvent("hao", []))
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert (messages, composer.draft.text) == ([], "ni")
    composer.edit.inputMethodEvent(committed("好"))
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert messages == ["ni好"]


def committed(text: str) -> QInputMethodEvent:
    event = QInputMethodEvent("", [])
    event.setCommitString(text)
    return event


def test_a_dead_key_waits_for_its_letter(composer: Composer, qtbot: QtBot) -> None:
    messages = sent_by(composer)
    composer.edit.inputMethodEvent(QInputMethodEvent("´", []))
    qtbot.keyClick(composer.edit, Qt.Key.Key_Up)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Enter)
    composer.edit.inputMethodEvent(committed("é"))
    assert (messages, composer.draft.text) == ([], "é")


def test_a_composed_word_shows_in_the_field_but_is_not_part_of_the_draft(composer: Composer) -> None:
    composer.edit.inputMethodEvent(QInputMethodEvent("ni hao", []))
    assert composer.edit.textCursor().block().layout().preeditAreaText() == "ni hao"
    assert composer.draft == Draft()
    composer.edit.inputMethodEvent(QInputMethodEvent("", []))
    assert composer.edit.textCursor().block().layout().preeditAreaText() == ""


def test_the_list_of_words_opens_at_the_cursor(composer: Composer, qtbot: QtBot) -> None:
    places = []
    for text in ("", "some words", " and a line\nbelow"):
        composer.edit.insertPlainText(text)
        places.append(composer.edit.inputMethodQuery(Qt.InputMethodQuery.ImCursorRectangle))
    assert places[0].x() < places[1].x()
    assert places[2].y() > places[1].y()
    assert composer.edit.inputMethodQuery(Qt.InputMethodQuery.ImEnabled)
    assert composer.edit.inputMethodQuery(Qt.InputMethodQuery.ImSurroundingText) == "below"


def test_up_edits_the_last_message_only_from_an_empty_field(composer: Composer, qtbot: QtBot) -> None:
    asked: list[bool] = []
    composer.edit_last_requested.connect(lambda: asked.append(True))
    qtbot.keyClick(composer.edit, Qt.Key.Key_Up)
    assert asked == [True]
    qtbot.keyClicks(composer.edit, "text")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Up)
    assert asked == [True]


def test_stop_takes_the_place_and_size_of_send(composer: Composer, qtbot: QtBot) -> None:
    qtbot.keyClicks(composer.edit, "text")
    before = (composer.button.geometry(), composer.button.accessibleName())
    stops: list[bool] = []
    composer.stop_requested.connect(lambda: stops.append(True))
    composer.set_running(True)
    assert composer.button.geometry() == before[0]
    assert composer.button.accessibleName() != before[1]
    qtbot.mouseClick(composer.button, Qt.MouseButton.LeftButton)
    assert stops == [True]


def test_message_written_while_an_answer_runs_is_handed_on(composer: Composer, qtbot: QtBot) -> None:
    messages = sent_by(composer)
    composer.set_running(True)
    composer.set_draft(Draft("second"))

    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)

    assert messages == ["second"]
    assert "finished" in composer.edit.placeholderText()


def test_send_is_disabled_while_there_is_nothing_to_send(composer: Composer, qtbot: QtBot) -> None:
    assert not composer.button.isEnabled()
    qtbot.keyClicks(composer.edit, "a")
    assert composer.button.isEnabled()


def test_pasted_text_is_plain_and_clean(composer: Composer) -> None:
    paste(composer, "a\x00b\r\nc")
    assert composer.draft.text == "ab\nc"


@pytest.mark.parametrize(
    "text", ["x" * 1_000_000, "line of text\n" * 160_000, "\U0001f600" * 100_000], ids=["line", "lines", "emoji"]
)
def test_long_paste_becomes_a_chip_that_is_sent_whole(composer: Composer, qtbot: QtBot, text: str) -> None:
    messages = sent_by(composer)
    qtbot.keyClicks(composer.edit, "Sum this up:")
    paste(composer, text)
    assert composer.draft == Draft("Sum this up:", (text,))
    assert composer.edit.toPlainText() == "Sum this up:"
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert messages == [f"Sum this up:\n\n{text}"]


def test_undo_takes_a_long_paste_back(composer: Composer, qtbot: QtBot) -> None:
    paste(composer, "x" * LONG_PASTE)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert composer.draft == Draft()


def test_undo_takes_back_what_was_typed_after_a_long_paste_first(composer: Composer, qtbot: QtBot) -> None:
    paste(composer, "x" * LONG_PASTE)
    qtbot.keyClicks(composer.edit, "after")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert composer.draft == Draft("", ("x" * LONG_PASTE,))
    qtbot.keyClick(composer.edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert composer.draft == Draft()


def test_undo_tells_what_was_typed_before_a_long_paste_from_what_came_after(composer: Composer, qtbot: QtBot) -> None:
    qtbot.keyClicks(composer.edit, "before")
    paste(composer, "x" * LONG_PASTE)
    qtbot.keyClicks(composer.edit, "after")
    steps = []
    for _ in range(3):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
        steps.append((composer.draft.text, len(composer.draft.pasted)))
    assert steps == [("before", 1), ("before", 0), ("", 0)]


def test_undo_does_not_take_out_a_long_text_that_came_back_to_the_field(composer: Composer, qtbot: QtBot) -> None:
    composer.set_draft(Draft.of("x" * LONG_PASTE))
    qtbot.keyClicks(composer.edit, "typed")
    paste(composer, "y" * LONG_PASTE)
    for _press in range(9):
        qtbot.keyClick(composer.edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert composer.draft == Draft(pasted=("x" * LONG_PASTE,))


def test_short_paste_can_be_undone(composer: Composer, qtbot: QtBot) -> None:
    paste(composer, "short")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert composer.draft == Draft()


def test_dropped_files_are_left_to_the_window(composer: Composer) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile("/models/a.gguf")])
    assert not composer.edit.canInsertFromMimeData(data)


def test_field_grows_with_its_lines_up_to_a_limit(composer: Composer) -> None:
    heights = []
    for lines in (1, 3, 10, 40):
        composer.set_draft(Draft("\n".join(["line"] * lines)))
        heights.append(composer.edit.height())
    assert heights[0] < heights[1] < heights[2] == heights[3]


def test_draft_comes_back_as_it_was(composer: Composer) -> None:
    draft = Draft("some text", ("y" * LONG_PASTE,))
    composer.set_draft(draft)
    assert composer.draft == draft
    composer.clear()
    assert composer.draft == Draft()


def test_cleaning_keeps_whole_characters_and_names_stay_on_one_line() -> None:
    assert cleaned("\U0001f600 \u2028 vector<int> & </div>") == "\U0001f600 \n vector<int> & </div>"
    assert cleaned("a\ud800b \ud83d\ude00") == "a\ufffdb \U0001f600"
    assert one_line("evil\u202egnp.gguf\nnext") == "evilgnp.gguf next"
    assert len(one_line("n" * 5000)) == 200


def test_larger_text_is_larger_in_an_empty_field_too(composer: Composer) -> None:
    before = composer.edit.font().pixelSize(), composer.edit.height()

    composer.set_zoom(200)

    assert composer.edit.font().pixelSize() == composer.edit.viewport().font().pixelSize() == 2 * before[0]
    assert composer.edit.height() > before[1]
