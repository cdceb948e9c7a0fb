"""Receipts: what is told of an answer, copied, and what making it again found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from desktop.chat.answer_card import AnswerCard
from desktop.chat.answer_facts import as_text, comparison, rows_of
from desktop.store.chat_store import ChatStore
from desktop.store.records import ChatRecord, MessageRecord, Receipt, now
from runtime import receipt as made
from runtime.errors import ErrorInfo
from runtime.messages import Role
from runtime.protocol import Difference, Replayed
from window_kit import window_parts

_RECEIPT = Receipt(
    reason="end", seed=7, engine="llama", build="b1", model_path="/models/Tiny.gguf", dropped=2,
    sampling={"temperature": 0.2, "of_another_version": 1},
    usage={"prompt_tokens": 100, "cached_tokens": 90, "generated_tokens": 20, "generation_seconds": 2.0},
)  # fmt: skip


def answer(id: str, receipt: Receipt | None = _RECEIPT) -> MessageRecord:
    return MessageRecord(
        id=id, chat_id="c", parent_id=None, role=Role.ASSISTANT, content=f"Answer {id}", created=now(), model="Tiny",
        receipt=receipt,
    )  # fmt: skip


def replayable() -> made.Receipt:
    empty = made.Schedule()
    return made.Receipt(
        engine="llama", build="b1", seed=7, prompt=empty, answer=empty, ids=(1,), text="x", reason="end"
    )


@pytest.fixture
def card(tmp_path: Path, qtbot: QtBot) -> Iterator[AnswerCard]:
    with window_parts() as parts:
        parts.store.create_chat(ChatRecord(id="c"))
        for id in ("one", "two"):
            parts.store.add_message(answer(id))
        parts.store.keep_receipt("two", replayable())
        window = QWidget()
        qtbot.addWidget(window)
        shown = AnswerCard([answer("one"), answer("two")], parts.store, parts.client, window)
        shown.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
        qtbot.addWidget(shown)
        yield shown


def test_an_answer_is_told_with_model_seed_settings_and_cost() -> None:
    rows = dict(rows_of(answer("x")))
    assert (rows["Model"], rows["File"], rows["Engine"], rows["Seed"]) == ("Tiny", "Tiny.gguf", "llama b1", "7")
    assert rows["Settings"] == "Temperature: 0.2"
    assert rows["Prompt"] == "100 tokens, 90 of them known from before"
    assert rows["Answer"] == "20 tokens at 10 per second"
    assert "2 messages" in rows["Left out"]
    assert "Seed: 7" in as_text(rows_of(answer("x")))


def test_an_answer_without_a_receipt_tells_nothing() -> None:
    assert rows_of(answer("x", receipt=None)) == []


def test_equal_and_different_are_said() -> None:
    assert comparison(Replayed(id=1, text="x", tokens=20)) == ("The same 20 tokens came out.", "good")
    there = Difference(tokens=3, character=9, expected=" Paris", found=" Lyon")
    words, tone = comparison(Replayed(id=1, text="x", tokens=9, difference=there))
    assert tone == "caution"
    assert "3 equal tokens" in words
    assert "Lyon" in words


def test_only_an_answer_that_was_kept_can_be_made_again(card: AnswerCard, qtbot: QtBot) -> None:
    qtbot.waitUntil(card.again.isEnabled)
    card.step(-1)
    qtbot.waitUntil(lambda: "not kept" in card.result.text())
    assert not card.again.isEnabled()
    assert not card.before.isEnabled()


def test_copy_takes_the_rows(card: AnswerCard) -> None:
    card.copy.click()
    assert "Seed: 7" in QApplication.clipboard().text()
    assert card.result.text() == "Copied."


def test_a_refusal_offers_to_compare_all_the_same(card: AnswerCard, qtbot: QtBot) -> None:
    qtbot.waitUntil(card.again.isEnabled)
    card._replay = 5
    card._take_failure(5, ErrorInfo(title="No.", code="replay_refused"))
    assert card.again.text() == "Compare all the same"
    assert card.again.isEnabled()


def test_a_receipt_goes_with_its_message(tmp_path: Path, qtbot: QtBot) -> None:
    store = ChatStore(tmp_path / "chats.db")
    store.open()
    store.create_chat(ChatRecord(id="c"))
    store.add_message(answer("a"))
    store.keep_receipt("a", replayable())
    store.remove_message("a")
    found: list[bytes | None] = []
    store.load_receipt("a", found.append)
    qtbot.waitUntil(lambda: bool(found))
    store.close()
    assert found == [None]
