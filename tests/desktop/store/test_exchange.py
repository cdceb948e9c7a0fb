"""Chats as files: what is written comes back, and what is no chat is refused."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from desktop.store.database import ChatDatabase
from desktop.store.exchange import NotAChat, as_json, as_markdown, read_chats
from desktop.store.records import ChatRecord, Edit, MessageRecord, MessageState, OpenChat, now
from runtime.messages import Role


def message(id: str, parent: str | None, role: Role, text: str, **more: object) -> MessageRecord:
    return MessageRecord(id=id, chat_id="c", parent_id=parent, role=role, content=text, created=1.0, **more)  # type: ignore[arg-type]


BRANCHED = OpenChat(
    chat=ChatRecord(id="c", title="Sea & <b>sky</b>", created=1, updated=2, system_prompt="Be brief.", leaf="b",
                    pinned=True, folder="Work", settings={"temperature": 0.2}),
    messages=(
        message("q", None, Role.USER, "Why is the sky blue?"),
        message("a", "q", Role.ASSISTANT, "First answer", model="Tiny"),
        message("b", "q", Role.ASSISTANT, "Second `answer` <think>", model="Tiny", pinned=True),
    ),
)  # fmt: skip


def test_markdown_holds_the_branch_that_is_shown_word_for_word() -> None:
    text = as_markdown(BRANCHED)
    assert text == (
        "# Sea & <b>sky</b>\n\n## System prompt\n\nBe brief.\n\n## You\n\nWhy is the sky blue?\n\n"
        "## Tiny\n\nSecond `answer` <think>\n"
    )


def test_json_brings_every_branch_back_under_new_ids(tmp_path: Path) -> None:
    (again,) = read_chats(as_json([BRANCHED]), name="x.json")
    assert {item.id for item in again.messages}.isdisjoint({"q", "a", "b"})
    database = ChatDatabase(tmp_path / "chats.db")
    database.import_chat(again)
    found = database.open_chat(again.chat.id)
    whole = database.whole_chat(again.chat.id)
    database.close()
    assert found is not None
    assert whole is not None
    assert [item.content for item in found.messages] == ["Why is the sky blue?", "Second `answer` <think>"]
    assert [item.pinned for item in found.messages] == [False, True]
    assert len(whole.messages) == 3
    assert (found.chat.folder, found.chat.pinned, found.chat.settings) == ("Work", True, {"temperature": 0.2})
    assert found.chat.updated == 2


def test_an_edit_that_was_left_comes_along_with_its_message(tmp_path: Path) -> None:
    left = msgspec.structs.replace(BRANCHED.chat, draft="half", edit=Edit("q", "Why is it bl"))
    (again,) = read_chats(as_json([msgspec.structs.replace(BRANCHED, chat=left)]), name="x.json")
    database = ChatDatabase(tmp_path / "chats.db")
    database.import_chat(again)
    found = database.open_chat(again.chat.id)
    database.close()
    assert found is not None
    assert (found.chat.draft, found.chat.edit) == ("half", Edit(found.messages[0].id, "Why is it bl"))


def test_a_chat_imported_twice_is_there_twice(tmp_path: Path) -> None:
    database = ChatDatabase(tmp_path / "chats.db")
    for _time in range(2):
        for found in read_chats(as_json([BRANCHED]), name="x.json"):
            database.import_chat(found)
    listed = database.list_chats()
    database.close()
    assert [chat.title for chat in listed] == ["Sea & <b>sky</b>"] * 2


def test_an_answer_that_was_being_written_is_not_written_on() -> None:
    open_one = msgspec.structs.replace(BRANCHED, messages=(message("w", None, Role.ASSISTANT, "half",
                                                                   state=MessageState.WRITING),))  # fmt: skip
    (again,) = read_chats(as_json([open_one]), name="x.json")
    assert again.messages[0].state is MessageState.INTERRUPTED


@pytest.mark.parametrize("wrap", [lambda turns: turns, lambda turns: {"messages": turns, "title": "Other"}])
def test_a_list_of_messages_of_another_program_is_read(wrap: object) -> None:
    turns = [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"},
             {"role": "assistant", "content": "Hello", "extra": 1}]  # fmt: skip
    (found,) = read_chats(json.dumps(wrap(turns)).encode(), name="x.json")  # type: ignore[operator]
    assert found.chat.system_prompt == "S"
    assert [(item.role, item.content) for item in found.messages] == [(Role.USER, "Hi"), (Role.ASSISTANT, "Hello")]


@pytest.mark.parametrize("data", [
    b"", b"not json", b"{}", b"[]", b"[1, 2]", b'{"chats": [{"chat": 5}]}', b'[{"role": "user"}]', b"\xff\xfe",
    b'[{"role": "robot", "content": "x"}]', b"[" * 100_000,
])  # fmt: skip
def test_what_is_no_chat_is_refused_in_a_sentence(data: bytes) -> None:
    with pytest.raises(NotAChat):
        read_chats(data, name="x.json")


def test_times_that_cannot_have_been_become_now(tmp_path: Path) -> None:
    odd = msgspec.structs.replace(
        BRANCHED, chat=msgspec.structs.replace(BRANCHED.chat, created=-5.0, updated=1.7e12),
        messages=(message("q", None, Role.USER, "When?"), msgspec.structs.replace(BRANCHED.messages[1], created=1e300)),
    )  # fmt: skip
    before = now()
    (again,) = read_chats(as_json([odd]), name="x.json")
    times = (again.chat.created, again.chat.updated, again.messages[1].created)
    assert all(before <= each <= now() for each in times)
    assert again.messages[0].created == 1.0


def test_messages_of_one_id_are_all_taken(tmp_path: Path) -> None:
    twice = msgspec.structs.replace(
        BRANCHED, messages=(*BRANCHED.messages, message("a", "b", Role.USER, "I have another one's name"))
    )
    (again,) = read_chats(as_json([twice]), name="x.json")
    database = ChatDatabase(tmp_path / "chats.db")
    database.import_chat(again)
    whole = database.whole_chat(again.chat.id)
    database.close()
    assert whole is not None
    assert len({item.id for item in whole.messages}) == 4
    assert whole.messages[1].parent_id == whole.messages[0].id


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_json_is_read_as_editors_and_shells_write_it(encoding: str) -> None:
    turns = [{"role": "user", "content": "Größe 春"}]
    (found,) = read_chats(json.dumps(turns, ensure_ascii=False).encode(encoding), name="x.json")
    assert found.messages[0].content == "Größe 春"


def test_messages_in_a_circle_are_written_once() -> None:
    circle = msgspec.structs.replace(
        BRANCHED, messages=(message("a", "b", Role.USER, "one"), message("b", "a", Role.ASSISTANT, "two"))
    )
    assert as_markdown(circle).count("one") == 1
