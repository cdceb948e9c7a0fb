"""What a screen reader finds in the conversation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QRect
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QAccessibleInterface
from pytestqt.qtbot import QtBot

from desktop.chat.view import accessible
from desktop.chat.view.conversation_view import ConversationView
from desktop.chat.view.message_model import ChatItem, ItemState, MessageListModel
from desktop.theme import LIGHT
from patient_qtbot import live
from runtime.errors import ErrorInfo
from runtime.messages import Role


@pytest.fixture
def reading() -> Iterator[None]:
    QAccessible.setActive(True)
    yield
    QAccessible.setActive(False)


@pytest.fixture
def model() -> MessageListModel:
    made = MessageListModel()
    made.set_items([
        ChatItem(id="1", role=Role.USER, text="What is the capital of France?"),
        ChatItem(id="2", role=Role.ASSISTANT, text="<think>\nFrance…\n</think>\n\nParis.", model_name="Tiny"),
    ])  # fmt: skip
    return made


@pytest.fixture
def view(model: MessageListModel, qtbot: QtBot) -> ConversationView:
    made = ConversationView(model, theme=LIGHT)
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.show()
    return made


def read(view: ConversationView) -> list[QAccessibleInterface]:
    conversation = QAccessible.queryAccessibleInterface(view)
    assert conversation.role() == QAccessible.Role.List
    found = [conversation.child(row) for row in range(conversation.childCount())]
    return [child for child in found if child.role() == QAccessible.Role.ListItem]


def names(view: ConversationView) -> list[str]:
    return [child.text(QAccessible.Text.Name) for child in read(view)]


@pytest.mark.usefixtures("reading")
def test_messages_are_items_with_their_speaker_and_text(view: ConversationView) -> None:
    assert names(view) == ["You: What is the capital of France?", "Tiny: Paris."]
    assert [child.text(QAccessible.Text.Value) for child in read(view)][1] == "Paris."
    assert [QAccessible.queryAccessibleInterface(view).indexOfChild(child) for child in read(view)] == [0, 1]
    assert all(child.parent().object() is view for child in read(view))


@pytest.mark.usefixtures("reading")
def test_items_follow_the_chat(view: ConversationView, model: MessageListModel) -> None:
    assert len(read(view)) == 2
    model.add(ChatItem(id="3", role=Role.USER, text="And of Spain?"))
    model.add(ChatItem(id="4", role=Role.ASSISTANT, text="", model_name="Tiny", error=ErrorInfo(title="It failed.")))
    assert names(view)[2:] == ["You: And of Spain?", "Tiny: "]
    assert read(view)[3].text(QAccessible.Text.Description) == "It failed."
    model.remove_from("2")
    assert names(view) == ["You: What is the capital of France?"]
    model.set_items([])
    assert names(view) == []


@pytest.mark.usefixtures("reading")
def test_an_item_is_where_its_message_is(view: ConversationView) -> None:
    first, second = read(view)
    window = QRect(view.mapToGlobal(QPoint(0, 0)), view.size())
    assert window.contains(first.rect())
    assert first.rect().bottom() <= second.rect().top() + 1
    assert not first.state().offscreen


@pytest.mark.usefixtures("reading")
def test_an_answer_is_announced_once_when_it_is_finished(
    view: ConversationView, model: MessageListModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def note(event: object) -> None:
        if isinstance(event, QAccessibleAnnouncementEvent):
            said.append(event.message())

    monkeypatch.setattr(accessible.QAccessible, "updateAccessibility", note)
    model.add(ChatItem(id="5", role=Role.ASSISTANT, state=ItemState.STREAMING, model_name="Tiny"))
    for word in ("Mad", "rid", "."):
        model.append_text("5", word)
        live(40)
    assert said == []
    model.update("5", state=ItemState.COMPLETE)
    model.update("5", seconds=1.0)
    assert said == ["Tiny: Madrid."]


def test_nothing_is_made_where_no_reader_asks(view: ConversationView, model: MessageListModel) -> None:
    model.add(ChatItem(id="6", role=Role.USER, text="Hello"))
    assert view._nodes == {}
