"""The window over the real store and session, with a scripted engine: what a person does, and what is then shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QWidget
from pytestqt.qtbot import QtBot

import foreign_models
from desktop.application import LibraryFinder
from desktop.chat.composer import Draft
from desktop.chat.header import Standing
from desktop.chat.shortcuts import ShortcutsCard
from desktop.chat.view.message_model import ItemState
from desktop.main_window import MainWindow, Parts
from desktop.models import STARTER as STARTER_NAME
from desktop.shell import Shell
from desktop.store.keeper import ChatsNotSaved
from desktop.theme import DARK
from runtime.errors import ErrorInfo
from runtime.params import AppSettings, LoadParams, SamplingParams
from runtime.places import places
from runtime.protocol import EngineInfo
from window_kit import LARGE, STARTER, Shelf, window_parts

Open = Callable[..., MainWindow]


@pytest.fixture
def open_window(qapp: QApplication, qtbot: QtBot) -> Iterator[Open]:
    """Opens a window whose engine follows a script."""
    with ExitStack() as stack:

        def opened(shelf: Shelf | None = None, **script: Any) -> MainWindow:
            parts = stack.enter_context(window_parts(shelf, **script))
            shell = Shell(parts.state)
            window = MainWindow(parts)
            window.quit_requested.connect(shell.close)
            shell.furnish(window)
            stack.callback(shell.deleteLater)
            stack.callback(shell.close)
            shell.show()
            return window

        yield opened


def parts_of(window: MainWindow) -> Parts:
    return window._parts


def ready(window: MainWindow, qtbot: QtBot) -> MainWindow:
    parts_of(window).models.start()
    qtbot.waitUntil(lambda: window.header.status.standing is Standing.READY)
    return window


def write(window: MainWindow, qtbot: QtBot, text: str) -> None:
    window.composing.composer.set_draft(Draft(text))
    qtbot.keyClick(window.composing.composer.edit, Qt.Key.Key_Return)


def answered(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: window._parts.items.rowCount() > 0 and not window._parts.session.busy)


def texts(window: MainWindow) -> list[str]:
    return [item.text for item in window._parts.items.items()]


def test_message_is_answered_and_the_composer_is_empty_again(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "What is the capital of France?")
    answered(window, qtbot)
    assert texts(window) == ["What is the capital of France?", "The capital of France is Paris."]
    assert window.composing.composer.draft == Draft()
    assert window.view.isVisible()
    assert not window.empty.isVisible()
    assert window._parts.items.item(1).model_name == "Tiny 1M Instruct"


def test_the_first_chat_that_is_opened_is_laid_out_once(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    view, session = window.view, window._parts.session
    write(window, qtbot, "What is the capital of France?")
    answered(window, qtbot)
    chat = session.chat_id
    window.new_chat()
    window.window().resize(1000, 640)  # the conversation, which is not in sight, has its old size until it is opened
    qtbot.waitUntil(lambda: window.empty.isVisible())
    before = view.layout_of_items.laid
    session.open(chat)
    qtbot.waitUntil(lambda: window._parts.items.rowCount() == 2)
    first = view.layout_of_items.laid - before
    session.new_chat()
    before = view.layout_of_items.laid
    session.open(chat)
    qtbot.waitUntil(lambda: window._parts.items.rowCount() == 2)

    assert first == view.layout_of_items.laid - before > 0


def test_diagnostics_tell_the_windows_own_settings_and_no_places_of_the_person(
    open_window: Open, qtbot: QtBot
) -> None:
    window = open_window()
    window._parts.live.set_values(AppSettings, theme="dark", model_folders=("/somewhere/of/mine",), model="my-model")
    card = window.show_diagnostics()
    qtbot.waitUntil(lambda: "theme=dark" in card.text.toPlainText(), timeout=20_000)
    assert "of/mine" not in card.text.toPlainText()
    assert "my-model" not in card.text.toPlainText()
    card.close()


def test_empty_window_teaches_and_an_example_is_sent(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    assert window.empty.isVisible()
    assert "Tiny 1M Instruct" in window.empty._title.text()
    qtbot.mouseClick(window.empty.examples[0], Qt.MouseButton.LeftButton)
    answered(window, qtbot)
    assert texts(window)[0] == window.empty.examples[0].prompt


def test_message_sent_before_a_model_is_loaded_has_it_loaded(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    window._parts.live.set_values(AppSettings, load_at_start=False)
    window._parts.models.start()
    qtbot.waitUntil(lambda: window.header.status.name == "Tiny 1M Instruct")
    assert window.header.status.standing is Standing.EMPTY
    write(window, qtbot, "Hello")
    answered(window, qtbot)
    assert texts(window)[1] == "The capital of France is Paris."


def test_stop_keeps_what_was_written(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(endless=True, delay=0.01), qtbot)
    write(window, qtbot, "Go on")
    qtbot.waitUntil(lambda: len(texts(window)) == 2 and bool(texts(window)[1]))
    window.actions_by_name["stop"].trigger()
    answered(window, qtbot)
    assert window._parts.items.item(1).state is ItemState.STOPPED
    assert texts(window)[1]


def test_answer_that_waits_for_another_chat_says_so(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(endless=True, delay=0.01), qtbot)
    write(window, qtbot, "first")
    first = window._parts.session.chat_id
    qtbot.waitUntil(lambda: len(texts(window)) == 2 and bool(texts(window)[1]))
    window.new_chat()
    write(window, qtbot, "second")
    words = window.composing.meter._words
    qtbot.waitUntil(lambda: "another chat" in words.text())
    window._parts.client.stop(next(iter(window._parts.session._answers)))
    qtbot.waitUntil(lambda: bool(texts(window)[1]))
    qtbot.waitUntil(lambda: "another chat" not in words.text())
    window._parts.session.stop()
    answered(window, qtbot)
    assert window._parts.session.chat_id != first


def test_every_chat_keeps_its_draft(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "first chat")
    answered(window, qtbot)
    first = window._parts.session.chat_id
    window.composing.composer.set_draft(Draft("to be continued", ("y" * 30_000,)))
    window.new_chat()
    assert window.composing.composer.draft == Draft()
    window.composing.composer.set_draft(Draft("another"))
    window._open_chat(first, None)
    qtbot.waitUntil(lambda: window._parts.items.rowCount() == 2)
    assert window.composing.composer.draft == Draft("to be continued", ("y" * 30_000,))


def test_last_message_is_edited_as_a_new_version(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(echo=True), qtbot)
    write(window, qtbot, "one")
    answered(window, qtbot)
    qtbot.keyClick(window.composing.composer.edit, Qt.Key.Key_Up)
    assert window.composing.editing
    assert window.composing.composer.draft.text == "one"
    write(window, qtbot, "two")
    answered(window, qtbot)
    assert texts(window) == ["two", "two"]
    assert window._parts.items.item(0).versions == 2
    assert not window.composing.editing


def test_question_stopped_before_its_answer_can_be_asked_again(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(delay=0.3), qtbot)
    write(window, qtbot, "Hello")
    window._parts.session.stop()
    qtbot.waitUntil(lambda: window.composing.retry_bar.isVisible())
    assert texts(window) == ["Hello"]
    window.composing.retry_bar.pressed.emit()
    answered(window, qtbot)
    assert len(texts(window)) == 2
    assert not window.composing.retry_bar.isVisible()


def test_chosen_model_is_the_one_for_the_next_start(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    assert window._parts.live.app.model == "starter"
    window.open_model(str(LARGE.path))
    qtbot.waitUntil(lambda: window._parts.live.app.model == str(LARGE.path))
    window.open_model("starter")
    qtbot.waitUntil(lambda: window._parts.live.app.model == "starter")


def test_window_built_again_takes_over_what_is_written(open_window: Open, qtbot: QtBot) -> None:
    older = open_window()
    older.composing.composer.set_draft(Draft("half a thought", ("y" * 30_000,)))
    older.show_prompt(True)
    newer = MainWindow(older._parts, replaces=older)
    qtbot.addWidget(newer)
    older.hand_over(newer)
    assert newer.composing.composer.draft == older.composing.composer.draft
    assert not newer.system_prompt.isHidden()


def test_cancelled_edit_gives_the_draft_back(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "one")
    answered(window, qtbot)
    window.composing.composer.set_draft(Draft("half a thought"))
    window.composing.edit(window._parts.items.item(0).id)
    window._escape()
    assert window.composing.composer.draft == Draft("half a thought")


def test_draft_comes_back_when_an_edited_message_was_sent(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "one")
    answered(window, qtbot)
    window.composing.composer.set_draft(Draft("half a thought"))
    window.composing.edit(window._parts.items.item(0).id)
    write(window, qtbot, "two")
    assert texts(window)[0] == "two"
    assert window.composing.composer.draft == Draft("half a thought")
    assert window._parts.session._chat.draft == "half a thought"


def test_message_that_comes_back_while_another_is_edited_joins_the_draft(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "one")
    answered(window, qtbot)
    window.composing.composer.set_draft(Draft("half a thought"))
    window.composing.edit(window._parts.items.item(0).id)
    window.composing._take_back(window._parts.session.chat_id, "what waited")
    assert window.composing.composer.draft == Draft("one")
    window._escape()
    assert window.composing.composer.draft == Draft("what waited\n\nhalf a thought")


def stored_draft(window: MainWindow, qtbot: QtBot) -> str:
    """Returns the draft of the chat that is shown, as it is on disk now."""
    found: list[Any] = []
    window._parts.store.load_chat(window._parts.session.chat_id, found.append)
    qtbot.waitUntil(lambda: bool(found))
    return str(found[0].chat.draft)


def test_what_waits_is_on_disk_at_once_and_stays_there_until_it_is_sent(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(echo=True, delay=0.2), qtbot)
    write(window, qtbot, "one " * 20)
    for text in ("two", "three", "four"):
        write(window, qtbot, text)
    assert stored_draft(window, qtbot) == "two\n\nthree\n\nfour"
    window._parts.session.stop()
    qtbot.waitUntil(lambda: len(texts(window)) > 2)
    assert stored_draft(window, qtbot) == "three\n\nfour"


def test_what_comes_back_while_a_message_is_edited_is_on_disk_too(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "one")
    answered(window, qtbot)
    window.composing.edit(window._parts.items.item(0).id)
    window.composing._take_back(window._parts.session.chat_id, "what waited")
    window._parts.session.keep_draft()
    assert stored_draft(window, qtbot) == "what waited"
    first = window._parts.session.chat_id
    window.new_chat()
    window._open_chat(first, None)
    qtbot.waitUntil(lambda: window.composing.editing)
    window._escape()
    assert window.composing.composer.draft == Draft("what waited")


def test_an_edit_goes_on_where_it_was_left(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "one")
    answered(window, qtbot)
    first = window._parts.session.chat_id
    window.composing.composer.set_draft(Draft("half a thought"))
    window.composing.edit(window._parts.items.item(0).id)
    window.composing.composer.set_draft(Draft("one and a half"))
    window.new_chat()
    assert (window.composing.editing, window.composing.composer.draft) == (False, Draft())
    window._open_chat(first, None)
    qtbot.waitUntil(lambda: window.composing.editing)
    assert window.composing.composer.draft == Draft("one and a half")
    window._escape()
    assert window.composing.composer.draft == Draft("half a thought")


def half_edited(window: MainWindow, qtbot: QtBot) -> str:
    """Leaves an edit half done, together with a draft, and returns the chat's id."""
    write(window, qtbot, "one")
    answered(window, qtbot)
    window.composing.composer.set_draft(Draft("half a thought"))
    window.composing.edit(window._parts.items.item(0).id)
    window.composing.composer.set_draft(Draft("one and a half"))
    return window._parts.session.chat_id


