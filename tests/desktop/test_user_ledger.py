"""What the ledger of a random user takes for lost, on a database of real chats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from desktop.store.database import ChatDatabase
from desktop.store.records import ChatRecord, MessageRecord
from runtime.messages import Role
from user_ledger import Ledger

TEXT = "n1 an old mill\n  s2"


@pytest.fixture
def chats(tmp_path: Path) -> Iterator[ChatDatabase]:
    made = ChatDatabase(tmp_path / "chats.db")
    made.create_chat(ChatRecord(id="c"))
    yield made
    made.close()


def store(chats: ChatDatabase, *texts: str) -> None:
    for text in texts:
        chats.add_message(
            MessageRecord(id=text, chat_id="c", parent_id=None, role=Role.USER, content=text, created=1.0)
        )


def sent(*texts: str) -> Ledger:
    ledger = Ledger()
    for text in texts:
        ledger.send(text, "c")
    return ledger


@pytest.mark.parametrize("grown", ["n1 an n3 very old mill\n  s2 s4", "q3.0n1 an old mill\n  sn4 2"])
def test_a_text_that_was_taken_back_may_be_typed_into_before_it_is_sent_again(
    chats: ChatDatabase, tmp_path: Path, grown: str
) -> None:
    ledger = sent(TEXT)
    ledger.give_back([TEXT])
    assert ledger.faults(tmp_path / "chats.db", [grown]) == []  # while it is being written
    store(chats, grown)
    ledger.send(grown, "c")
    assert ledger.faults(tmp_path / "chats.db") == []


def test_a_text_that_was_taken_back_is_lost_where_a_part_of_it_is_gone(chats: ChatDatabase, tmp_path: Path) -> None:
    ledger = sent(TEXT, "n1 an n3 mill\n  s2")
    ledger.give_back([TEXT])
    store(chats, "n1 an n3 mill\n  s2")
    assert [fault[:5] for fault in ledger.faults(tmp_path / "chats.db")] == ["lost:"]


def test_a_text_that_was_sent_and_never_came_back_has_to_be_there_as_it_was(
    chats: ChatDatabase, tmp_path: Path
) -> None:
    ledger = sent(TEXT, "n1 an n3 old mill\n  s2")
    store(chats, "n1 an n3 old mill\n  s2")
    assert [fault[:5] for fault in ledger.faults(tmp_path / "chats.db")] == ["lost:"]
