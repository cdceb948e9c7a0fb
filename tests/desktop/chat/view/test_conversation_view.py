"""The conversation as it is used: scrolling, selecting, actions, errors, the keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.chat.view import conversation_view, painter
from desktop.chat.view.code_segment import CodeSegment
from desktop.chat.view.conversation_view import ConversationView
from desktop.chat.view.item_layout import ItemLayout
from desktop.chat.view.layout import Place
from desktop.chat.view.links import Link
from desktop.chat.view.message_model import ChatItem, ItemState, MessageListModel
from desktop.chat.view.segments import Canvas
from desktop.chat.view.selection import Selection
from desktop.chat.view.targets import Target
from desktop.theme import DARK, LIGHT
from patient_qtbot import live
from runtime.errors import ErrorInfo
from runtime.messages import Role

LEFT = Qt.MouseButton.LeftButton


def question(id: str, text: str = "What is **this**?") -> ChatItem:
    return ChatItem(id=id, role=Role.USER, text=text)


def answer(id: str, text: str = "", **more: object) -> ChatItem:
    return ChatItem(id=id, role=Role.ASSISTANT, text=text, model_name="SmolLM2", **more)  # type: ignore[arg-type]


@pytest.fixture
def model() -> MessageListModel:
    return MessageListModel()


@pytest.fixture
def view(qtbot: QtBot, model: MessageListModel) -> ConversationView:
    made = ConversationView(model, theme=LIGHT)
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.show()
    qtbot.waitExposed(made)
    return made


@pytest.fixture
def long_chat(view: ConversationView, model: MessageListModel) -> ConversationView:
    chat: list[ChatItem] = []
    for number in range(20):
        chat += [question(f"q{number}"), answer(f"a{number}", f"Answer {number}.\n\n" + "Some words of it. " * 60)]
    model.set_items(chat)
    model.add(answer("new", "Beginning", state=ItemState.STREAMING))
    QApplication.processEvents()
    return view


def test_a_scroll_bar_does_not_move_the_text(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([question("q"), answer("a", "Short.")])
    QApplication.processEvents()
    short = view._column_left(), view.layout_of_items.width
    assert view.verticalScrollBar().maximum() == 0
    model.set_items([question("q"), answer("a", "Long.\n\n" * 200)])
    QApplication.processEvents()
    assert view.verticalScrollBar().isVisible()
    assert (view._column_left(), view.layout_of_items.width) == short


def many_messages() -> list[ChatItem]:
    return [question(str(n)) if n % 2 == 0 else answer(str(n), f"Answer {n}.") for n in range(300)]


def test_a_long_chat_takes_its_place_in_one_turn_and_its_text_in_the_next(
    qtbot: QtBot, view: ConversationView, model: MessageListModel
) -> None:
    model.set_items(many_messages())
    QApplication.sendPostedEvents()  # the scroll bar appears

    assert view.layout_of_items.laid == 0
    assert view.following
    assert at_end(view)
    assert not view.viewport().updatesEnabled()  # what was shown stays until the text is there
    qtbot.waitUntil(lambda: view.layout_of_items.laid > 0)
    assert view.viewport().updatesEnabled()
    assert at_end(view)


def test_who_scrolls_before_a_long_chat_is_laid_out_is_not_taken_back(
    qtbot: QtBot, view: ConversationView, model: MessageListModel
) -> None:
    model.set_items(many_messages())
    QTest.keyClick(view, Qt.Key.Key_Home)
    assert view.viewport().updatesEnabled()
    laid = view.layout_of_items.laid
    assert laid > 0
    live(20)

    assert first_visible(view)[0] == "0"


def test_a_long_chat_that_was_left_before_it_was_laid_out_is_not_shown(
    qtbot: QtBot, view: ConversationView, model: MessageListModel
) -> None:
    model.set_items(many_messages())
    model.set_items([question("q"), answer("a", "Short.")])

    assert view.viewport().updatesEnabled()
    laid = view.layout_of_items.laid
    live(20)
    assert view.layout_of_items.laid == laid
    assert view.verticalScrollBar().maximum() == 0


def stream(view: ConversationView, model: MessageListModel, text: str = "More words of the answer.\n\n" * 20) -> None:
    model.append_text("new", text)
    live(60)


def at_end(view: ConversationView) -> bool:
    return view.verticalScrollBar().value() == view.verticalScrollBar().maximum()


def wheel(view: ConversationView, notches: int) -> None:
    middle = QPointF(view.viewport().rect().center())
    event = QWheelEvent(
        middle, view.viewport().mapToGlobal(middle), QPoint(), QPoint(0, 120 * notches), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(view.viewport(), event)


def first_visible(view: ConversationView) -> tuple[str, float]:
    """The message at the top of the viewport, and how far its top is above the edge."""
    layout = view.layout_of_items
    top = view.verticalScrollBar().value() - 16
    row = layout.row_at(top)
    return layout.items[row].item.id, round(top - layout.top_of(row))


def place(view: ConversationView, row: int, block: int, x: float = 1.0, y: float = 5.0) -> QPoint:
    """A point of the viewport inside a block's text."""
    layout = view.layout_of_items
    item: ItemLayout = layout.items[row]
    number = item.segments_of(block)[0]
    run = item.segments[number].runs[0]
    point = QPointF(item.text_left + run.x + x, layout.top_of(row) + item.top_of(number) + run.y + y)
    left = (view.viewport().width() - layout.width) // 2
    return (point + QPointF(left, 16 - view.verticalScrollBar().value())).toPoint()


