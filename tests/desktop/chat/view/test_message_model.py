"""The list of messages: narrow changes, and no id twice."""

from __future__ import annotations

import pytest

from desktop.chat.view.message_model import ChatItem, ItemState, MessageListModel
from runtime.messages import Role


def item(id: str, text: str = "", **more: object) -> ChatItem:
    return ChatItem(id=id, role=Role.ASSISTANT, text=text, **more)  # type: ignore[arg-type]


@pytest.fixture
def model(qtmodeltester: object) -> MessageListModel:
    made = MessageListModel()
    made.set_items([item("a", "one"), item("b", "two"), item("c", "three")])
    qtmodeltester.check(made)  # type: ignore[attr-defined]
    return made


def test_growing_text_tells_only_what_was_added(model: MessageListModel) -> None:
    added: list[tuple[int, str]] = []
    changed: list[int] = []
    model.text_appended.connect(lambda row, text: added.append((row, text)))
    model.dataChanged.connect(lambda top, bottom: changed.append(top.row()))

    model.append_text("c", " four")

    assert added == [(2, " four")]
    assert changed == []
    assert model.item(2).text == "three four"


def test_an_update_that_changes_nothing_is_not_told(model: MessageListModel) -> None:
    changed: list[int] = []
    model.dataChanged.connect(lambda top, bottom: changed.append(top.row()))

    model.update("b", text="two")
    model.update("b", state=ItemState.STOPPED)

    assert changed == [1]
    assert model.item(1).state is ItemState.STOPPED


def test_removing_from_a_message_takes_all_that_follow(model: MessageListModel) -> None:
    model.remove_from("b")

    assert [each.id for each in model.items()] == ["a"]
    assert "c" not in model
    model.add(item("c"))  # the id is free again
    assert model.row_of("c") == 1


def test_an_id_appears_once(model: MessageListModel) -> None:
    with pytest.raises(ValueError, match="'a'"):
        model.add(item("a"))
    with pytest.raises(ValueError, match="twice"):
        model.set_items([item("x"), item("x")])
    with pytest.raises(KeyError):
        model.append_text("unknown", "text")


def test_a_message_is_named_by_its_author() -> None:
    assert ChatItem(id="1", role=Role.USER).author == "You"
    assert item("2", model_name="SmolLM2").author == "SmolLM2"
    assert item("3").author == "Model"
