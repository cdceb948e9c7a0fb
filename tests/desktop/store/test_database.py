"""Chats in SQLite: trees of messages, journaled answers, search, migrations, damage."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from desktop.store import search
from desktop.store.database import ChatDatabase, connect
from desktop.store.records import ChatRecord, MessageRecord, MessageState, Receipt
from desktop.store.schema import MIGRATIONS, NewerChats
from runtime.errors import ErrorInfo
from runtime.messages import Role


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "Ünï 模型 é🦙 'q\" %d"
    folder.mkdir()
    return folder / "chats.db"


def opened(path: Path | None = None) -> ChatDatabase:
    database = ChatDatabase(path)
    database.recover()
    return database


def chat(database: ChatDatabase, id: str = "chat", title: str = "Capitals", at: float = 1.0) -> None:
    database.create_chat(ChatRecord(id=id, title=title, created=at, updated=at))


def say(
    database: ChatDatabase, id: str, text: str, parent: str | None = None, *, chat_id: str = "chat",
    role: Role = Role.USER, state: MessageState = MessageState.DONE, at: float = 2.0,
) -> None:  # fmt: skip
    database.add_message(
        MessageRecord(id=id, chat_id=chat_id, parent_id=parent, role=role, content=text, created=at, state=state)
    )


def shown(database: ChatDatabase, chat_id: str = "chat") -> list[tuple[str, str, int, int]]:
    found = database.open_chat(chat_id)
    assert found is not None
    return [(message.id, message.content, message.version, message.versions) for message in found.messages]


def test_a_conversation_survives_closing_and_opening(path: Path) -> None:
    with closing(opened(path)) as database:
        chat(database)
        say(database, "q", "What is the capital of France? 模型 🦙")
        say(database, "a", "", "q", role=Role.ASSISTANT, state=MessageState.WRITING)
        database.append_answer("a", "Par")
        receipt = Receipt(reason="end", seed=42, usage={"generated_tokens": 2}, sampling={"temperature": 0.2})
        database.finish_answer("a", "Paris.", MessageState.DONE, at=3.0, receipt=receipt)
    with closing(opened(path)) as database:
        found = database.open_chat("chat")
    assert found is not None
    question, answer = found.messages
    assert (question.role, question.content) == (Role.USER, "What is the capital of France? 模型 🦙")
    assert (answer.content, answer.state, answer.receipt) == ("Paris.", MessageState.DONE, receipt)
    assert (found.chat.title, found.chat.updated) == ("Capitals", 3.0)


def test_another_answer_is_a_version_on_a_branch_of_its_own() -> None:
    database = opened()
    chat(database)
    say(database, "q", "Name a colour.")
    say(database, "a1", "Red.", "q", role=Role.ASSISTANT)
    say(database, "more", "Another.", "a1")
    say(database, "a2", "Blue.", "q", role=Role.ASSISTANT)
    assert shown(database) == [("q", "Name a colour.", 1, 1), ("a2", "Blue.", 2, 2)]
    database.choose_version("chat", "a2", -1)
    assert shown(database) == [("q", "Name a colour.", 1, 1), ("a1", "Red.", 1, 2), ("more", "Another.", 1, 1)]
    database.choose_version("chat", "a1", -1)
    assert [row[0] for row in shown(database)] == ["q", "a1", "more"], "there is nothing before the first"
    database.choose_version("chat", "a1", 5)
    assert [row[0] for row in shown(database)] == ["q", "a2"]


def test_the_first_question_can_have_versions_too() -> None:
    database = opened()
    chat(database)
    say(database, "q1", "Helo")
    say(database, "q2", "Hello")
    assert shown(database) == [("q2", "Hello", 2, 2)]


def test_removing_an_empty_answer_shows_what_was_there_before() -> None:
    database = opened()
    chat(database)
    say(database, "q", "Name a colour.")
    say(database, "a1", "Red.", "q", role=Role.ASSISTANT)
    say(database, "more", "Another.", "a1")
    say(database, "a2", "", "q", role=Role.ASSISTANT, state=MessageState.WRITING)
    database.remove_message("a2")
    assert [row[0] for row in shown(database)] == ["q", "a1", "more"]
    database.remove_message("a1")
    assert [row[0] for row in shown(database)] == ["q", "a1", "more"], "what others follow is not removed"
    database.remove_message("more")
    database.remove_message("a1")
    assert [row[0] for row in shown(database)] == ["q"]


def test_an_answer_that_was_being_written_is_recovered(path: Path) -> None:
    with closing(opened(path)) as database:
        chat(database)
        say(database, "q", "Tell me a story.")
        say(database, "a", "", "q", role=Role.ASSISTANT, state=MessageState.WRITING)
        for piece in ("Once ", "upon ", "a 时间"):
            database.append_answer("a", piece)
    with closing(opened(path)) as database:
        found = database.open_chat("chat")
        assert found is not None
        assert found.messages[-1].content == "Once upon a 时间"
        assert found.messages[-1].state is MessageState.INTERRUPTED
        assert database.search("upon a 时间"), "recovered text can be found"
    with closing(opened(path)) as database:
        assert shown(database)[-1][1] == "Once upon a 时间", "recovering twice doubles nothing"


def test_an_answer_that_was_being_continued_keeps_its_beginning(path: Path) -> None:
    with closing(opened(path)) as database:
        chat(database)
        say(database, "q", "Tell me a story.")
        say(database, "a", "Once upon", "q", role=Role.ASSISTANT, state=MessageState.STOPPED)
        database.resume_answer("a")
        database.append_answer("a", " a time")
    with closing(opened(path)) as database:
        assert shown(database)[-1][1] == "Once upon a time"


def test_an_answer_without_a_word_leaves_only_its_question(path: Path) -> None:
    with closing(opened(path)) as database:
        chat(database)
        say(database, "q", "Tell me a story.")
        say(database, "a", "", "q", role=Role.ASSISTANT, state=MessageState.WRITING)
    with closing(opened(path)) as database:
        assert [row[0] for row in shown(database)] == ["q"]


def test_the_list_shows_the_latest_first_with_the_last_words() -> None:
    database = opened()
    chat(database, "old", "Old", at=1.0)
    chat(database, "new", "New", at=2.0)
    say(database, "m", "line one\n\n  line two", chat_id="old", at=3.0)
    assert [(item.id, item.snippet) for item in database.list_chats()] == [("old", "line one line two"), ("new", "")]


def test_a_deleted_chat_can_be_restored_until_the_next_start(path: Path) -> None:
    with closing(opened(path)) as database:
        for id in ("kept", "restored", "deleted"):
            chat(database, id, id)
            say(database, f"m-{id}", f"secret of {id}", chat_id=id)
        database.delete_chat("restored", at=5.0)
        database.delete_chat("deleted", at=5.0)
        assert [item.id for item in database.list_chats()] == ["kept"]
        assert database.open_chat("deleted") is None
        assert [hit.chat_id for hit in database.search("secret")] == ["kept"]
        database.restore_chat("restored")
    with closing(opened(path)) as database:
        assert {item.id for item in database.list_chats()} == {"kept", "restored"}
        database.restore_chat("deleted")
        assert database.open_chat("deleted") is None
    with closing(connect(str(path))) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"secret of deleted" not in path.read_bytes(), "a deleted chat is gone from the file"
    assert b"secret of kept" in path.read_bytes()


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("capital", ["en"]),
        ("CAPITAL france", ["en"]),
        ("france capital", ["en"]),
        ("nowhere", []),
        ("巴黎", ["zh"]),
        ("法国的首都", ["zh"]),
        ("首 巴黎", ["zh"]),
        ("ÄRGER", ["de"]),
        ("är", ["de"]),
        ('say "hi"', ["odd"]),
        ("AND OR NOT", []),
        ("100%", ["odd"]),
        ("%", ["odd"]),
        ("   ", []),
        ("\0", []),
        ("\ud800", []),
    ],
)
def test_search_finds_every_word_in_any_case_and_script(indexed: bool, words: str, found: list[str]) -> None:
    database = opened()
    texts = {
        "en": "What is the capital of France?",
        "zh": "法国的首都是巴黎。",
        "de": "So ein Ärger",
        "odd": 'She did say "hi", 100% sure (or *not*)',
    }
    for id, text in texts.items():
        chat(database, id, "")
        say(database, f"m-{id}", text, chat_id=id)
    hits = search.search(database.connection, words, indexed=indexed)
    assert [hit.message_id for hit in hits] == [f"m-{id}" for id in found]


def test_titles_are_found_before_messages() -> None:
    database = opened()
    chat(database, "a", "巴黎 trip")
    chat(database, "b", "Other")
    say(database, "m", "a trip to the sea " * 20, chat_id="b")
    hits = database.search("trip")
    assert [(hit.chat_id, hit.message_id) for hit in hits] == [("a", None), ("b", "m")]
    assert hits[1].snippet.startswith("a trip to the sea")
    assert hits[1].snippet.endswith("…")


@pytest.mark.parametrize("before", ["four words stand before ", "在这个词之前还有很多别的字", "x" * 300])
def test_what_was_found_stands_early_enough_for_a_narrow_list(before: str) -> None:
    database = opened()
    chat(database, "a", "")
    say(database, "m", f"{before} heading and more", chat_id="a")
    snippet = database.search("heading")[0].snippet
    assert snippet.startswith("…")
    assert 0 < snippet.index("heading") <= 14


def test_the_index_follows_changes_and_removals() -> None:
    database = opened()
    chat(database)
    say(database, "a", "", role=Role.ASSISTANT, state=MessageState.WRITING)
    database.finish_answer("a", "hippopotamus", MessageState.DONE, at=1.0)
    assert database.search("hippo")
    database.finish_answer("a", "zebra", MessageState.DONE, at=1.0)
    assert not database.search("hippo")
    database.remove_message("a")
    assert not database.search("zebra")


def test_without_a_trigram_index_chats_work_and_it_comes_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(opened(path)) as database:
        chat(database)
        say(database, "a", "with the index")
    with monkeypatch.context() as patch:
        patch.setattr(search, "_has_trigram", lambda _connection: False)
        with closing(opened(path)) as database:
            say(database, "b", "without the index", "a")
            assert len(database.search("the index")) == 2
    with closing(opened(path)) as database:
        assert len(database.search("the index")) == 2


def test_a_search_hit_on_another_branch_can_be_shown() -> None:
    database = opened()
    chat(database)
    say(database, "q", "Question")
    say(database, "a1", "needle", "q", role=Role.ASSISTANT)
    say(database, "after", "after", "a1")
    say(database, "a2", "hay", "q", role=Role.ASSISTANT)
    found = database.open_chat("chat", reveal="a1")
    assert found is not None
    assert [message.id for message in found.messages] == ["q", "a1", "after"]


def test_text_with_nul_and_lone_surrogates_is_kept_as_well_as_utf8_can() -> None:
    database = opened()
    chat(database, title="a\ud800b")
    say(database, "m", "nul \0 lone \udfff end")
    assert shown(database)[0][1] == "nul \0 lone � end"
    assert database.list_chats()[0].title == "a�b"


# --- damage and versions -------------------------------------------------------------------------------------------


def test_damaged_values_cost_only_themselves() -> None:
    database = opened()
    for id in ("good", "bad"):
        chat(database, id, id)
        say(database, f"{id}-q", "question", chat_id=id)
        say(database, f"{id}-a", "answer", f"{id}-q", role=Role.ASSISTANT, chat_id=id)
    raw = database.connection
    raw.execute("UPDATE messages SET content = x'fffe80', role = 'wizard', state = 7, receipt = '{\"seed\":', "
                "error = '[]' WHERE id = 'bad-q'")  # fmt: skip
    raw.execute("UPDATE chats SET updated = 'yesterday', title = x'ff' WHERE id = 'bad'")
    assert {item.id for item in database.list_chats()} == {"good", "bad"}
    found = database.open_chat("bad")
    assert found is not None
    assert [message.id for message in found.messages] == ["bad-q", "bad-a"]
    assert found.messages[0].content == "���"
    assert database.search("answer")


def test_a_ring_of_parents_and_missing_parents_end_somewhere() -> None:
    database = opened()
    chat(database)
    say(database, "a", "a")
    say(database, "b", "b", "a")
    say(database, "c", "c", "gone")
    database.connection.execute("UPDATE messages SET parent_id = 'b' WHERE id = 'a'")
    assert [row[0] for row in shown(database)] == ["c"]
    database.connection.execute("UPDATE chats SET leaf = 'b'")
    assert sorted(row[0] for row in shown(database)) == ["a", "b"]
    database.choose_version("chat", "b", 1)


def test_a_damaged_page_costs_its_rows_and_not_the_rest(path: Path) -> None:
    with closing(opened(path)) as database:
        for number in range(60):
            chat(database, f"chat-{number}", f"title {number}")
            say(database, f"m-{number}", f"marker{number:03} " + "x" * 3000, chat_id=f"chat-{number}")
    with closing(connect(str(path))) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = raw.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray(path.read_bytes())
    at = data.index(b"marker030") // size * size
    data[at : at + 64] = b"\xff" * 64
    path.write_bytes(data)
    with closing(opened(path)) as database:
        assert len(database.list_chats()) >= 59
        chats = {number: database.open_chat(f"chat-{number}") for number in range(60)}
        readable = {number for number, found in chats.items() if found is not None and found.messages}
        assert len(readable) >= 50
        assert 30 not in readable
        assert database.search("marker031")
        assert database.search("31"), "a scan passes over what cannot be read"
        say(database, "new", "written after the damage", "m-1", chat_id="chat-1")
        assert shown(database, "chat-1")[-1][1] == "written after the damage"


def test_a_newer_file_is_refused_and_left_as_it_is(path: Path) -> None:
    with closing(opened(path)) as database:
        chat(database)
        database.connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    with pytest.raises(NewerChats, match="newer version"):
        ChatDatabase(path)
    assert path.read_bytes() == before


def test_a_pinned_message_stays_pinned_and_other_versions_are_not(path: Path) -> None:
    with closing(opened(path)) as database:
        chat(database)
        say(database, "q", "Remember this.")
        say(database, "a", "I will.", parent="q", role=Role.ASSISTANT)
        database.pin_messages(["q", "gone"], True)
    with closing(opened(path)) as database:
        found = database.open_chat("chat")
        assert found is not None
        assert [message.pinned for message in found.messages] == [True, False]
        database.pin_messages(["q"], False)
        found = database.open_chat("chat")
        assert found is not None
        assert not any(message.pinned for message in found.messages)


def test_a_migration_keeps_a_copy_of_the_file_as_it_was(path: Path) -> None:
    with closing(opened(path)) as database:
        chat(database)
        say(database, "m", "older than the change")
    newer = (*MIGRATIONS, "ALTER TABLE chats ADD COLUMN colour TEXT NOT NULL DEFAULT 'none'")
    with closing(ChatDatabase(path, migrations=newer)) as database:
        assert database.connection.execute("SELECT colour FROM chats").fetchone()[0] == "none"
        assert shown(database)[0][1] == "older than the change"
    backup = path.with_name(f"chats.db.backup-v{len(MIGRATIONS)}")
    with closing(opened(backup)) as database:
        assert shown(database)[0][1] == "older than the change"


def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    with closing(opened(path)) as database:
        chat(database)
    broken = (*MIGRATIONS, "ALTER TABLE chats ADD COLUMN colour TEXT; SELECT no_such_function()")
    with pytest.raises(sqlite3.OperationalError):
        ChatDatabase(path, migrations=broken)
    with closing(opened(path)) as database:
        columns = [row["name"] for row in database.connection.execute("PRAGMA table_info(chats)")]
        assert "colour" not in columns
        assert database.list_chats()


GOLDEN_V1 = """
    INSERT INTO chats (id, title, created, updated, system_prompt, draft, leaf)
        VALUES ('c', 'Golden', 1.5, 2.5, 'Be brief.', 'unsent', 'a');
    INSERT INTO messages (id, chat_id, parent_id, role, content, created, state, model, receipt, error)
        VALUES ('q', 'c', NULL, 'user', 'Why?', 1.5, 'done', '', NULL, NULL),
               ('a', 'c', 'q', 'assistant', 'Becau', 2.5, 'failed', 'SmolLM2',
                '{"reason":"end","seed":7}', '{"title":"The engine ended.","code":"engine_killed"}');
    PRAGMA user_version = 1;
