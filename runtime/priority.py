"""Lets an answer that a person waits for come before background work, where the system allows it. Knows no engine."""

from __future__ import annotations

import contextlib
import os

_ABOVE_NORMAL = -5  # on Unix a matter of privilege: root, or a limit that the administrator has raised


def prefer_answers() -> bool:
    """Raises the priority of this process and of the threads it starts from now on; returns whether that was allowed.

    Evenly shared, two computing threads beside two busy processes keep about 0.4 of their speed: half of the time is
    theirs, and each waits for the other at every layer.
    """
    if os.name == "nt":
        import psutil  # only here: Windows allows it to everybody, and Python's own library cannot say it

        psutil.Process().nice(psutil.ABOVE_NORMAL_PRIORITY_CLASS)
        return True
    with contextlib.suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, 0) == 0:  # whoever was given another priority keeps it
            os.setpriority(os.PRIO_PROCESS, 0, _ABOVE_NORMAL)
            return True
    return False
