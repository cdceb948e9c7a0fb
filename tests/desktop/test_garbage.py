"""Objects of the window are destroyed in the window's thread, whoever allocates."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.garbage import MainThreadGarbage

DESTROYED_IN: list[str] = []


class Cyclic(QObject):
    """Holds itself, so that only the collector can free it, and notes where that happened."""

    def __init__(self) -> None:
        super().__init__()
        self.itself = self

    def __del__(self) -> None:
        DESTROYED_IN.append(threading.current_thread().name)


@pytest.fixture
def collector(qapp: QApplication) -> Iterator[MainThreadGarbage]:
    was_enabled = gc.isenabled()
    DESTROYED_IN.clear()
    made = MainThreadGarbage()
    yield made
    made.close()
    if not was_enabled:
        gc.disable()


def allocate_much() -> list[list[int]]:
    """Makes enough objects at one time for a collection to be due."""
    return [[number] for number in range(20_000)]


def test_a_busy_thread_destroys_nothing(collector: MainThreadGarbage, qtbot: QtBot) -> None:
    Cyclic()
    busy = threading.Thread(target=allocate_much, name="busy")
    busy.start()
    busy.join()
    assert DESTROYED_IN == []
    kept = allocate_much()
    qtbot.waitUntil(lambda: bool(DESTROYED_IN))
    assert kept
    assert [threading.current_thread().name] == DESTROYED_IN


def test_collecting_is_given_back(qapp: QApplication) -> None:
    collector = MainThreadGarbage()
    assert not gc.isenabled()
    collector.close()
    assert gc.isenabled()
    gc.disable()
    assert QCoreApplication.instance() is qapp


def test_a_whole_collection_waits_until_nothing_happens(
    collector: MainThreadGarbage, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cyclic()
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, gc.get_threshold()[2] + 1))

    collector._collect_due()

    assert DESTROYED_IN == []
    assert collector._when_quiet.isActive()
    collector._when_quiet.timeout.emit()
    assert len(DESTROYED_IN) == 1
    assert not collector._when_quiet.isActive()
