"""Work in threads: what came of it arrives in the window's thread, and nothing of Qt is destroyed anywhere else."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from shiboken6 import delete

from desktop.background import Background
from runtime.errors import ErrorInfo, UserError


class _Refused(UserError):
    code = "refused"

    def __init__(self) -> None:
        super().__init__("It was refused.", "", "")


def _refuse() -> None:
    raise _Refused


def _break() -> None:
    raise ZeroDivisionError


def _take(_held: QObject, _what: object) -> None:
    """Takes a result on behalf of an object that it keeps alive."""


class _Finder(QObject):
    """Looks for something by itself, as the window's models do."""

    def __init__(self, held: threading.Event) -> None:
        super().__init__()
        self._held, self.found = held, False
        Background(self).run(self._look, self._take)

    def _look(self) -> bool:
        return self._held.wait(60)

    def _take(self, found: bool) -> None:
        self.found = found


def test_work_is_done_elsewhere_and_its_result_arrives_here(qtbot: QtBot) -> None:
    parent, came = QObject(), list[tuple[threading.Thread, threading.Thread]]()
    Background(parent).run(threading.current_thread, lambda there: came.append((there, threading.current_thread())))
    qtbot.waitUntil(lambda: bool(came))
    (there, here), = came
    assert here is threading.main_thread()
    assert there is not here


def test_an_error_that_is_returned_is_a_result(qtbot: QtBot) -> None:
    parent, came = QObject(), list[object]()
    Background(parent).run(_Refused, came.append)
    qtbot.waitUntil(lambda: bool(came))
    assert isinstance(came[0], _Refused)


@pytest.mark.parametrize("named", [True, False], ids=["by whoever asked", "by a signal"])
def test_what_went_wrong_is_told(named: bool, qtbot: QtBot) -> None:
    parent, told = QObject(), list[ErrorInfo]()
    background = Background(parent)
    if named:
        background.run(_refuse, failed=told.append)
    else:
        background.failed.connect(told.append)
        background.run(_refuse)
    qtbot.waitUntil(lambda: bool(told))
    assert [error.code for error in told] == ["refused"]


@pytest.mark.parametrize(("work", "noticed"), [(lambda: 1, 0), (_refuse, 0), (_break, 1)])
def test_what_is_over_is_let_go(
    work: Callable[[], Any], noticed: int, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[type] = []
    monkeypatch.setattr(threading, "excepthook", lambda told: broken.append(told.exc_type))
    parent = QObject()
    held, background = weakref.ref(parent), Background(parent)
    background.run(work, partial(_take, parent), failed=partial(_take, parent))
    del parent, background
    qtbot.waitUntil(lambda: held() is None and len(broken) == noticed)


def test_what_comes_after_its_owner_is_gone_is_dropped(qtbot: QtBot) -> None:
    parent, came, over = QObject(), list[object](), list[object]()
    released = threading.Event()
    Background(parent).run(lambda: released.wait(60), came.append)
    delete(parent)
    released.set()
    after = QObject()
    Background(after).run(lambda: None, over.append)
    qtbot.waitUntil(lambda: bool(over))
    assert came == []


def test_whoever_is_let_go_while_a_thread_works_is_destroyed_here(qapp: QApplication, qtbot: QtBot) -> None:
    where: list[threading.Thread] = []
    held = threading.Event()
    finder = _Finder(held)
    finder.destroyed.connect(lambda: where.append(threading.current_thread()))
    gone = weakref.ref(finder)
    del finder
    held.set()
    qtbot.waitUntil(lambda: gone() is None)
    assert where == [threading.main_thread()]
