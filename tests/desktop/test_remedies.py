"""Each error that reaches the window says why and what to do, and where the program can do it, one click does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

import error_samples
from desktop import remedies
from desktop.chat.header import Standing
from desktop.chat.view.message_model import ItemState
from desktop.diagnostics_card import DiagnosticsCard
from desktop.engine_crash import EngineEnded
from desktop.main_window import MainWindow
from desktop.remedies import REMEDIES, Action
from desktop.remedy_actions import _no_larger
from runtime.errors import ErrorInfo, UserError
from window_kit import plain_windows

OURS = [kind for kind in error_samples.kinds() if not kind.__module__.startswith("desktop.cli")]
KINDS = {kind.code: kind for kind in (*OURS, EngineEnded)}
# Made without a class of their own, where they happen.
PLAIN = {"bug", "engine_bug", "out_of_memory", "job_died", "convert_bug", "context_at_most"}
STOPPED_BY_THE_PERSON = {"load_stopped", "load_cancelled"}
Open = Callable[..., MainWindow]


@pytest.fixture
def open_window(qapp: QApplication, qtbot: QtBot) -> Iterator[Open]:
    with plain_windows((1200, 800)) as plain:

        def opened(**script: Any) -> MainWindow:
            window = plain(**script)
            qtbot.waitUntil(lambda: window.header.status.standing in (Standing.READY, Standing.FAILED))
            return window

        yield opened


# --- the table -----------------------------------------------------------------------------------------------------


def test_every_error_has_one_place_in_the_table() -> None:
    places = (REMEDIES, remedies.ELSEWHERE, remedies.OF_THE_CONVERTER, remedies.NOT_IN_THE_WINDOW)
    listed = [code for place in places for code in place]
    assert sorted(listed) == sorted(set(listed))
    assert set(KINDS) | PLAIN == set(listed)


@pytest.mark.parametrize("code", sorted(set(REMEDIES) - PLAIN))
def test_an_error_with_a_remedy_says_its_cause_and_gives_advice(code: str) -> None:
    info = error_samples.sample(KINDS[code]).info
    assert info.title
    assert info.hint or code in STOPPED_BY_THE_PERSON
    assert info.message or code in STOPPED_BY_THE_PERSON
    assert remedies.words_for(code)


@pytest.mark.parametrize("code", sorted(code for code, remedy in REMEDIES.items() if remedy.name))
def test_a_setting_that_helps_is_one_that_the_panel_finds(code: str) -> None:
    from desktop.settings.panel import matching
    from runtime.settings import fields_of

    remedy = REMEDIES[code]
    assert remedy.name in (matching(fields_of(remedy.group), remedy.title) or ())


# --- what the buttons do -------------------------------------------------------------------------------------------


def press(window: MainWindow, code: str) -> None:
    window.show_problem(ErrorInfo(title="It failed.", code=code))
    assert window.notice._button.isVisible()
    window.notice._button.click()


def code_for(action: Action) -> str:
    return next(code for code, remedy in REMEDIES.items() if remedy.action is action)


def test_every_action_is_done_by_somebody(open_window: Open) -> None:
    window = open_window()
    known = {*window.remedies._openings, *window.remedies._doings, Action.SETTING}
    assert known == set(Action)


def test_list_of_models_library_template_and_settings_open(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    press(window, code_for(Action.MODELS))
    assert window.picker is not None
    assert window.picker.isVisible()
    window.picker.close()
    press(window, code_for(Action.LIBRARY))
    qtbot.waitUntil(lambda: window.pages.page == "library")
    window.pages.turn_to("chat")
    press(window, "nothing_may_be_left_out")
    assert window.panel is not None
    assert window.panel.search.text() == "When the context is full"
    press(window, code_for(Action.TEMPLATE))
    assert window.panel.search.text() == "Chat template"


def test_folders_and_dialogs_open(open_window: Open, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    window = open_window()
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    from runtime.places import places

    press(window, code_for(Action.DATA_FOLDER))
    press(window, code_for(Action.LOGS))
    assert opened[0] == str(places().data)
    assert len(opened) == 2
    press(window, code_for(Action.IMPORT))
    dialogs = window.findChildren(QFileDialog)
    assert dialogs
    for dialog in dialogs:
        dialog.close()


def test_diagnostics_open(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    press(window, code_for(Action.DIAGNOSTICS))
    card = next(card for card in window.findChildren(DiagnosticsCard) if card.isVisible())
    qtbot.waitUntil(lambda: "Python" in card.text.toPlainText())
    card.close()


def test_a_new_chat_begins(open_window: Open) -> None:
    window = open_window()
    before = window._parts.session.chat_id
    press(window, code_for(Action.NEW_CHAT))
    assert window._parts.session.chat_id != before


@pytest.mark.parametrize(("code", "length"), [("no_room_for_context", 2048), ("prompt_too_long", 8192)])
def test_the_model_is_loaded_with_another_context(open_window: Open, qtbot: QtBot, code: str, length: int) -> None:
    window = open_window(context=4096)
    client = window._parts.client
    with qtbot.waitSignal(client.loaded):
        press(window, code)
    assert client.wanted is not None
    assert client.wanted[1].context_length == length
    assert window._parts.live.load.context_length == length


def test_a_context_as_long_as_the_model_allows_is_said(open_window: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    window = open_window(context=4096, trained=4096)
    press(window, "prompt_too_long")
    assert window.notice.code == "context_at_most"
    assert "4,096" in window.notice._cause.text()
    assert window.notice._button.text() == "Start a new chat"
    assert _no_larger(7).code in REMEDIES


def test_the_smallest_context_offers_another_model(open_window: Open) -> None:
    window = open_window(context=512)
    press(window, "no_room_for_context")
    assert window.picker is not None
    assert window.picker.isVisible()
    window.picker.close()


def test_a_model_is_loaded_again_or_anyway(open_window: Open, qtbot: QtBot) -> None:
    window = open_window()
    for action in (Action.LOAD, Action.LOAD_ANYWAY):
        with qtbot.waitSignal(window._parts.client.loaded):
            press(window, code_for(action))


def failed_answer(window: MainWindow, qtbot: QtBot) -> str:
    window._parts.session.send("hello")
    qtbot.waitUntil(lambda: not window._parts.session.busy and window._parts.items.rowCount() == 2)
    assert window._parts.items.item(1).state is ItemState.FAILED
    return window._parts.items.item(1).id


def test_an_answer_that_failed_carries_the_button_and_is_asked_for_again(open_window: Open, qtbot: QtBot) -> None:
    window = open_window(fail="It is too long.", fail_code="prompt_too_long", fail_once=True)
    failed = failed_answer(window, qtbot)
    notice = window.view.layout_of_items.items[1].notice
    assert [button.text for button in notice.buttons] == ["Load with a larger context", "Try again"]
    window.view.remedy_requested.emit(failed)
    qtbot.waitUntil(lambda: window._parts.items.item(1).state is ItemState.COMPLETE)
    assert window._parts.items.item(1).versions == 2
    assert window._parts.live.load.context_length == 8192


def test_unpinning_all_asks_again_and_can_be_undone(open_window: Open, qtbot: QtBot) -> None:
    window = open_window(fail="Too many pins.", fail_code="pinned_too_long", fail_once=True)
    failed = failed_answer(window, qtbot)
    session = window._parts.session
    session.pin([session.branch[0].id], True)
    window.view.remedy_requested.emit(failed)
    assert session.pinned == ()
    qtbot.waitUntil(lambda: window._parts.items.item(1).state is ItemState.COMPLETE)
    qtbot.mouseClick(window.composing.undo_bar.button, Qt.MouseButton.LeftButton)
    assert session.pinned == (session.branch[0].id,)


def test_trying_again_asks_for_the_answer_that_failed(open_window: Open, qtbot: QtBot) -> None:
    window = open_window(fail="It hung.", fail_code="engine_hung", fail_once=True)
    failed_answer(window, qtbot)
    press(window, code_for(Action.RETRY))
    qtbot.waitUntil(lambda: window._parts.items.item(1).state is ItemState.COMPLETE)


def test_that_chats_are_not_saved_stays_on_the_screen_while_the_folder_is_opened(
    open_window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = open_window()
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda _url: True)
    press(window, "chats_not_saved")
    assert window.notice.code == "chats_not_saved"


def test_an_error_without_a_remedy_has_no_button(open_window: Open) -> None:
    window = open_window()
    window.show_problem(UserError("It failed.", code="memory_unknown").info)
    assert not window.notice._button.isVisible()
