"""The list of chats over the real store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPixmap
from PySide6.QtWidgets import QApplication, QLineEdit
from pytestqt.qtbot import QtBot

from desktop.chat.chat_list import ListRow, RowRole, rows_by_day
from desktop.chat.sidebar import RowDelegate, Sidebar
from desktop.look import dress
from desktop.store.chat_store import ChatStore
from desktop.store.records import ChatRecord, ChatSummary, MessageRecord, now
from desktop.theme import LIGHT
from runtime.messages import Role
from runtime.places import places


@pytest.fixture
def store() -> Iterator[ChatStore]:
    made = ChatStore(places().chats_file)
    made.open()
    for number, title in enumerate(("Millers of old", "Capital of France")):
        made.create_chat(ChatRecord(id=f"c{number}", title=title, created=now(), updated=now()))
        made.add_message(
            MessageRecord(
                id=f"m{number}", chat_id=f"c{number}", parent_id=None, role=Role.USER,
                content=f"About {title}: granite stones", created=now() + number,
            )
        )
    yield made
    made.close()


@pytest.fixture
def sidebar(qapp: QApplication, qtbot: QtBot, store: ChatStore) -> Sidebar:
    dress(qapp, LIGHT)
    made = Sidebar(store)
    made.delete_requested.connect(store.delete_chat)
    qtbot.addWidget(made)
    made.resize(264, 600)
    made.show()
    qtbot.waitUntil(lambda: len(chats(made)) == 2)
    return made


def rows(sidebar: Sidebar) -> list[ListRow]:
    return [sidebar.model.index(row).data(RowRole) for row in range(sidebar.model.rowCount())]


def chats(sidebar: Sidebar) -> list[str]:
    return [row.title for row in rows(sidebar) if not row.is_heading]


def index_of(sidebar: Sidebar, chat_id: str) -> QModelIndex:
    return sidebar.model.index_of(chat_id)


def test_chats_are_grouped_by_day() -> None:
    noon = dt.datetime(2026, 3, 10, 12)
    days = (0, 0, 1, 3, 40)
    listed = [
        ChatSummary(id=str(n), title=f"t{n}", updated=(noon - dt.timedelta(days=day)).timestamp(), snippet="")
        for n, day in enumerate(days)
    ]
    found = [(row.is_heading, row.title) for row in rows_by_day(listed, today=noon.date())]
    assert found == [
        (True, "Today"), (False, "t0"), (False, "t1"), (True, "Yesterday"), (False, "t2"),
        (True, "Last seven days"), (False, "t3"), (True, "Earlier"), (False, "t4"),
    ]  # fmt: skip


def test_titles_are_shown_on_one_line_and_unnamed_chats_have_a_name() -> None:
    listed = [ChatSummary(id="a", title="<b>two\nlines</b>\u202e", updated=0, snippet=""),
              ChatSummary(id="b", title="", updated=0, snippet="")]  # fmt: skip
    assert [row.title for row in rows_by_day(listed)[1:]] == ["<b>two lines</b>", "New chat"]


def test_click_opens_a_chat(sidebar: Sidebar, qtbot: QtBot) -> None:
    place = sidebar.list.visualRect(index_of(sidebar, "c0")).center()
    with qtbot.waitSignal(sidebar.chat_chosen) as chosen:
        qtbot.mouseClick(sidebar.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert chosen.args == ["c0", None]


def test_search_finds_text_of_messages_and_opens_there(sidebar: Sidebar, qtbot: QtBot) -> None:
    sidebar.search.setText("granite millers")
    qtbot.waitUntil(lambda: [row.chat_id for row in rows(sidebar)] == ["c0"])
    with qtbot.waitSignal(sidebar.chat_chosen) as chosen:
        sidebar.list.opened.emit(sidebar.model.index(0))
    assert chosen.args == ["c0", "m0"]
    sidebar.search.clear()
    qtbot.waitUntil(lambda: len(chats(sidebar)) == 2)


def test_search_without_a_find_says_so(sidebar: Sidebar, qtbot: QtBot) -> None:
    sidebar.search.setText("zebra")
    qtbot.waitUntil(lambda: sidebar._nothing.isVisible())
    assert "zebra" in sidebar._nothing.text()


def test_f2_renames_in_place(sidebar: Sidebar, qtbot: QtBot) -> None:
    sidebar.list.setCurrentIndex(index_of(sidebar, "c0"))
    sidebar.list.setFocus()
    qtbot.keyClick(sidebar.list, Qt.Key.Key_F2)
    editor = sidebar.list.viewport().findChild(QLineEdit)
    editor.setText("Mills")
    with qtbot.waitSignal(sidebar.rename_requested) as asked:
        qtbot.keyClick(editor, Qt.Key.Key_Return)
    assert asked.args == ["c0", "Mills"]


def test_deleted_chat_can_be_brought_back(sidebar: Sidebar, qtbot: QtBot) -> None:
    sidebar.list.setCurrentIndex(index_of(sidebar, "c0"))
    qtbot.keyClick(sidebar.list, Qt.Key.Key_Delete)
    qtbot.waitUntil(lambda: chats(sidebar) == ["Capital of France"])
    assert sidebar.undo_bar.isVisible()
    sidebar.undo_bar.button.click()
    qtbot.waitUntil(lambda: len(chats(sidebar)) == 2)
    assert not sidebar.undo_bar.isVisible()


def test_chats_that_were_deleted_one_after_another_come_back_one_after_another(sidebar: Sidebar, qtbot: QtBot) -> None:
    for chat in ("c0", "c1"):
        sidebar.delete(index_of(sidebar, chat))
    qtbot.waitUntil(lambda: chats(sidebar) == [])
    sidebar.undo_bar.button.click()
    qtbot.waitUntil(lambda: chats(sidebar) == ["Capital of France"])
    assert sidebar.undo_bar.isVisible()
    sidebar.undo_bar.button.click()
    sidebar.undo_bar.button.click()  # there is nothing else
    qtbot.waitUntil(lambda: len(chats(sidebar)) == 2)
    assert not sidebar.undo_bar.isVisible()


def test_what_is_chosen_in_a_menu_is_done_with_its_chat_though_the_list_changes(
    sidebar: Sidebar, store: ChatStore, qtbot: QtBot
) -> None:
    entries = {action.text(): action for action in sidebar.menu_for(index_of(sidebar, "c1")).actions()}
    store.create_chat(ChatRecord(id="c2", title="A new one", created=now(), updated=now() + 60))
    qtbot.waitUntil(lambda: len(chats(sidebar)) == 3)
    entries["Rename"].trigger()
    assert sidebar.list.viewport().findChild(QLineEdit).text() == "Capital of France"
    qtbot.keyClick(sidebar.list.viewport().findChild(QLineEdit), Qt.Key.Key_Escape)
    entries["Delete"].trigger()

    qtbot.waitUntil(lambda: chats(sidebar) == ["A new one", "Millers of old"])


def test_a_chat_that_a_search_found_is_unpinned_and_filed_as_in_the_list(
    sidebar: Sidebar, store: ChatStore, qtbot: QtBot
) -> None:
    store.pin_chat("c0", True)
    store.move_chat("c0", "Stones")
    store.move_chat("c1", "Travel")
    qtbot.waitUntil(lambda: sidebar.model.row(index_of(sidebar, "c0")).pinned)
    sidebar.search.setText("Millers")
    qtbot.waitUntil(lambda: {row.chat_id for row in rows(sidebar)} == {"c0"})
    entries = {action.text(): action for action in sidebar.menu_for(index_of(sidebar, "c0")).actions()}
    folders = [(entry.text(), entry.isChecked()) for entry in entries["Folder"].menu().actions()]
    assert folders == [("Stones", True), ("Travel", False), ("No folder", False), ("New folder…", False)]
    entries["Unpin"].trigger()
    qtbot.waitUntil(lambda: not sidebar._chats["c0"].pinned)


def test_open_chat_is_marked_and_headings_cannot_be_chosen(sidebar: Sidebar) -> None:
    sidebar.set_current("c0")
    assert sidebar.list.currentIndex() == index_of(sidebar, "c0")
    assert sidebar.model.flags(sidebar.model.index(0)) == Qt.ItemFlag.NoItemFlags
    sidebar.set_current("")
    assert not sidebar.list.currentIndex().isValid()


def test_menu_offers_renaming_and_deleting(sidebar: Sidebar) -> None:
    menu = sidebar.menu_for(index_of(sidebar, "c1"))
    words = [action.text() for action in menu.actions()]
    assert (words[0], words[-1]) == ("Rename", "Delete")
    assert {"Pin", "Folder", "Export as Markdown…", "Export as JSON…"} <= set(words)
    menu.actions()[-1].trigger()
    assert sidebar.undo_bar.isVisible()


def test_pinned_chats_come_first_and_folders_before_the_days() -> None:
    at = dt.datetime(2026, 3, 4, 12).timestamp()
    chats = [
        ChatSummary(id="1", title="plain", updated=at, snippet=""),
        ChatSummary(id="2", title="work b", updated=at - 1, snippet="", folder="Work"),
        ChatSummary(id="3", title="pinned", updated=at - 2, snippet="", folder="Work", pinned=True),
        ChatSummary(id="4", title="art", updated=at - 3, snippet="", folder="art"),
    ]
    rows = rows_by_day(chats, today=dt.date(2026, 3, 4))
    assert [row.title for row in rows] == ["Pinned", "pinned", "art", "art", "Work", "work b", "Today", "plain"]


@pytest.mark.parametrize("moment", [1e300, -1e300, 1.7e12, -1e11, float("inf"), float("nan")])
def test_a_chat_of_an_impossible_time_is_listed_among_the_others(moment: float) -> None:
    chats = [
        ChatSummary(id="1", title="odd", updated=moment, snippet=""),
        ChatSummary(id="2", title="today", updated=now(), snippet=""),
    ]
    assert [row.title for row in rows_by_day(chats)] == ["Earlier", "odd", "Today", "today"]


def test_a_chat_is_pinned_and_filed_from_its_menu(sidebar: Sidebar, store: ChatStore, qtbot: QtBot) -> None:
    store.create_chat(ChatRecord(id="c", title="Trip", created=now(), updated=now()))
    qtbot.waitUntil(lambda: sidebar.model.index_of("c").isValid())
    entries = {action.text(): action for action in sidebar.menu_for(sidebar.model.index_of("c")).actions()}
    entries["Pin"].trigger()
    qtbot.waitUntil(lambda: sidebar.model.row(sidebar.model.index_of("c")).pinned)
    sidebar.ask_folder("c")
    sidebar.ask.edit.setText("Travel")
    sidebar.ask.agree.click()
    qtbot.waitUntil(lambda: sidebar.model.row(sidebar.model.index_of("c")).folder == "Travel")


def test_a_heading_that_is_too_long_ends_in_dots(sidebar: Sidebar, qtbot: QtBot) -> None:
    long = "A folder with a name that nobody can read to its end, as no window shows the whole of it"
    picture = QPixmap(240, 40)
    pictures = []
    for name in (long, QFontMetrics(LIGHT.quiet_font).elidedText(long, Qt.TextElideMode.ElideRight, 240 - 24)):
        picture.fill(Qt.GlobalColor.white)
        painter = QPainter(picture)
        RowDelegate()._paint_heading(painter, picture.rect(), ListRow(name, folder=name))
        painter.end()
        pictures.append(picture.toImage())
    assert pictures[0] == pictures[1]
