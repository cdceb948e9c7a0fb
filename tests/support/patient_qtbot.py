"""pytest-qt's robot, which waits as long as a busy machine may need: only what never comes is a fault."""

from __future__ import annotations

import time
from typing import Any

from PySide6.QtCore import QCoreApplication, QEvent
from pytestqt.qtbot import QtBot

_LEAST_MS = 60_000
_TURN_MS = 5
_FEWEST_TURNS = 4


def _waits_longer(name: str) -> Any:
    short = getattr(QtBot, name)

    def patient(self: QtBot, *args: Any, timeout: int = _LEAST_MS, **kwargs: Any) -> Any:
        if kwargs.get("raising", True):  # else it may never come, as with `assertNotEmitted`, and time shall just pass
            timeout = max(timeout, _LEAST_MS)
        return short(self, *args, timeout=timeout, **kwargs)

    return patient


class PatientQtBot(QtBot):
    """Its waits end with what they wait for, so that patience costs nothing where all is well."""

    waitUntil = _waits_longer("waitUntil")
    waitSignal = _waits_longer("waitSignal")
    waitSignals = _waits_longer("waitSignals")
    waitExposed = _waits_longer("waitExposed")
    waitActive = _waits_longer("waitActive")


def live(milliseconds: int) -> None:
    """Lets the window live for so long, and for as many turns of its loop as that has where nothing else is to be done.

    `QTest.qWait` counts time only: where this process does not run meanwhile, timers that are due have not fired.
    """
    end = time.monotonic() + milliseconds / 1000
    turns = 0
    while turns < max(milliseconds // _TURN_MS, _FEWEST_TURNS) or time.monotonic() < end:
        QCoreApplication.processEvents()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
        time.sleep(_TURN_MS / 1000)
        turns += 1
    QCoreApplication.processEvents()
