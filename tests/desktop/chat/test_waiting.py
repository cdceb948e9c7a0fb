"""Messages written while an answer runs wait where they can be seen, and are sent in order when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.chat.composer import Draft
from desktop.chat.composing import ComposingArea
from desktop.chat.view.message_model import ItemState
from desktop.main_window import Parts
from window_kit import window_parts

LONG = "A long answer of many words that takes its time to be written down here."


class Desk:
    """A composing area over a real session; the scripted engine takes its time."""

    def __init__(self, parts: Parts, qtbot: QtBot) -> None:
        self.parts, self.session, self.qtbot = parts, parts.session, qtbot
        self.area = ComposingArea(parts.session, parts.client, parts.items)
        qtbot.addWidget(self.area)
        self.area.show()
        parts.models.start()
        self.until(lambda: parts.client.info is not None)

    def until(self, reached: Callable[[], object]) -> None:
        self.qtbot.waitUntil(lambda: bool(reached()), timeout=20_000)

    def write(self, text: str) -> None:
        self.area.composer.set_draft(Draft(text))
        self.qtbot.keyClick(self.area.composer.edit, Qt.Key.Key_Return)

    def begin(self, text: str) -> None:
        self.write(text)
        self.until(lambda: self.parts.items.rowCount() > 1 and self.parts.items.items()[-1].text)

    def texts(self) -> list[str]:
        return [item.text for item in self.parts.items.items()]

    def waiting(self) -> tuple[str, ...]:
        return self.session.waiting.of(self.session.chat_id)

    def stored_draft(self) -> str:
        found: list[Any] = []
        self.session._leave()
        self.parts.store.load_chat(self.session.chat_id, found.append)
        self.until(lambda: found)
        return str(found[0].chat.draft)


Open = Callable[..., Desk]


@pytest.fixture
def desk(qapp: QApplication, qtbot: QtBot) -> Iterator[Open]:
    with ExitStack() as stack:
        yield lambda **script: Desk(stack.enter_context(window_parts(**script)), qtbot)


def test_messages_wait_visibly_and_are_sent_in_order(desk: Open) -> None:
    at = desk(reply=LONG, delay=0.03)
    at.begin("one")

    at.write("two")
    at.write("three")

    assert at.waiting() == ("two", "three")
    assert len(at.area.waiting_rows.rows) == 2
    assert at.area.composer.draft == Draft()
    at.until(lambda: len(at.texts()) == 6 and not at.session.busy)
    assert at.texts() == ["one", LONG, "two", LONG, "three", LONG]
    assert at.area.waiting_rows.isHidden()


def test_stopping_the_answer_sends_what_waits(desk: Open) -> None:
    at = desk(endless=True, delay=0.01)
    at.begin("one")
    at.write("two")

    at.session.stop()

    at.until(lambda: len(at.texts()) == 4 and at.texts()[-1])
    assert at.parts.items.item(1).state is ItemState.STOPPED
    assert at.texts()[2] == "two"
    at.session.stop()
    at.until(lambda: not at.session.busy)


def test_up_and_the_button_take_a_waiting_message_back(desk: Open) -> None:
    at = desk(endless=True, delay=0.01)
    at.begin("one")
    at.write("two")
    at.write("three")

    at.qtbot.keyClick(at.area.composer.edit, Qt.Key.Key_Up)

    assert at.area.composer.draft == Draft("three")
    assert at.waiting() == ("two",)
    at.area.waiting_rows.rows[0].edit.click()
    assert at.area.composer.draft == Draft("two\n\nthree")
    assert at.waiting() == ()
    at.session.stop()
    at.until(lambda: not at.session.busy)
    assert len(at.texts()) == 2


def test_a_waiting_message_can_be_dropped(desk: Open) -> None:
    at = desk(endless=True, delay=0.01)
    at.begin("one")
    at.write("two")

    at.area.waiting_rows.rows[0].remove.click()

    assert at.waiting() == ()
    assert at.area.composer.draft == Draft()
    at.session.stop()
    at.until(lambda: not at.session.busy)


def test_where_the_engine_dies_the_message_is_a_draft_again(desk: Open, tmp_path: Path) -> None:
    at = desk(reply=LONG, delay=0.05, crash_at=8, crash_once=str(tmp_path / "crashed"))
    at.begin("one")
    at.write("two")
    at.area.composer.set_draft(Draft("three"))

    at.until(lambda: not at.session.busy)

    assert at.parts.items.item(1).state is ItemState.FAILED
    assert at.area.composer.draft == Draft("two\n\nthree")
    assert at.waiting() == ()
    assert len(at.texts()) == 2


def test_what_waits_is_stored_until_it_is_sent(desk: Open) -> None:
    at = desk(reply=LONG, delay=0.03)
    at.begin("one")
    at.write("two")
    at.area.composer.set_draft(Draft("more"))

    assert at.stored_draft() == "two\n\nmore"
    at.until(lambda: len(at.texts()) == 4 and not at.session.busy)
    assert at.area.composer.draft == Draft("more")
    assert at.stored_draft() == "more"


def test_a_chat_that_is_left_goes_on_with_its_next_message(desk: Open) -> None:
    at = desk(reply=LONG, delay=0.03)
    at.begin("one")
    at.write("two")
    at.area.composer.set_draft(Draft("more"))
    first = at.session.chat_id

    at.session.new_chat()
    assert at.area.waiting_rows.isHidden()
    assert at.area.composer.draft == Draft()
    at.until(lambda: not at.session.waiting.of(first) and not at.session._answers)
    at.until(lambda: not at.session._answers)
    at.session.open(first)

    at.until(lambda: at.session.chat_id == first and len(at.texts()) == 4 and not at.session.busy)
    assert at.texts() == ["one", LONG, "two", LONG]
    at.until(lambda: at.area.composer.draft == Draft("more"))


def test_a_chat_opened_again_shows_what_waits_in_it(desk: Open) -> None:
    at = desk(endless=True, delay=0.01)
    at.begin("one")
    at.write("two")
    at.area.composer.set_draft(Draft("more"))
    first = at.session.chat_id
    at.session.new_chat()

    at.session.open(first)

    at.until(lambda: at.texts())
    assert len(at.area.waiting_rows.rows) == 1
    assert at.area.composer.draft == Draft("more")
    at.area.waiting_rows.rows[0].remove.click()
    at.session.stop()
    at.until(lambda: not at.session.busy)


def test_closing_sends_nothing(desk: Open) -> None:
    at = desk(endless=True, delay=0.01)
    at.begin("one")
    at.write("two")

    at.session.close()

    assert at.waiting() == ("two",)
    assert len(at.texts()) == 2
