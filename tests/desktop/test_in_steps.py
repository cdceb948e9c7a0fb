"""Long work is done a step a turn, and what else happens comes in between."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QObject, QTimer
from pytestqt.exceptions import capture_exceptions
from pytestqt.qtbot import QtBot

from desktop.in_steps import InSteps


def steps(seen: list[str], count: int = 3) -> Iterator[None]:
    for number in range(count):
        seen.append(f"step {number}")
        yield


def test_other_events_come_between_the_steps(qtbot: QtBot) -> None:
    seen: list[str] = []
    parent = QObject()
    InSteps(steps(seen), parent)
    QTimer.singleShot(0, lambda: seen.append("other"))

    qtbot.waitUntil(lambda: len(seen) == 4)

    assert seen.index("other") < seen.index("step 2")


def test_what_was_stopped_does_no_more(qtbot: QtBot) -> None:
    seen: list[str] = []
    parent = QObject()
    work = InSteps(steps(seen), parent)

    work.stop()
    qtbot.wait(30)

    assert seen == []


def test_a_step_that_fails_is_the_last_one(qtbot: QtBot) -> None:
    seen: list[str] = []

    def failing() -> Iterator[None]:
        seen.append("first")
        yield
        raise ValueError("no")

    parent = QObject()
    with capture_exceptions() as errors:
        InSteps(failing(), parent)
        qtbot.wait(50)

    assert seen == ["first"]
    assert len(errors) == 1
