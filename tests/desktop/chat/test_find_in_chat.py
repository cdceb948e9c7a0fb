"""Words are found in the whole chat, marked where they are seen, and gone to one by one."""

from __future__ import annotations

import time

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from desktop.chat.find_in_chat import FindInChat
from desktop.chat.view.conversation_view import ConversationView
from desktop.chat.view.finding import hits_in, pattern_of
from desktop.chat.view.message_model import ChatItem, MessageListModel
from desktop.theme import LIGHT
from markdown_blocks import parse
from patient_qtbot import live
from runtime.messages import Role


class Searched:
    """A view with a chat, and the bar over it."""

    def __init__(self, qtbot: QtBot) -> None:
        self.qtbot, self.model = qtbot, MessageListModel()
        self.view = ConversationView(self.model, theme=LIGHT)
        self.model.setParent(self.view)
        qtbot.addWidget(self.view)
        self.view.resize(700, 500)
        self.view.show()
        self.find = FindInChat(self.view, self.model)

    def fill(self, *texts: str) -> None:
        roles = (Role.USER, Role.ASSISTANT)
        self.model.set_items(
            ChatItem(id=str(number), role=roles[number % 2], text=text) for number, text in enumerate(texts)
        )

    def look_for(self, words: str) -> None:
        self.find.open()
        self.find.bar.field.setText(words)
        self.find._later.stop()
        self.find._search()
        self.qtbot.waitUntil(lambda: not self.find.finder.searching, timeout=20_000)

    def counted(self) -> str:
        return self.find.bar.count.text()

    def marked(self, row: int) -> list[tuple[int, int, int, bool]]:
        return [(block, mark.start, mark.end, mark.current)
                for block, marks in self.view.marks.of(row).items() for mark in marks]  # fmt: skip

    def press(self, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        QTest.keyClick(self.find.bar.field, key, modifier)

    def current_in_sight(self) -> bool:
        picture = self.view.viewport().grab().toImage()
        wanted = QColor(LIGHT.found_now)
        return any(picture.pixelColor(x, y) == wanted for x in range(0, picture.width(), 3)
                   for y in range(0, picture.height(), 3))  # fmt: skip


@pytest.fixture
def searched(qtbot: QtBot) -> Searched:
    return Searched(qtbot)


@pytest.mark.parametrize(
    ("words", "text", "found"),
    [
        ("paris", "In **Paris**, PARIS.", ["Paris", "PARIS"]),
        ("big city", "A *big*\ncity", ["big\ncity"]),
        ("巴黎", "😀 首都是巴黎。", ["巴黎"]),
        ("a.b", "a.b axb", ["a.b"]),
        ("c", "| a | b |\n|---|---|\n| c | d |", ["c"]),
        ("none", "nothing", []),
    ],
)
def test_what_is_shown_is_searched(words: str, text: str, found: list[str]) -> None:
    pattern = pattern_of(words)
    assert pattern is not None
    blocks = parse(text)
    units = [block.text.encode("utf-16-le") for block in blocks]

    hits = hits_in(blocks, pattern)

    assert [units[hit.block][2 * hit.start : 2 * hit.end].decode("utf-16-le") for hit in hits] == found


def test_all_hits_are_counted_and_marked_and_the_first_is_gone_to(searched: Searched) -> None:
    searched.fill("Where is Paris?", "*Paris* is in France.\n\nParis!", "Thanks")

    searched.look_for("paris")

    assert searched.counted() == "1 of 3"
    assert searched.marked(0) == [(0, 9, 14, True)]
    assert searched.marked(1) == [(0, 0, 5, False), (1, 0, 5, False)]
    assert searched.current_in_sight()


def test_next_and_previous_go_around_the_ends(searched: Searched) -> None:
    searched.fill("a word", "word and word")
    searched.look_for("word")

    seen = [searched.counted()]
    for _ in range(3):
        searched.press(Qt.Key.Key_Return)
        seen.append(searched.counted())
    searched.press(Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)

    assert seen == ["1 of 3", "2 of 3", "3 of 3", "1 of 3"]
    assert searched.counted() == "3 of 3"


def test_the_search_begins_where_the_reader_is(searched: Searched) -> None:
    searched.fill(*(f"word {number}\n\n" + "more text\n\n" * 20 for number in range(20)))
    QApplication.processEvents()  # the view is at the end

    searched.look_for("word")

    assert searched.find.finder.current is not None
    assert searched.find.finder.current.row >= 18


def test_every_hit_of_a_long_chat_is_brought_into_sight(searched: Searched) -> None:
    texts = [f"Message {number}.\n\n" + "Some words of it. " * 80 for number in range(40)]
    texts[3] += "\n\nneedle"
    texts[30] = "```py\n" + "line = 1\n" * 300 + "needle = 2\n```"
    texts[35] = "long\n\n" * 5000 + "needle"
    searched.fill(*texts)
    searched.look_for("needle")

    for _ in range(3):
        live(300)
        assert searched.current_in_sight(), searched.counted()
        searched.press(Qt.Key.Key_Return)
    assert searched.counted().endswith("of 3")


def test_a_hit_in_folded_reasoning_unfolds_it(searched: Searched) -> None:
    searched.fill("Why?", "<think>\nA needle first.\n</think>\n\nThen a needle.")
    searched.look_for("needle")
    QApplication.processEvents()

    assert searched.counted() == "1 of 2"
    assert searched.view.layout_of_items.items[1].thought_shown
    assert [mark[3] for mark in searched.marked(1)] == [True, False]


def test_hits_in_the_answer_leave_the_reasoning_folded(searched: Searched) -> None:
    searched.fill("needle?", "<think>\nA needle first.\n</think>\n\nThen a needle.")
    searched.look_for("needle")
    searched.press(Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)  # around to the last

    assert searched.counted() == "3 of 3"
    assert not searched.view.layout_of_items.items[1].thought_shown
    assert [mark[3] for mark in searched.marked(1)] == [True]


def test_text_that_arrives_is_searched_too(searched: Searched) -> None:
    searched.fill("word", "")
    searched.look_for("word")

    searched.model.append_text("1", "one word more")

    searched.qtbot.waitUntil(lambda: searched.counted() == "1 of 2", timeout=5_000)


def test_escape_closes_the_bar_and_takes_the_marks_away(searched: Searched) -> None:
    searched.fill("a word")
    searched.look_for("word")

    searched.press(Qt.Key.Key_Escape)

    assert searched.find.bar.isHidden()
    assert searched.marked(0) == []


def test_what_is_not_there_is_said(searched: Searched) -> None:
    searched.fill("a word")
    searched.look_for("nothing of it")

    assert searched.counted() == "Not found"
    assert not searched.find.bar.next.isEnabled()


def test_what_is_selected_is_looked_for(searched: Searched) -> None:
    searched.fill("word")
    searched.view.select_all()

    searched.find.open()

    assert searched.find.bar.field.text() == "word"


def test_a_long_chat_is_searched_in_small_steps(searched: Searched) -> None:
    text = "Some **words** with a needle.\n\n```py\nx = 1\n```\n\n- one\n- two\n\n" * 4
    searched.fill(*(text for _ in range(400)))
    steps: list[float] = []
    step = searched.find.finder._step

    def timed() -> None:
        started = time.thread_time()
        step()
        steps.append(time.thread_time() - started)

    searched.find.finder._timer.timeout.disconnect()
    searched.find.finder._timer.timeout.connect(timed)
    searched.look_for("needle")

    assert searched.counted().endswith("of 1,600")
    assert len(steps) > 5


def test_a_search_that_is_gone_hears_no_more_of_the_chat(qtbot: QtBot) -> None:
    model = MessageListModel()
    view = ConversationView(model, theme=LIGHT)
    view.show()
    find = FindInChat(view, model)
    find.open()
    find.bar.field.setText("mill")
    find._search()
    delete(view)
    model.add(ChatItem(id="new", role=Role.ASSISTANT, text="The mill"))
    model.append_text("new", " by the river")
    model.update("new", seconds=1.0)
    model.set_items([])
    assert find.finder.total == 0


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "closed"])
def test_a_view_in_place_of_another_marks_what_is_searched_for(searched: Searched, shown: bool) -> None:
    searched.fill("mill and mill", "mill")
    searched.look_for("mill")
    if not shown:
        searched.find.close()
    view = ConversationView(searched.model, theme=LIGHT)
    view.show()
    newer = FindInChat(view, searched.model)
    newer.take_over(searched.find)
    live(400)  # longer than one waits after a letter

    assert newer.bar.field.text() == "mill"
    assert newer.bar.isVisible() is shown
    assert (newer.finder.total, newer.finder.index) == ((3, 1) if shown else (0, 0))
    assert bool(view.marks.of(0)) is shown
    delete(view)
