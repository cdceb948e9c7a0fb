"""pytest-qt's robot, which waits as long as a busy machine may need: only what never comes is a fault."""

from __future__ import annotations

from typing import Any

from pytestqt.qtbot import QtBot

_LEAST_MS = 60_000


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