def drag(view: ConversationView, start: QPoint, end: QPoint) -> None:
    QTest.mousePress(view.viewport(), LEFT, pos=start)
    event = QMouseEvent(
        QEvent.Type.MouseMove, QPointF(end), view.viewport().mapToGlobal(QPointF(end)), LEFT, LEFT,
        Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    QApplication.sendEvent(view.viewport(), event)
    QTest.mouseRelease(view.viewport(), LEFT, pos=end)


def click(view: ConversationView, name: str, row: int) -> None:
    target = find(view, name, row)
    point = target.rect.center() + QPointF(
        (view.viewport().width() - view.layout_of_items.width) // 2, 16 - view.verticalScrollBar().value()
    )
    QTest.mouseClick(view.viewport(), LEFT, pos=point.toPoint())


def find(view: ConversationView, name: str, row: int) -> Target:
    return next(target for target in view._targets(row) if target.name == name)


# following


def test_the_end_stays_in_sight_while_text_arrives(long_chat: ConversationView, model: MessageListModel) -> None:
    assert at_end(long_chat)

    stream(long_chat, model)

    assert long_chat.following
    assert at_end(long_chat)


@pytest.mark.parametrize("away", ["wheel", "page", "bar", "home", "arrow"])
def test_any_way_up_releases(long_chat: ConversationView, model: MessageListModel, away: str) -> None:
    bar = long_chat.verticalScrollBar()
    {
        "wheel": lambda: wheel(long_chat, 1),
        "page": lambda: QTest.keyClick(long_chat, Qt.Key.Key_PageUp),
        "bar": lambda: bar.setSliderPosition(bar.value() - 1),
        "home": lambda: QTest.keyClick(long_chat, Qt.Key.Key_Home),
        "arrow": lambda: QTest.keyClick(long_chat, Qt.Key.Key_Up),
    }[away]()
    live(20)
    seen = first_visible(long_chat)

    stream(long_chat, model)

    assert not long_chat.following
    assert first_visible(long_chat) == seen
    assert long_chat._newest.isVisible()


def test_coming_back_to_the_end_follows_again(long_chat: ConversationView, model: MessageListModel) -> None:
    wheel(long_chat, 2)
    live(20)
    stream(long_chat, model)

    while not at_end(long_chat):
        wheel(long_chat, -5)
    stream(long_chat, model)

    assert long_chat.following
    assert at_end(long_chat)
    assert not long_chat._newest.isVisible()


def test_the_newest_button_goes_to_the_end(long_chat: ConversationView, model: MessageListModel) -> None:
    QTest.keyClick(long_chat, Qt.Key.Key_Home)
    live(20)

    QTest.mouseClick(long_chat._newest, LEFT)

    assert long_chat.following
    assert at_end(long_chat)


def test_a_question_of_the_person_is_shown(long_chat: ConversationView, model: MessageListModel) -> None:
    QTest.keyClick(long_chat, Qt.Key.Key_Home)

    model.add(question("next"))

    assert at_end(long_chat)


def test_another_width_keeps_what_is_read(long_chat: ConversationView) -> None:
    QTest.keyClick(long_chat, Qt.Key.Key_PageUp)
    QTest.keyClick(long_chat, Qt.Key.Key_PageUp)
    live(20)
    read = long_chat.layout_of_items.anchor_at(long_chat.verticalScrollBar().value() - 16)
    assert read is not None

    for width in (450, 900, 700):
        long_chat.resize(width, 500)
        live(20)
        y = long_chat.layout_of_items.y_of(read)
        assert y == pytest.approx(long_chat.verticalScrollBar().value() - 16, abs=1)


def test_scrolling_up_page_by_page_never_moves_what_stays(long_chat: ConversationView) -> None:
    live(30)
    for _ in range(15):
        before = long_chat.verticalScrollBar().value()
        shown = long_chat.layout_of_items.anchor_at(before - 16)
        assert shown is not None
        wheel(long_chat, 2)
        after = long_chat.verticalScrollBar().value()
        y = long_chat.layout_of_items.y_of(shown)
        assert y is not None
        moved = y - (after - 16)
        live(10)
        y = long_chat.layout_of_items.y_of(shown)
        assert y is not None
        assert y - (long_chat.verticalScrollBar().value() - 16) == pytest.approx(moved, abs=1)


# selecting


def test_a_drag_over_messages_copies_source(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([question("q"), answer("a", "A **bold** word.\n\nSecond.")])
    QApplication.processEvents()

    drag(view, place(view, 0, 0), place(view, 1, 0, x=2000))
    QTest.keyClick(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)

    assert QGuiApplication.clipboard().text() == "What is **this**?\n\nA **bold** word."


def test_a_selection_survives_streaming_and_releases(long_chat: ConversationView, model: MessageListModel) -> None:
    drag(long_chat, place(long_chat, 40, 0), place(long_chat, 40, 0, x=2000))
    assert long_chat.selected_text() == "Beginning"
    value = long_chat.verticalScrollBar().value()

    stream(long_chat, model, " and more.\n\nAnother paragraph.\n\n" * 20)

    assert long_chat.selected_text() == "Beginning"
    assert long_chat.verticalScrollBar().value() == value


def test_double_click_takes_a_word_and_a_third_the_paragraph(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a", "😀 alpha beta. Gamma *delta*.\n\nOther.")])
    QApplication.processEvents()
    point = place(view, 0, 0, x=40)

    QTest.mouseClick(view.viewport(), LEFT, pos=point)
    QTest.mouseDClick(view.viewport(), LEFT, pos=point)
    assert view.selected_text() == "alpha"

    QTest.mousePress(view.viewport(), LEFT, pos=point)
    assert view.selected_text() == "😀 alpha beta. Gamma *delta*."


def test_all_is_every_message_as_written(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([question("q", "a <b> &amp;"), answer("a", "```\nx\n```"), question("r", "end")])

    QTest.keyClick(view, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)

    assert view.selected_text() == "a <b> &amp;\n\n```\nx\n```\n\nend"


def test_a_selection_ends_where_its_message_is_removed(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([question("q"), answer("a", "text")])
    view.select_all()

    model.remove_from("a")

    assert view.selected_text() == ""


# actions


def test_actions_leave_as_signals(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([question("q"), answer("a", "text", version=2, versions=3)])
    QApplication.processEvents()
    told: list[object] = []
    view.regenerate_requested.connect(lambda id: told.append(("again", id)))
    view.edit_requested.connect(lambda id: told.append(("edit", id)))
    view.version_requested.connect(lambda id, step: told.append((id, step)))

    click(view, "again", 1)
    click(view, "edit", 0)
    click(view, "previous", 1)
    click(view, "next", 1)

    assert told == [("again", "a"), ("edit", "q"), ("a", -1), ("a", 1)]


def test_there_is_no_version_before_the_first(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a", "text", version=1, versions=2)])
    QApplication.processEvents()
    told: list[int] = []
    view.version_requested.connect(lambda _id, step: told.append(step))

    click(view, "previous", 0)

    assert told == []


def test_copy_takes_the_source_and_code_without_its_fence(view: ConversationView, model: MessageListModel) -> None:
    text = "See **this**:\n\n```py\nx = '<b>'\n```"
    model.set_items([answer("a", text)])
    QApplication.processEvents()

    click(view, "copy", 0)
    assert QGuiApplication.clipboard().text() == text

    click(view, "code", 0)
    assert QGuiApplication.clipboard().text() == "x = '<b>'"


def test_code_without_a_language_has_no_empty_head_and_its_button_covers_no_text(
    view: ConversationView, model: MessageListModel
) -> None:
    long = "x = 1 # " * 40
    model.set_items([
        ChatItem(id="named", role=Role.ASSISTANT, text=f"```py\n{long}\n```"),
        ChatItem(id="nameless", role=Role.ASSISTANT, text=f"```\n{long}\n```"),
    ])  # fmt: skip
    named, nameless = (item.segments[0] for item in view.layout_of_items.items)
    assert isinstance(named, CodeSegment)
    assert isinstance(nameless, CodeSegment)
    assert nameless.runs[0].y < named.runs[0].y
    right = max(rect.right() for rect in nameless.runs[0].rects(0, len(long)))
    assert right <= nameless.copy_rect.left()
    assert nameless.ground.contains(nameless.copy_rect)


def test_actions_appear_without_moving_anything(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([question("q"), answer("a", "text"), question("r"), answer("b", "text")])
    QApplication.processEvents()
    height = view.layout_of_items.height
    before = view.grab().toImage()

    QTest.mouseMove(view.viewport(), place(view, 1, 0))
    live(20)

    assert view.grab().toImage() != before
    assert view.layout_of_items.height == height


def test_an_answer_that_was_cut_can_go_on(view: ConversationView, model: MessageListModel) -> None:
    told: list[str] = []
    view.continue_requested.connect(told.append)
    for state in (ItemState.STOPPED, ItemState.CUT_LENGTH, ItemState.CUT_CONTEXT):
        model.set_items([answer("a", "Partial", state=state)])
        QApplication.processEvents()
        click(view, "continue", 0)

    assert told == ["a"] * 3
    assert view.layout_of_items.items[0].notice.text() == "The context is full."


def test_only_the_last_answer_offers_to_go_on(view: ConversationView, model: MessageListModel) -> None:
    def offered() -> list[str]:
        QApplication.processEvents()
        items = view.layout_of_items.items
        return [button.name for item in items for button in item.notice.buttons]

    cut = answer("a", "Partial", state=ItemState.STOPPED)
    model.set_items([cut])
    assert offered() == ["continue"]
    model.add(question("q"))
    assert offered() == []
    model.set_items([cut, question("q")])
    assert offered() == []
    model.remove_from("q")
    assert offered() == ["continue"]


def test_an_answer_stopped_before_its_first_word_can_be_tried_again(
    view: ConversationView, model: MessageListModel
) -> None:
    told: list[str] = []
    view.retry_requested.connect(told.append)
    model.set_items([question("q"), answer("a", "", state=ItemState.STOPPED)])
    QApplication.processEvents()

    click(view, "retry", 1)

    assert told == ["a"]


def test_a_failure_says_what_and_why_and_folds_its_details(view: ConversationView, model: MessageListModel) -> None:
    error = ErrorInfo(title="The engine stopped.", message="Signal <4>.", hint="Try F16.", details="line 1\nline 2")
    told: list[str] = []
    view.retry_requested.connect(told.append)
    model.set_items([question("q"), answer("a", "Kept text", state=ItemState.FAILED, error=error)])
    QApplication.processEvents()
    item = view.layout_of_items.items[1]
    assert item.notice.text() == "The engine stopped.\nSignal <4>.\nTry F16."

    click(view, "details", 1)
    assert item.notice.text().endswith("line 1\nline 2")
    click(view, "retry", 1)
    click(view, "details", 1)

    assert told == ["a"]
    click(view, "copy", 1)
    assert QGuiApplication.clipboard().text() == "Kept text\nThe engine stopped.\nSignal <4>.\nTry F16.\nline 1\nline 2"
    assert "line 1" not in item.notice.text()
    assert item.blocks[0].text == "Kept text"


def test_a_link_opens_by_a_click_only_and_says_where_it_leads(view: ConversationView, model: MessageListModel) -> None:
    told: list[Link] = []
    view.link_activated.connect(told.append)
    model.set_items([answer("a", "[here](https://a.b/c) and [there](javascript:x)")])
    QApplication.processEvents()
    link = place(view, 0, 0, x=8)

    assert view._pointer.link_at(view._point(link)) == Link("https://a.b/c", "here")
    drag(view, link, place(view, 0, 0, x=200))
    assert told == []
    QTest.mouseClick(view.viewport(), LEFT, pos=link)
    QTest.mouseClick(view.viewport(), LEFT, pos=place(view, 0, 0, x=120))

    assert told == [Link("https://a.b/c", "here")]


# the keyboard


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_tab_goes_from_message_to_message_and_enter_opens_actions(
    view: ConversationView, model: MessageListModel
) -> None:
    model.set_items([question("q"), answer("a", "text", versions=2, version=2)])
    QApplication.processEvents()
    view.clearFocus()
    view.setFocus(Qt.FocusReason.TabFocusReason)
    assert view.accessibleName() == "Message 1 of 2, You"

    QTest.keyClick(view, Qt.Key.Key_Tab)
    assert view.accessibleName() == "Message 2 of 2, SmolLM2"
    assert view.accessibleDescription() == "text"

    QTest.keyClick(view, Qt.Key.Key_Return)
    menu = QApplication.activePopupWidget()
    assert menu is not None
    names = [entry.text() for entry in menu.actions()]
    menu.close()
    assert names == [
        "Copy", "Answer again", "Previous version", "Next version", "Pin in the context", "Show the source",
    ]  # fmt: skip


def test_the_menu_does_what_it_says(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a", "Partial", state=ItemState.CUT_LENGTH)])
    QApplication.processEvents()
    told: list[tuple[str, str]] = []
    view.regenerate_requested.connect(lambda id: told.append(("again", id)))
    view.continue_requested.connect(lambda id: told.append(("continue", id)))

    menu = view.message_menu("a")
    for entry in menu.actions():
        if entry.text() in ("Answer again", "Continue"):
            entry.trigger()
    menu.close()

    assert told == [("again", "a"), ("continue", "a")]


def test_an_answer_without_a_word_offers_nothing_yet(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a", state=ItemState.STREAMING)])

    menu = view.message_menu("a")
    offered = [(entry.text(), entry.isEnabled()) for entry in menu.actions()]
    menu.close()

    assert offered == [("Copy", False)]


def test_home_and_end(long_chat: ConversationView) -> None:
    QTest.keyClick(long_chat, Qt.Key.Key_Home)
    assert long_chat.verticalScrollBar().value() == 0

    QTest.keyClick(long_chat, Qt.Key.Key_End)
    assert at_end(long_chat)
    assert long_chat.following


# the rest


def test_another_version_of_an_answer_is_read_anew(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a", "# First\n\ntext")])
    QApplication.processEvents()

    model.update("a", text="Second")

    assert [block.text for block in view.layout_of_items.items[0].blocks] == ["Second"]


def test_text_is_shown_at_once_when_the_answer_ends(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a", "One", state=ItemState.STREAMING)])
    model.append_text("a", " two")
    model.update("a", state=ItemState.COMPLETE)

    assert [block.text for block in view.layout_of_items.items[0].blocks] == ["One two"]


def test_switching_the_theme_repaints_in_its_colours(view: ConversationView, model: MessageListModel) -> None:
    model.set_items([answer("a", "text")])

    view.set_theme(DARK)
    image = view.viewport().grab().toImage()

    assert image.pixelColor(2, 2) == DARK.window


def test_closed_code_is_coloured_after_a_moment(view: ConversationView, model: MessageListModel, qtbot: QtBot) -> None:
    model.set_items([answer("a", "```python\nimport os  # note\n```")])
    segment = view.layout_of_items.items[0].segments[0]

    qtbot.waitUntil(lambda: bool(segment.highlights) and segment.laid)  # type: ignore[attr-defined]

    assert {kind for _start, _end, kind in segment.highlights[0]} >= {"Keyword", "Comment"}  # type: ignore[attr-defined]


def test_code_is_coloured_once_its_fence_closes(view: ConversationView, model: MessageListModel, qtbot: QtBot) -> None:
    model.set_items([answer("a", "```python\n" + "import os\n" * 90, state=ItemState.STREAMING)])
    view.verticalScrollBar().setValue(0)
    live(20)
    assert not view.layout_of_items.items[0].segments[0].highlights  # type: ignore[attr-defined]

    model.append_text("a", "```\n\nDone.")

    qtbot.waitUntil(lambda: bool(view.layout_of_items.items[0].segments[0].highlights))  # type: ignore[attr-defined]


def test_only_what_is_visible_is_painted(
    long_chat: ConversationView, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: list[Place] = []
    real = painter._paint_segment

    def counted(canvas: Canvas, place: Place, selection: Selection | None) -> None:
        painted.append(place)
        real(canvas, place, selection)

    monkeypatch.setattr(painter, "_paint_segment", counted)
    long_chat.viewport().repaint()

    top = long_chat.verticalScrollBar().value() - 16
    assert painted
    assert all(place.rect.bottom() >= top and place.rect.top() <= top + 500 for place in painted)
    assert all(place.segment.laid for place in painted)


def test_nothing_of_the_view_can_load_or_open_anything() -> None:
    files = Path(conversation_view.__file__).parent.glob("*.py")
    sources = [path.read_text(encoding="utf-8") for path in files if path.name != "formulas.py"]

    for name in ("QTextDocument", "QTextBrowser", "QDesktopServices", "setHtml", "QLabel", "QNetwork", "QImage"):
        assert not any(name in source for source in sources), name


def test_the_links_of_a_message_are_in_its_menu(view: ConversationView, model: MessageListModel) -> None:
    told: list[Link] = []
    view.link_activated.connect(told.append)
    model.set_items([answer("a", "[here](https://a.b/c?d&e)\n\n| x |\n|---|\n| https://f.g |")])
    QApplication.processEvents()

    menu = view.message_menu("a")
    entries = next(entry.menu() for entry in menu.actions() if entry.text() == "Open a link").actions()
    assert [entry.text() for entry in entries] == ["https://a.b/c?d&&e", "https://f.g"]
    entries[0].trigger()
    menu.close()

    assert told == [Link("https://a.b/c?d&e", "here")]


def test_larger_text_keeps_what_is_read_in_place(long_chat: ConversationView) -> None:
    wheel(long_chat, 10)
    QApplication.processEvents()
    row, pitch = first_visible(long_chat)[0], long_chat.layout_of_items.style.pitch

    long_chat.set_zoom(200)
    QApplication.processEvents()

    assert long_chat.layout_of_items.style.pitch == pytest.approx(2 * pitch, abs=1)
    assert first_visible(long_chat)[0] == row


def test_control_and_the_wheel_ask_for_another_size(view: ConversationView) -> None:
    asked: list[int] = []
    view.zoom_requested.connect(asked.append)
    middle = QPointF(view.viewport().rect().center())
    for notches in (1, 0.5, 0.5, -1):
        event = QWheelEvent(
            middle, middle, QPoint(), QPoint(0, int(120 * notches)), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.ControlModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(view.viewport(), event)

    assert asked == [1, 1, -1]


def test_an_empty_conversation_takes_every_event(view: ConversationView) -> None:
    for key in (Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_PageUp, Qt.Key.Key_Return, Qt.Key.Key_Tab):
        QTest.keyClick(view, key)
    QTest.mouseClick(view.viewport(), LEFT, pos=QPoint(100, 100))
    wheel(view, 1)
    view.select_all()

    assert view.selected_text() == ""