"""


def test_a_file_of_the_first_released_format_opens_with_everything_in_it(path: Path) -> None:
    with closing(connect(str(path))) as raw:
        raw.executescript(FORMAT_V1 + GOLDEN_V1)
    with closing(opened(path)) as database:
        found = database.open_chat("c")
        assert database.search("because") == []
        assert [hit.message_id for hit in database.search("Becau")] == ["a"]
    assert found is not None
    assert found.chat == ChatRecord(
        id="c", title="Golden", created=1.5, updated=2.5, system_prompt="Be brief.", draft="unsent", leaf="a"
    )
    assert found.messages[1].error == ErrorInfo(title="The engine ended.", code="engine_killed")
    assert found.messages[1].receipt == Receipt(reason="end", seed=7)
    assert found.messages[1].state is MessageState.FAILED


# A copy by value: the format that was released must go on opening even if schema.py were changed by mistake.
FORMAT_V1 = """
    CREATE TABLE chats (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL, updated REAL NOT NULL, deleted REAL, system_prompt TEXT NOT NULL DEFAULT '',
        draft TEXT NOT NULL DEFAULT '', leaf TEXT);
    CREATE TABLE messages (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, chat_id TEXT NOT NULL, parent_id TEXT,
        role TEXT NOT NULL, content TEXT NOT NULL, created REAL NOT NULL, state TEXT NOT NULL,
        model TEXT NOT NULL DEFAULT '', receipt TEXT, error TEXT);
    CREATE INDEX messages_of_chat ON messages (chat_id);
    CREATE TABLE journal (seq INTEGER PRIMARY KEY, message_id TEXT NOT NULL, text TEXT NOT NULL);
    CREATE INDEX journal_of_message ON journal (message_id);
    CREATE INDEX chats_by_time ON chats (updated);
"""