def test_an_edit_outlives_its_window(open_window: Open, qtbot: QtBot) -> None:
    first = ready(open_window(), qtbot)
    chat = half_edited(first, qtbot)
    first._parts.session.close()
    first._parts.store.close()
    later = ready(open_window(), qtbot)
    later._open_chat(chat, None)
    qtbot.waitUntil(lambda: later.composing.editing)
    assert later.composing.composer.draft == Draft("one and a half")
    write(later, qtbot, "one and a half")
    assert texts(later)[0] == "one and a half"
    assert later.composing.composer.draft == Draft("half a thought")
    later._parts.session.keep_draft()
    later.new_chat()
    later._open_chat(chat, None)
    qtbot.waitUntil(lambda: later.composing.composer.draft == Draft("half a thought"))
    assert not later.composing.editing, "it was sent"


def test_an_edit_waits_while_another_branch_is_shown(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "one")
    answered(window, qtbot)
    window.composing.edit(window._parts.items.item(0).id)
    write(window, qtbot, "two")
    answered(window, qtbot)
    window.composing.edit(window._parts.items.item(0).id)
    window.composing.composer.set_draft(Draft("two and a half"))
    window._parts.session.choose_version(window._parts.items.item(0).id, -1)
    qtbot.waitUntil(lambda: texts(window)[0] == "one")
    assert (window.composing.editing, window.composing.composer.draft) == (False, Draft())
    window._parts.session.choose_version(window._parts.items.item(0).id, 1)
    qtbot.waitUntil(lambda: window.composing.editing)
    assert window.composing.composer.draft == Draft("two and a half")


