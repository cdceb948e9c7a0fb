"""The chat in the window, with the real store in a file and a scripted engine in a real process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pytestqt.qtbot import QtBot

import scripted_engine
from desktop.chat.conversation import asked, item_of, ranges, title_from
from desktop.chat.session import ChatSession
from desktop.chat.view.message_model import ChatItem, ItemState, MessageListModel
from desktop.engine_client import EngineClient, EngineState
from desktop.store.chat_store import ChatStore
from desktop.store.database import ChatDatabase, connect
from desktop.store.records import MessageRecord, MessageState, OpenChat, Receipt
from runtime.messages import Message, Role
from runtime.params import LoadParams, SamplingParams
from runtime.places import places

REPLY = "The capital of France is Paris."
QUESTION = "What is the capital of France?"


class World:
    """A session with everything around it, and what the person sees."""

    def __init__(self, qtbot: QtBot, **script: Any) -> None:
        self.qtbot = qtbot
        self.script = script
        self.params = SamplingParams(temperature=0.5)
        self.store = ChatStore(places().chats_file)
        self.store.open()
        self.engine = EngineClient(
            places(),
            command=lambda: scripted_engine.command(**self.script),
            stop_seconds=script.pop("stop_seconds", 1.0),
            close_seconds=0.3,
        )
        self.engine.load("/models/tiny.gguf", LoadParams())
        self.items = MessageListModel()
        self.session = ChatSession(self.store, self.engine, self.items, sampling=lambda: self.params)
        self.problems: list[Any] = []
        self.session.problem.connect(self.problems.append)

    def rows(self) -> list[tuple[str, str]]:
        return [(item.text, item.state.value) for item in self.items.items()]

    def last(self) -> ChatItem:
        return self.items.items()[-1]

    def until(self, condition: Callable[[], object]) -> None:
        self.qtbot.waitUntil(lambda: bool(condition()), timeout=20_000)

    def until_idle(self) -> None:
        self.until(lambda: not self.session._answers and not self.session._loading)

    def ask(self, text: str = QUESTION) -> None:
        assert self.session.send(text)
        self.until_idle()

    def begin(self, text: str = QUESTION, words: int = 2) -> None:
        """Asks, and waits until some words of the answer are there."""
        assert self.session.send(text)
        self.until(lambda: len(self.last().text.split()) >= words)

    def stored(self, chat_id: str | None = None) -> OpenChat:
        found: list[OpenChat | None] = []
        self.store.load_chat(chat_id or self.session.chat_id, found.append)
        self.until(lambda: found)
        assert found[0] is not None
        return found[0]

    def open(self, chat_id: str) -> None:
        self.session.open(chat_id)
        self.until(lambda: not self.session._loading)

    def close(self) -> None:
        self.session.close()
        with self.qtbot.waitSignal(self.engine.closed, timeout=10_000):
            self.engine.shutdown()
        assert self.store.close()


Make = Callable[..., World]


@pytest.fixture
def world(qtbot: QtBot) -> Iterator[Make]:
    worlds: list[World] = []

    def make(**script: Any) -> World:
        worlds.append(World(qtbot, **script))
        return worlds[-1]

    yield make
    for made in worlds:
        made.close()


def on_disk(chat_id: str) -> list[MessageRecord]:
    with closing(ChatDatabase(places().chats_file)) as database:
        database.recover()
        found = database.open_chat(chat_id)
        return list(found.messages) if found is not None else []


# --- asking and answering ------------------------------------------------------------------------------------------


def test_a_question_is_answered_shown_and_stored(world: Make) -> None:
    chat = world()
    busy: list[bool] = []
    chat.session.busy_changed.connect(busy.append)
    chat.ask("  What is the capital\tof France?\nBe brief.  ")
    assert chat.rows() == [("  What is the capital\tof France?\nBe brief.  ", "complete"), (REPLY, "complete")]
    assert chat.last().model_name == "tiny"
    assert busy == [True, False]
    assert chat.session.title == "What is the capital of France?"
    question, answer = chat.stored().messages
    assert (answer.content, answer.state, answer.parent_id) == (REPLY, MessageState.DONE, question.id)
    assert answer.receipt is not None
    assert answer.receipt.seed == 42
    assert answer.receipt.sampling == {"temperature": 0.5}
    assert answer.receipt.model_path == "/models/tiny.gguf"


def test_the_model_is_asked_with_everything_said_before(world: Make, tmp_path: Path) -> None:
    log = tmp_path / "log"
    chat = world(reply="Yes.", log=str(log))
    chat.session.set_system_prompt("Be brief.")
    chat.ask("One?")
    chat.ask("Two?")
    assert log.read_text().splitlines()[-1] == (
        "generate system: Be brief. | user: One? | assistant: Yes. | user: Two?"
    )
    assert chat.stored().chat.system_prompt == "Be brief."


def test_while_an_answer_runs_a_second_message_is_refused_and_nothing_changes(world: Make) -> None:
    chat = world(endless=True, delay=0.005)
    chat.begin()
    answer = chat.last().id
    before = len(chat.items.items())
    assert not chat.session.send("again")
    assert not chat.session.regenerate(answer)
    assert not chat.session.edit_and_resend(chat.items.item(0).id, "other")
    assert not chat.session.continue_answer(answer)
    assert len(chat.items.items()) == before
    chat.session.stop()
    chat.until_idle()
    assert chat.session.send("again")
    chat.session.stop()


def test_blank_text_is_not_sent(world: Make) -> None:
    chat = world()
    assert not chat.session.send(" \n\t ")
    assert chat.rows() == []


def test_stop_keeps_the_text_and_marks_it(world: Make) -> None:
    chat = world(endless=True, delay=0.005)
    chat.begin(words=5)
    chat.session.stop()
    chat.until_idle()
    item = chat.last()
    assert item.state is ItemState.STOPPED
    assert item.text.startswith("The capital of France")
    record = chat.stored().messages[-1]
    assert (record.content, record.state) == (item.text, MessageState.STOPPED)
    chat.open(chat.session.chat_id)
    assert chat.last().text == item.text
    assert chat.last().state is ItemState.STOPPED


def test_stop_before_the_first_word_leaves_the_question_to_ask_again(world: Make) -> None:
    chat = world(delay=30.0, stop_seconds=0.2)
    assert chat.session.send(QUESTION)
    chat.until(lambda: chat.engine.state is EngineState.GENERATING)
    chat.session.stop()
    chat.until_idle()
    assert chat.rows() == [(QUESTION, "complete")]
    question = chat.items.item(0).id
    assert chat.session.unanswered == question
    assert [message.content for message in chat.stored().messages] == [QUESTION]
    chat.script = {}
    assert chat.session.regenerate(question)
    chat.until_idle()
    assert chat.rows() == [(QUESTION, "complete"), (REPLY, "complete")]
    assert chat.session.unanswered is None


def test_stop_while_the_model_loads_leaves_the_question(world: Make) -> None:
    chat = world(load_seconds=30.0)
    assert chat.session.send(QUESTION)
    chat.until(lambda: chat.engine.state is EngineState.LOADING)
    chat.session.stop()
    chat.until_idle()
    assert chat.rows() == [(QUESTION, "complete")]
    assert chat.session.unanswered is not None


# --- versions ------------------------------------------------------------------------------------------------------


def test_regenerating_makes_a_version_and_keeps_the_old_one(world: Make) -> None:
    chat = world()
    chat.ask()
    first = chat.last().id
    chat.script = {}
    assert chat.session.regenerate(first)
    chat.until_idle()
    second = chat.last()
    assert (second.version, second.versions) == (2, 2)
    chat.session.choose_version(second.id, -1)
    chat.until(lambda: chat.last().id == first)
    assert (chat.last().version, chat.last().versions) == (1, 2)
    chat.ask("And of Spain?")
    assert len(chat.rows()) == 4
    chat.session.choose_version(first, 1)
    chat.until(lambda: chat.last().id == second.id)
    assert len(chat.rows()) == 2


def test_stopping_a_new_version_before_its_first_word_shows_the_old_one(world: Make) -> None:
    chat = world()
    chat.ask()
    first = chat.last().id
    chat.engine.unload()
    chat.until(lambda: chat.engine.pid == 0)
    chat.script = {"load_seconds": 30.0}
    chat.engine.load("/models/slow.gguf", LoadParams())
    assert chat.session.regenerate(first)
    chat.session.stop()
    chat.until_idle()
    assert (chat.last().id, chat.last().text, chat.last().versions) == (first, REPLY, 1)


def test_an_edited_question_starts_a_branch_of_its_own(world: Make) -> None:
    chat = world(echo=True)
    chat.ask("first")
    chat.ask("second")
    question = chat.items.item(2)
    assert chat.session.edit_and_resend(question.id, "second, better")
    chat.until_idle()
    assert [item.text for item in chat.items.items()] == ["first", "first", "second, better", "second, better"]
    edited = chat.items.item(2)
    assert (edited.version, edited.versions) == (2, 2)
    chat.session.choose_version(edited.id, -1)
    chat.until(lambda: chat.items.item(2).text == "second")
    assert [item.text for item in chat.items.items()] == ["first", "first", "second", "second"]


def test_the_very_first_question_can_be_edited(world: Make) -> None:
    chat = world(echo=True)
    chat.ask("helo")
    assert chat.session.edit_and_resend(chat.items.item(0).id, "hello")
    chat.until_idle()
    assert [(item.text, item.versions) for item in chat.items.items()] == [("hello", 2), ("hello", 1)]


def test_a_cut_answer_goes_on_where_it_ended(world: Make, tmp_path: Path) -> None:
    log = tmp_path / "log"
    chat = world(endless=True, delay=0.005, log=str(log))
    chat.begin()
    chat.session.stop()
    chat.until_idle()
    beginning = chat.last().text
    assert chat.session.continue_answer(chat.last().id)
    assert chat.last().state is ItemState.STREAMING
    chat.until(lambda: len(chat.last().text) > len(beginning) + 20)
    chat.session.stop()
    chat.until_idle()
    assert chat.last().text.startswith(beginning + "The capital")
    assert chat.stored().messages[-1].content == chat.last().text
    assert len(chat.rows()) == 2
    assert log.read_text().splitlines()[-2].endswith(f"assistant: {beginning}")


def test_a_continued_answer_completes_the_character_it_was_cut_in(world: Make) -> None:
    chat = world(replaces=1)
    chat.ask()
    before = chat.last().text
    chat.session.continue_answer(chat.last().id)
    chat.until_idle()
    assert chat.last().text == before[:-1] + "The capital of France is Paris."
    assert chat.stored().messages[-1].content == chat.last().text


def test_only_the_last_answer_can_go_on(world: Make) -> None:
    chat = world()
    chat.ask()
    first = chat.last().id
    chat.ask("And of Spain?")
    assert not chat.session.continue_answer(first)
    assert not chat.session.continue_answer(chat.items.item(2).id)
    assert not chat.session.continue_answer("unknown")
    assert not chat.session.regenerate("unknown")


# --- trouble -------------------------------------------------------------------------------------------------------


def test_after_a_crash_the_text_stays_and_the_next_message_is_answered(world: Make, tmp_path: Path) -> None:
    chat = world(crash_at=3, crash_once=str(tmp_path / "crashed"))
    chat.ask()
    item = chat.last()
    assert (item.text, item.state) == ("The capital of", ItemState.FAILED)
    assert item.error is not None
    assert item.error.code == "engine_killed"
    assert chat.stored().messages[-1].error == item.error
    chat.ask("Once more?")
    assert chat.last().text == REPLY
    chat.open(chat.session.chat_id)
    assert chat.items.item(1).error == item.error


def test_a_refused_answer_says_why_and_can_be_asked_again(world: Make) -> None:
    chat = world(fail="The prompt is too long.")
    chat.ask()
    assert chat.last().state is ItemState.FAILED
    assert chat.last().error is not None
    assert chat.last().error.title == "The prompt is too long."
    assert chat.session.regenerate(chat.last().id)
    chat.until_idle()
    assert chat.last().versions == 2


def test_without_a_model_the_answer_says_what_to_do(world: Make) -> None:
    chat = world()
    chat.engine.unload()
    chat.ask()
    assert chat.last().error is not None
    assert chat.last().error.code == "no_model_chosen"


def test_a_deaf_engine_costs_the_engine_and_not_the_text(world: Make) -> None:
    chat = world(endless=True, deaf=True, delay=0.005, stop_seconds=0.2)
    chat.begin()
    chat.session.stop()
    chat.until_idle()
    assert chat.last().state is ItemState.STOPPED
    assert chat.last().text.startswith("The capital")


def test_what_streams_is_on_disk_before_the_answer_ends(world: Make) -> None:
    chat = world(endless=True, delay=0.005)
    chat.begin(words=10)
    seen = chat.last().text
    chat.stored()  # everything asked of the store before this is done
    with closing(connect(str(places().chats_file))) as reader:
        pieces = [row["text"] for row in reader.execute("SELECT text FROM journal ORDER BY seq")]
    assert "".join(pieces).startswith(seen)


def test_closing_while_an_answer_runs_keeps_what_is_there(world: Make) -> None:
    chat = world(endless=True, delay=0.005)
    chat.begin()
    text, id = chat.last().text, chat.session.chat_id
    chat.close()
    record = on_disk(id)[-1]
    assert record.content.startswith(text)
    assert record.state is MessageState.STOPPED


# --- several chats -------------------------------------------------------------------------------------------------


def test_an_answer_goes_on_in_its_own_chat_while_another_one_is_shown(world: Make) -> None:
    chat = world(echo=True, delay=0.01)
    long = " ".join(f"word{n}" for n in range(60))
    chat.begin(long)
    first = chat.session.chat_id
    chat.session.new_chat()
    assert chat.rows() == []
    assert not chat.session.busy
    assert chat.session.send("second chat")
    second = chat.session.chat_id
    chat.until_idle()
    assert chat.rows() == [("second chat", "complete")] * 2
    assert [message.content for message in chat.stored(first).messages] == [long, long]
    assert [message.content for message in chat.stored(second).messages] == ["second chat"] * 2


def test_coming_back_shows_all_that_was_written_meanwhile(world: Make) -> None:
    chat = world(endless=True, delay=0.005)
    chat.begin()
    first, answer = chat.session.chat_id, chat.last().id
    chat.session.new_chat()
    chat.open(first)
    assert chat.last().state is ItemState.STREAMING
    assert chat.session.busy
    seen = chat.last().text
    chat.until(lambda: len(chat.last().text) > len(seen))
    chat.session.stop()
    chat.until_idle()
    assert chat.stored().messages[-1].content == chat.last().text
    assert chat.last().id == answer


def test_an_answer_that_ends_while_its_chat_is_read_is_shown_whole(world: Make) -> None:
    chat = world(endless=True, delay=0.005)
    chat.begin()
    id = chat.session.chat_id
    read_before_the_end = chat.stored()
    assert read_before_the_end.messages[-1].state is MessageState.WRITING
    chat.session.stop()
    chat.until_idle()
    whole = chat.last().text
    chat.session.new_chat()
    chat.session._when_opened()(read_before_the_end)
    chat.until_idle()
    assert chat.session.chat_id == id
    assert (chat.last().text, chat.last().state) == (whole, ItemState.STOPPED)


def test_only_the_chat_chosen_last_is_shown(world: Make) -> None:
    chat = world(echo=True)
    chat.ask("first")
    first = chat.session.chat_id
    chat.session.new_chat()
    chat.ask("second")
    second = chat.session.chat_id
    shown: list[str] = []
    chat.session.chat_changed.connect(shown.append)
    for id in (first, second, first, second, first):
        chat.session.open(id)
    assert not chat.session.send("into which one?"), "nothing is sent while a chat is being read"
    chat.until(lambda: not chat.session._loading)
    assert shown == [first]
    assert chat.session.chat_id == first
    assert chat.rows()[0] == ("first", "complete")
    chat.session.open(second)
    chat.session.new_chat()
    chat.stored(first)
    assert chat.rows() == [], "a chat that was read too late is not shown"


def test_deleting_a_chat_stops_its_answer_and_shows_a_new_one(world: Make) -> None:
    chat = world(endless=True, delay=0.005)
    chat.begin()
    id = chat.session.chat_id
    chat.session.delete_chat(id)
    assert chat.rows() == []
    chat.until_idle()
    chat.session.open(id)
    chat.until(lambda: chat.problems)
    assert chat.problems[0].code == "chat_gone"
    chat.store.restore_chat(id)
    chat.open(id)
    assert chat.last().state is ItemState.STOPPED


def test_what_is_typed_while_its_chat_is_read_again_is_kept(world: Make) -> None:
    chat = world()
    chat.ask()
    chat.session.regenerate(chat.last().id)
    chat.until_idle()
    drafts: list[str] = []
    chat.session.draft_changed.connect(drafts.append)
    chat.session.set_draft("half a thou")
    chat.session.choose_version(chat.last().id, -1)
    chat.until_idle()
    chat.session.choose_version(chat.last().id, 1)
    chat.session.set_draft("half a thought")
    chat.until_idle()
    assert drafts == ["half a thou", "half a thought"]
    chat.until(lambda: chat.stored().chat.draft == "half a thought")


def test_what_is_typed_while_its_chat_is_read_again_is_kept_when_another_is_opened(world: Make) -> None:
    chat = world()
    chat.ask()
    chat.session.regenerate(chat.last().id)
    chat.until_idle()
    first = chat.session.chat_id
    chat.session.choose_version(chat.last().id, -1)
    chat.session.set_draft("half a thought")
    chat.session.new_chat()
    assert chat.stored(first).chat.draft == "half a thought"


@pytest.mark.parametrize("stored", [True, False])
def test_what_is_typed_while_another_chat_is_opened_stays_where_it_was_typed(world: Make, stored: bool) -> None:
    chat = world()
    chat.ask()
    other = chat.session.chat_id
    chat.session.new_chat()
    if stored:
        chat.ask()
    left = chat.session.chat_id
    chat.session.open(other)
    chat.session.set_draft("half a thought")  # the field is still that of the chat that is left
    chat.until_idle()
    assert (chat.session.chat_id, chat.stored(other).chat.draft) == (other, "")
    assert chat.stored(left).chat.draft == "half a thought"


def test_a_draft_comes_back_with_its_chat(world: Make) -> None:
    chat = world()
    drafts: list[str] = []
    chat.session.draft_changed.connect(drafts.append)
    chat.session.set_draft("half a thou")
    id = chat.session.chat_id
    chat.session.new_chat()
    chat.open(id)
    assert drafts == ["", "half a thou"]
    chat.ask("half a thought")
    assert chat.stored().chat.draft == ""


def test_a_new_chat_without_a_word_is_not_stored(world: Make) -> None:
    chat = world()
    for _n in range(3):
        chat.session.new_chat()
    chat.session.set_system_prompt("Be brief.")
    listed: list[Any] = []
    chat.store.list_chats(listed.append)
    chat.until(lambda: listed)
    assert listed == [[]]


def test_a_name_given_by_hand_stays(world: Make) -> None:
    chat = world()
    chat.session.rename_chat(chat.session.chat_id, " My   chat ")
    chat.ask()
    assert chat.session.title == "My chat"
    assert chat.stored().chat.title == "My chat"


def test_text_that_utf8_cannot_hold_is_still_answered(world: Make) -> None:
    chat = world(echo=True)
    chat.ask("nul \0 lone \ud800 é🦙 模型 <script>")
    assert chat.last().text == "nul \0 lone � é🦙 模型 <script>"


# --- anything in any order -----------------------------------------------------------------------------------------


def act(chat: World, choose: random.Random, chats: list[str], number: int) -> None:
    """Does one of the things a hasty person does."""
    session, ids = chat.session, [item.id for item in chat.items.items()] or ["nothing"]
    match choose.randrange(12):
        case 0 | 1 | 2:
            session.send(f"{session.chat_id} says {number} and five words more")
        case 3:
            session.stop()
        case 4:
            session.new_chat()
        case 5 if chats:
            session.open(choose.choice(chats))
        case 6:
            session.regenerate(choose.choice(ids))
        case 7:
            session.edit_and_resend(choose.choice(ids), f"{session.chat_id} edits")
        case 8:
            session.continue_answer(ids[-1])
        case 9:
            session.choose_version(choose.choice(ids), choose.choice((-1, 1)))
        case 10:
            session.set_draft(f"draft {number}")
        case 11 if choose.random() < 0.3:
            chat.engine.load("/models/other.gguf", LoadParams())


@pytest.mark.parametrize("seed", [1, 2])
def test_random_actions_leave_every_answer_in_its_own_chat(
    world: Make, qtbot: QtBot, tmp_path: Path, seed: int
) -> None:
    chat = world(echo=True, delay=0.001, crash_at=7, crash_once=str(tmp_path / "crashed"), stop_seconds=0.3)
    choose = random.Random(seed)
    chats: list[str] = []
    for number in range(200):
        act(chat, choose, chats, number)
        if chat.session.chat_id not in chats and chat.items.items():
            chats.append(chat.session.chat_id)
        qtbot.wait(choose.choice((0, 0, 1, 5, 20)))
    chat.until_idle()
    assert len(chats) > 3
    for id in chats:
        for message in chat.stored(id).messages:
            assert message.content == "" or message.content.startswith(id), "no answer lands in another chat"
            assert message.state is not MessageState.WRITING
    chat.session.new_chat()
    chat.script = {"echo": True}
    chat.ask("still alive?")
    assert chat.last().text == "still alive?"


# --- pure parts ----------------------------------------------------------------------------------------------------


def record(role: Role, text: str) -> MessageRecord:
    return MessageRecord(id=text, chat_id="c", parent_id=None, role=role, content=text, created=0.0)


def test_questions_without_an_answer_become_one_turn() -> None:
    branch = [record(Role.USER, "a"), record(Role.ASSISTANT, ""), record(Role.USER, "b"), record(Role.ASSISTANT, "c")]
    found = asked("  ", branch)
    assert found.messages == (Message(Role.USER, "a\n\nb"), Message(Role.ASSISTANT, "c"))
    assert found.sources == ((0, 2), (3,))


def test_what_is_asked_is_known_by_its_places_in_the_branch() -> None:
    branch = [record(Role.USER, "a"), msgspec.structs.replace(record(Role.ASSISTANT, "b"), pinned=True)]
    found = asked("Be brief.", branch)
    assert found.pinned == (2,)
    assert found.places((0, 1, 2)) == (0, 1)
    assert ranges([7, 2, 3, 4, 9]) == ((2, 5), (7, 8), (9, 10))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("\n\n  two   words \nmore", "two words"),
        ("word " * 30, "word word word word word word word word word word word…"),
        ("长" * 100, "长" * 59 + "…"),
        ("<b>x</b>", "<b>x</b>"),
        (" \n ", ""),
    ],
)
def test_a_title_is_the_first_line(text: str, title: str) -> None:
    assert title_from(text) == title
    assert len(title_from(text)) <= 60


def test_usage_is_shown_as_people_read_it() -> None:
    def shown(receipt: Receipt | None) -> tuple[str, ...]:
        return item_of(
            MessageRecord(id="a", chat_id="c", parent_id=None, role=Role.ASSISTANT, content="Yes.", created=0.0,
                          receipt=receipt)
        ).usage  # fmt: skip

    usage = {"generated_tokens": 43, "generation_seconds": 1.0, "prompt_seconds": 0.5}
    assert shown(Receipt(usage=usage)) == ("42 tok/s", "1.5 s")
    fast = {"generated_tokens": 1235, "generation_seconds": 1.0}
    assert shown(Receipt(usage=fast)) == ("1,234 tok/s", "1.0 s")
    assert shown(Receipt(usage={"generated_tokens": "many"})) == ()
    assert shown(None) == ()
