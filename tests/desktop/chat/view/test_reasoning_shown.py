"""What a model thought is folded above its answer, and costs the rest of the conversation nothing."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.chat.view.answer_reader import AnswerReader
from desktop.chat.view.blocks import BlockKind
from desktop.chat.view.conversation_view import ConversationView
from desktop.chat.view.message_model import ChatItem, ItemState, MessageListModel
from desktop.theme import LIGHT
from patient_qtbot import live
from runtime.messages import Role

THOUGHT = "<think>\nFirst **this**.\n\n- then that\n</think>\n\nThe *answer*.\n\nIts end."


def answer(id: str, text: str = THOUGHT, **more: object) -> ChatItem:
    return ChatItem(id=id, role=Role.ASSISTANT, text=text, model_name="SmolLM2", **more)  # type: ignore[arg-type]


@pytest.fixture
def model() -> MessageListModel:
    return MessageListModel()


@pytest.fixture
def view(qtbot: QtBot, model: MessageListModel) -> ConversationView:
    made = ConversationView(model, theme=LIGHT)
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.show()
    qtbot.waitExposed(made)
    return made


def texts(view: ConversationView, row: int = 0) -> list[str]:
    return [segment.block.text for segment in view.layout_of_items.items[row].segments]


def words(view: ConversationView, row: int = 0) -> str:
    line = view.layout_of_items.items[row].reasoning
    return line.words if line is not None else ""


def press(view: ConversationView, name: str, row: int = 0) -> None:
    target = next(target for target in view._targets(row) if target.name == name)
    left = (view.width() - int(view.layout_of_items.width)) // 2
    point = target.rect.center() + QPointF(left, 16 - view.verticalScrollBar().value())
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=point.toPoint())


def test_reasoning_is_folded_above_the_answer(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a", thought_seconds=12.4)])

    assert texts(view) == ["", "The answer.", "Its end."]
    assert words(view) == "Thought for 12 seconds"


def test_a_click_unfolds_it_and_the_other_messages_stay_laid_out(
    view: ConversationView, model: MessageListModel
) -> None:
    model.set_items([answer("a"), answer("b", "Another answer.")])
    QApplication.processEvents()
    laid = view.layout_of_items.laid

    press(view, "thought")

    assert texts(view) == ["", "First this.", "then that", "The answer.", "Its end."]
    assert view.layout_of_items.laid <= laid + 5
    press(view, "hide_thought")
    assert texts(view) == ["", "The answer.", "Its end."]


def test_it_is_unfolded_and_folded_by_key(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a")])
    view.clearFocus()
    view.setFocus(Qt.FocusReason.TabFocusReason)

    QTest.keyClick(view, Qt.Key.Key_Right)
    assert len(texts(view)) == 5

    QTest.keyClick(view, Qt.Key.Key_Left)
    assert len(texts(view)) == 3


def test_what_was_unfolded_is_so_when_the_chat_is_shown_again(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a")])
    press(view, "thought")

    model.set_items([answer("b", "Another chat.")])
    model.set_items([answer("a")])

    assert len(texts(view)) == 5


def test_a_view_that_takes_the_place_of_another_unfolds_the_same(
    view: ConversationView, model: MessageListModel, qtbot: QtBot
) -> None:
    model.set_items([answer("a")])
    press(view, "thought")
    newer = ConversationView(model, theme=LIGHT)
    qtbot.addWidget(newer)

    newer.take_over(view)
    model.set_items([answer("a")])
    newer.resize(700, 500)
    newer.show()

    assert len(texts(newer)) == 5


def test_a_view_that_takes_the_place_of_another_shows_the_same_place(
    view: ConversationView, model: MessageListModel, qtbot: QtBot
) -> None:
    model.set_items([answer(str(number), "A paragraph.\n\n" * 20) for number in range(30)])
    view.resize(700, 500)
    view.show()
    view.verticalScrollBar().setValue(view.verticalScrollBar().maximum() // 3)
    live(50)
    place = view.layout_of_items.anchor_at(view._top())
    newer = ConversationView(model, theme=LIGHT)
    qtbot.addWidget(newer)
    newer.take_over(view)
    newer.resize(700, 500)
    newer.show()
    live(50)
    shown = newer.layout_of_items.anchor_at(newer._top())
    assert place is not None
    assert shown is not None
    assert (shown.row, shown.segment) == (place.row, place.segment)
    assert not newer.following


def test_a_model_that_thinks_shows_its_newest_line(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a", "", state=ItemState.STREAMING)])
    model.append_text("a", "<think>\nOne line.\nAnother li")
    live(60)

    line = view.layout_of_items.items[0].reasoning
    assert line is not None
    assert (line.words, line.block.label) == ("Thinking…", "Another li")
    height = view.layout_of_items.items[0].height

    model.append_text("a", "ne.\n</think>\n\n")
    live(60)
    assert words(view) == "Thought for a moment"
    assert view.layout_of_items.items[0].height == height


def test_reasoning_that_never_ended_says_so_and_can_be_read(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a", "<think>\nOn and on", state=ItemState.CUT_LENGTH)])

    assert words(view) == "The reasoning was cut off"
    press(view, "thought")
    assert texts(view) == ["", "On and on"]


def test_copying_an_answer_leaves_the_reasoning_out(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a")])

    press(view, "copy")
    assert QGuiApplication.clipboard().text() == "The *answer*.\n\nIts end."
    menu = view.message_menu("a")
    next(entry for entry in menu.actions() if entry.text() == "Copy with the reasoning").trigger()
    menu.close()
    assert QGuiApplication.clipboard().text() == THOUGHT


@pytest.mark.parametrize("unfolded", [False, True])
def test_a_selection_over_messages_leaves_the_reasoning_out(
    view: ConversationView, model: MessageListModel, unfolded: bool
) -> None:
    model.set_items([ChatItem(id="q", role=Role.USER, text="Why?"), answer("a")])
    if unfolded:
        press(view, "thought", 1)

    view.select_all()

    assert view.selected_text() == "Why?\n\nThe *answer*.\n\nIts end."
    assert view.selected_text(plain=True) == "Why?\n\nThe answer.\n\nIts end."


def test_the_source_of_an_answer_can_be_shown(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a", "Some **words**.")])

    menu = view.message_menu("a")
    next(entry for entry in menu.actions() if entry.text() == "Show the source").trigger()
    menu.close()

    assert texts(view) == ["Some **words**."]


@pytest.mark.parametrize("folded", [False, True])
def test_any_pieces_of_a_text_give_the_same_blocks(folded: bool) -> None:
    whole = AnswerReader(folded=folded)
    whole.feed(THOUGHT)

    for size in (1, 2, 3, 7):
        pieces = AnswerReader(folded=folded)
        for at in range(0, len(THOUGHT), size):
            before = list(pieces.blocks)
            unchanged = pieces.feed(THOUGHT[at : at + size])
            assert pieces.blocks[:unchanged] == before[:unchanged]
        assert pieces.blocks == whole.blocks


def test_a_thought_that_is_unfolded_is_read_from_where_it_ended() -> None:
    reader = AnswerReader(folded=False)
    reader.feed("<think>\n")
    for number in range(100):
        assert reader.feed(f"Paragraph {number}.\n\n") >= number
    assert reader.blocks[0].kind is BlockKind.REASONING


def test_marks_that_the_answer_speaks_of_stay(view: ConversationView, model: MessageListModel) -> None:
    text = "Models write `<think>`:\n\n```\n<think>\nx\n</think>\n\n```"
    model.set_items([answer("a", text)])

    assert texts(view)[0] == "Models write <think>:"
    assert words(view) == ""