def test_an_edit_that_is_let_go_can_be_brought_back(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    half_edited(window, qtbot)
    window._escape()
    assert window.composing.composer.draft == Draft("half a thought")
    window.composing.undo_bar.button.click()
    assert (window.composing.editing, window.composing.composer.draft) == (True, Draft("one and a half"))
    window._escape()
    assert window.composing.composer.draft == Draft("half a thought")


def test_asking_twice_to_edit_a_message_keeps_what_was_changed(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    half_edited(window, qtbot)
    window.composing.edit(window._parts.items.item(0).id)
    assert window.composing.composer.draft == Draft("one and a half")


def test_window_built_again_goes_on_editing(open_window: Open, qtbot: QtBot) -> None:
    older = ready(open_window(), qtbot)
    write(older, qtbot, "one")
    answered(older, qtbot)
    older.composing.composer.set_draft(Draft("half a thought"))
    older.composing.edit(older._parts.items.item(0).id)
    newer = MainWindow(older._parts, replaces=older)
    qtbot.addWidget(newer)
    older.hand_over(newer)
    assert (newer.composing.editing, newer.composing.composer.draft) == (True, Draft("one"))
    assert not newer.composing.edit_bar.isHidden()
    newer._escape()
    assert newer.composing.composer.draft == Draft("half a thought")


def test_what_is_written_while_another_window_is_being_built_stays(open_window: Open, qtbot: QtBot) -> None:
    older = ready(open_window(), qtbot)
    write(older, qtbot, "one")
    answered(older, qtbot)
    older.composing.composer.set_draft(Draft("half a thought"))
    newer = MainWindow(older._parts, replaces=older)
    qtbot.addWidget(newer)
    assert older._parts.session._chat.draft == "half a thought"
    older._parts.session.choose_version(older._parts.items.item(0).id, 1)  # what is stored is shown again
    qtbot.waitUntil(lambda: not older._parts.session._loading)
    assert older.composing.composer.draft == Draft("half a thought")
    older._parts.session.waiting.add(older._parts.session.chat_id, "what waits")
    assert stored_draft(older, qtbot) == "what waits\n\nhalf a thought"
    older.hand_over(newer)
    newer.composing.composer.set_draft(Draft("a whole thought"))
    newer._parts.session.waiting.take(newer._parts.session.chat_id, 0)
    assert stored_draft(newer, qtbot) == "a whole thought"


def test_load_failure_that_stands_at_the_answer_is_not_said_twice(open_window: Open, qtbot: QtBot) -> None:
    window = open_window(load_error="The file is damaged.")
    window._parts.models.start()
    qtbot.waitUntil(lambda: window.notice.isVisible())
    window.notice.dismiss()
    write(window, qtbot, "Hello")
    answered(window, qtbot)
    error = window._parts.items.item(1).error
    assert error is not None
    assert error.title == "The file is damaged."
    assert not window.notice.isVisible()


def test_load_failure_is_explained_above_the_conversation(open_window: Open, qtbot: QtBot) -> None:
    window = open_window(load_error="The file ends too early.")
    window._parts.models.start()
    qtbot.waitUntil(lambda: window.notice.isVisible())
    assert window.notice._title.text() == "The file ends too early."
    assert window.notice._button.text() == "Choose a model"
    assert window.header.status.standing is Standing.FAILED
    assert window.empty._subtitle.text() == "Choose one that is on this computer."


def test_model_that_ended_its_engine_is_not_loaded_by_itself(open_window: Open, qtbot: QtBot, tmp_path: Path) -> None:
    model = tmp_path / "bad.gguf"
    model.write_bytes(b"GGUF")
    shelf = Shelf(STARTER.__class__(name="bad", path=model, kind="gguf", runnable=True))
    window = open_window(shelf, load_crash="SIGABRT")
    window._parts.models.load("bad")
    qtbot.waitUntil(lambda: window.header.status.standing is Standing.FAILED)
    window._parts.models._wanted = "bad"
    window._parts.models.start()
    qtbot.waitUntil(lambda: window.notice.code == "fatal_last_time")
    assert window.header.status.standing is Standing.EMPTY
    assert window._parts.client.pid == 0


def test_what_was_corrected_while_loading_is_said(open_window: Open) -> None:
    window = open_window()
    notes = ("The context was made smaller.",)
    window._parts.models.ready.emit(EngineInfo(engine="llama", has_template=True, notes=notes))
    assert window.notice.isVisible()
    assert "The context was made smaller." in window.notice._cause.text()


def test_missing_model_leaves_the_window_usable(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    window._parts.models.start("/gone/model.gguf")
    qtbot.waitUntil(lambda: window.notice.isVisible())
    assert "model.gguf" in window.notice._title.text()
    window.open_model(STARTER_NAME)
    qtbot.waitUntil(lambda: window.header.status.standing is Standing.READY)
    assert not window.notice.isVisible()


def test_a_loaded_model_does_not_hide_that_chats_are_not_saved(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    window.show_problem(ErrorInfo(title="Some settings could not be used."))
    window._parts.store.problem.emit(ErrorInfo(title="New messages are not being saved.", code="unsaved"))
    window._parts.models.start("/gone/model.gguf")
    qtbot.waitUntil(lambda: "model.gguf" in window.notice._title.text())
    window.open_model(STARTER_NAME)
    qtbot.waitUntil(lambda: window.header.status.standing is Standing.READY)
    assert window.notice._title.text() == "New messages are not being saved."
    notes = ("The context was made smaller.",)
    window._parts.models.ready.emit(EngineInfo(engine="llama", has_template=True, notes=notes))
    assert window.notice._title.text() == "New messages are not being saved."
    window.notice.dismiss()
    assert window.notice._title.text() == "Some settings could not be used."
    window.notice.dismiss()
    assert "The context was made smaller." in window.notice._cause.text()
    window.notice.dismiss()
    assert not window.notice.isVisible()


def test_notice_of_unsaved_chats_goes_when_they_are_saved(open_window: Open, tmp_path: Path) -> None:
    window = open_window()
    window._parts.store.problem.emit(ErrorInfo(title="Your saved chats could not be read.", code="damaged"))
    window._parts.store.problem.emit(ChatsNotSaved(tmp_path, "the disk is full").info)
    window._parts.store.saving_again.emit()
    assert window.notice.code == "damaged"


def test_hidden_panels_take_no_room_above_the_conversation(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "Hello")
    answered(window, qtbot)
    below_header = window.header.mapTo(window, window.header.rect().bottomLeft()).y() + 1
    qtbot.waitUntil(lambda: window.view.mapTo(window, QPoint(0, 0)).y() == below_header)
    window.show_prompt(True)
    qtbot.waitUntil(lambda: window.view.mapTo(window, QPoint(0, 0)).y() > below_header)
    window.show_prompt(False)
    qtbot.waitUntil(lambda: window.view.mapTo(window, QPoint(0, 0)).y() == below_header)


def test_chat_renamed_in_the_list_has_its_new_name_on_the_window(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "Hello")
    answered(window, qtbot)
    qtbot.waitUntil(lambda: window.sidebar.model.index_of(window._parts.session.chat_id).isValid())
    index = window.sidebar.model.index_of(window._parts.session.chat_id)
    window.sidebar.model.setData(index, "Millers", Qt.ItemDataRole.EditRole)
    assert window.window().windowTitle().startswith("Millers")
    assert window._parts.session.title == "Millers"
    qtbot.waitUntil(lambda: window.sidebar.model.row(window.sidebar.model.index_of(
        window._parts.session.chat_id)).title == "Millers")  # fmt: skip


def test_header_follows_loading_reading_and_writing(open_window: Open, qtbot: QtBot) -> None:
    window = open_window(load_seconds=0.3, prompt_steps=3, delay=0.05)
    seen: list[Standing] = []
    window._parts.models.status_changed.connect(lambda status: seen.append(status.standing))
    ready(window, qtbot)
    write(window, qtbot, "Hello")
    answered(window, qtbot)
    order = [Standing.LOADING, Standing.READY, Standing.READING, Standing.WRITING, Standing.READY]
    assert [one for at, one in enumerate(seen) if at == 0 or seen[at - 1] is not one] == order


def test_picker_lists_the_library_and_loads_what_is_chosen(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    window.open_picker()
    picker = window.picker
    assert picker is not None
    qtbot.waitUntil(lambda: picker.model.rowCount() == 3)
    qtbot.keyClicks(picker.search, "70B")
    qtbot.keyClick(picker.search, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window._parts.models.loaded_path == str(LARGE.path))
    qtbot.waitUntil(lambda: window.header.status.standing is Standing.READY)


def test_picker_says_what_could_not_be_read(open_window: Open, qtbot: QtBot) -> None:
    shelf = Shelf()
    shelf.problems = ("The folder /gone is missing.",)
    window = ready(open_window(shelf), qtbot)
    window.open_picker()
    picker = window.picker
    assert picker is not None
    qtbot.waitUntil(lambda: picker._note.text() == "The folder /gone is missing.")


def test_the_window_looks_into_the_folders_of_the_settings(tmp_path: Path) -> None:
    foreign_models.write_model(tmp_path / "mine" / "Tale.gguf")
    saved = {"app": {"model_folders": [str(tmp_path / "mine"), str(tmp_path / "gone")]}}
    foreign_models.write_json(places().settings_file, saved)
    finder = LibraryFinder()
    assert "Tale" in [model.name for model in finder.scan()]
    assert len(finder.problems) == 1
    assert "gone" in finder.problems[0]


def test_eject_gives_the_memory_back(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    window.header.load_button.click()
    qtbot.waitUntil(lambda: window._parts.client.pid == 0)
    assert window.header.status.standing is Standing.EMPTY
    window.header.load_button.click()
    qtbot.waitUntil(lambda: window.header.status.standing is Standing.READY)


def test_dropped_model_file_is_loaded(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(LARGE.path))])
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    window.dragEnterEvent(QDragEnterEvent(QPointF(10, 10).toPoint(), copy, data, left, none))
    assert window.veil.isVisible()
    window.dropEvent(QDropEvent(QPointF(10, 10), copy, data, left, none))
    assert not window.veil.isVisible()
    qtbot.waitUntil(lambda: window._parts.models.loaded_path == str(LARGE.path))


def drop_texts(window: MainWindow, *paths: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    window.dragEnterEvent(QDragEnterEvent(QPointF(10, 10).toPoint(), copy, data, left, none))
    assert window.veil.isVisible()
    window.dropEvent(QDropEvent(QPointF(10, 10), copy, data, left, none))


def test_dropped_text_files_join_the_message(open_window: Open, qtbot: QtBot, tmp_path: Path) -> None:
    window = ready(open_window(echo=True), qtbot)
    for name in ("notes.txt", "code.py"):
        (tmp_path / name).write_text(f"inside {name}")
    window.composing.composer.set_draft(Draft("Compare these."))
    drop_texts(window, tmp_path / "notes.txt", tmp_path / "code.py")
    qtbot.waitUntil(lambda: len(window.composing.composer.draft.pasted) == 2)
    qtbot.keyClick(window.composing.composer.edit, Qt.Key.Key_Return)
    answered(window, qtbot)
    assert texts(window)[1].startswith("Compare these.")
    assert "notes.txt:\n\ninside notes.txt" in texts(window)[1]


def test_dropped_text_goes_into_the_notebook_where_it_is_open(
    open_window: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    window = open_window()
    (tmp_path / "tale.txt").write_text("Once upon a time")
    window.pages.turn_to("notebook")
    qtbot.waitUntil(window.pages.notebook.isVisible)
    drop_texts(window, tmp_path / "tale.txt")
    qtbot.waitUntil(lambda: "Once upon a time" in window._parts.notebooks.current.text)


def test_a_dropped_picture_is_refused_in_a_sentence(open_window: Open, qtbot: QtBot, tmp_path: Path) -> None:
    window = open_window()
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    drop_texts(window, tmp_path / "cat.png")
    qtbot.waitUntil(lambda: window.notice.code == "not_text")
    assert not window.composing.composer.draft.message


def test_changed_loading_setting_offers_a_reload(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    window.show_panel(True)
    assert window.panel is not None
    window._parts.live.set_values(LoadParams, context_length=2048)
    qtbot.waitUntil(lambda: window.panel._reload_bar.isVisible())
    window.panel.reload_requested.emit()
    qtbot.waitUntil(lambda: not window.panel._reload_bar.isVisible())
    assert window._parts.client.wanted[1].context_length == 2048


def test_system_prompt_is_kept_with_its_chat(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    window.show_prompt(True)
    window.system_prompt.edit.setPlainText("Answer in French.")
    write(window, qtbot, "Hello")
    answered(window, qtbot)
    first = window._parts.session.chat_id
    window.new_chat()
    assert window.system_prompt.text == ""
    window._open_chat(first, None)
    qtbot.waitUntil(lambda: window.system_prompt.text == "Answer in French.")


def test_deleting_the_open_chat_shows_a_new_one_and_undo_brings_it_back(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "Hello")
    answered(window, qtbot)
    chat = window._parts.session.chat_id
    qtbot.waitUntil(lambda: window.sidebar.model.index_of(chat).isValid())
    window.sidebar.delete(window.sidebar.model.index_of(chat))
    assert window._parts.items.rowCount() == 0
    window.sidebar.undo_bar.button.click()
    qtbot.waitUntil(lambda: window._parts.items.rowCount() == 2)
    assert window._parts.session.chat_id == chat


def test_panels_and_place_are_remembered(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    shell = window.window()
    shell.resize(720, 560)  # the offscreen screen is 800 x 800
    window.show_panel(True)
    window.show_sidebar(False)
    window.remember()
    shell.close()
    window._parts.state.flush()
    again = open_window()
    assert again.window().size() == shell.size()
    assert again.panel is not None
    assert again.panel.isVisible()
    assert not again.sidebar.isVisible()


def test_chats_step_aside_where_there_is_no_room_for_them(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    window.window().resize(640, 480)
    window.show_panel(True)
    assert not window.sidebar.isVisible()
    assert window.panel is not None
    assert window.panel.geometry().right() <= window.width()
    window._toggle_sidebar()
    assert window.sidebar.isVisible()
    assert not window.panel.isVisible()


def test_theme_change_reaches_everything_at_once(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    window._parts.themes.choose("dark")
    assert window.view.layout_of_items.style.theme is DARK


def test_title_is_shown_as_plain_text_on_one_line(open_window: Open) -> None:
    window = open_window()
    window._parts.session.title_changed.emit("<b>evil</b>\u202e\nname")
    assert window.window().windowTitle() == "<b>evil</b> name – Quern"


def test_every_action_has_words_keys_and_no_key_twice(open_window: Open) -> None:
    window = open_window()
    keys = [key.toString() for action in window.actions_by_name.values() for key in action.shortcuts()]
    assert len(keys) == len(set(keys))
    assert all(action.text() and action.shortcuts() for action in window.actions_by_name.values())


def test_keys_open_and_close_the_panels(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    for name, panel in (("settings", lambda: window.panel), ("system_prompt", lambda: window.system_prompt)):
        window.actions_by_name[name].trigger()
        assert panel().isVisible()
        window.actions_by_name[name].trigger()
        assert not panel().isVisible()
    window.actions_by_name["shortcuts"].trigger()
    card = window.findChild(ShortcutsCard)
    assert card.isVisible()
    card.close()


def test_everything_that_can_be_reached_by_key_has_a_name(open_window: Open) -> None:
    window = open_window()
    window.show_prompt(True)
    focusable = [
        child for child in window.findChildren(QWidget)
        if child.focusPolicy() & Qt.FocusPolicy.TabFocus and child.isVisible()
    ]  # fmt: skip
    assert len(focusable) > 10
    unnamed = [
        child for child in focusable
        if not child.accessibleName() and not (isinstance(child, QAbstractButton) and child.text())
    ]  # fmt: skip
    assert unnamed == []


def drop(window: MainWindow, path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    event = QDropEvent(QPointF(1, 1), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton,
                       Qt.KeyboardModifier.NoModifier)  # fmt: skip
    window.dropEvent(event)


def test_a_dropped_folder_joins_the_library_and_its_only_model_is_loaded(
    open_window: Open, qtbot: QtBot, tmp_path: Path
) -> None:
    inside = msgspec.structs.replace(STARTER, path=tmp_path / "mine" / "Tale.gguf", name="Tale", source="folder")
    inside.path.parent.mkdir()
    window = open_window(Shelf(STARTER, inside))
    drop(window, inside.path.parent)
    qtbot.waitUntil(lambda: window.header.status.name == "Tale")
    assert parts_of(window).live.app.model_folders == (str(inside.path.parent),)


def test_the_library_opens_by_key_and_a_chosen_model_is_chatted_with(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    window.actions_by_name["library"].trigger()
    assert window.pages.page == "library"
    qtbot.waitUntil(lambda: window.pages.library.rows.rowCount() == 3)
    window.pages.library.choose(str(LARGE.path))
    window.pages.library.do("chat")
    assert window.pages.page == "chat"
    qtbot.waitUntil(lambda: window.header.status.name == "Large 70B")


def test_the_model_of_the_settings_follows_a_renamed_file(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    parts_of(window).live.set_values(AppSettings, model=str(LARGE.path))
    window.pages.library.moved.emit(str(LARGE.path), "/models/New.gguf")
    assert parts_of(window).live.app.model == "/models/New.gguf"


def test_closing_asks_while_a_conversion_runs(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    quits: list[int] = []
    window.quit_requested.connect(lambda: quits.append(1))
    window.ask_before_closing()
    assert window.notice.isVisible()
    window.notice.acted.emit(window.notice.code)
    assert quits == [1]


def test_the_palette_finds_chats_settings_models_and_actions_by_keys_alone(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    write(window, qtbot, "Millers and their stones")
    answered(window, qtbot)
    window.pages.turn_to("library")
    qtbot.waitUntil(lambda: len(window.pages.models) == 3)
    kinds: set[str] = set()
    palette = window.open_palette()
    for typed in ("Millers and", "temperature", "Large 70B", "New chat"):
        palette.search.setText(typed)
        qtbot.waitUntil(lambda: palette.rows.rowCount() > 0)
        kinds.add(palette.rows.index(0).data(Qt.ItemDataRole.AccessibleTextRole).split(", ")[1])
    assert kinds == {"Chat", "Setting", "Model", "Action"}
    qtbot.keyClick(palette.search, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window._parts.items.rowCount() == 0)


def test_a_setting_chosen_in_the_palette_is_shown(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    palette = window.open_palette()
    palette.search.setText("context length")
    qtbot.keyClick(palette.search, Qt.Key.Key_Return)
    assert window.panel is not None
    assert window.panel.isVisible()
    assert window.panel.search.text() == "Context length"


def test_a_model_without_a_chat_template_is_told_and_helped_by_one_click(open_window: Open, qtbot: QtBot) -> None:
    window = ready(open_window(), qtbot)
    engine = EngineInfo(engine="llama", template_guess="chatml")
    parts_of(window).client._info = engine
    parts_of(window).models.ready.emit(engine)
    assert window.notice.isVisible()
    window.notice.acted.emit(window.notice.code)
    assert parts_of(window).live.sampling.template == "chatml"
    assert parts_of(window).live.source_of(SamplingParams, "template") == "model"
