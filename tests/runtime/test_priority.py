"""An engine's priority."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="priorities are numbers on Unix only")

CODE = """
import os
from runtime.priority import prefer_answers
print(prefer_answers(), os.getpriority(os.PRIO_PROCESS, 0))
"""


def in_new_process(*before: str) -> list[str]:
    done = subprocess.run([*before, sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_priority_rises_where_that_is_allowed_and_stays_where_not() -> None:
    raised, priority = in_new_process()
    assert (raised, int(priority)) in {("True", -5), ("False", os.getpriority(os.PRIO_PROCESS, 0))}


def test_a_priority_that_was_given_stays() -> None:
    assert in_new_process("nice", "-n", "3") == ["False", str(os.getpriority(os.PRIO_PROCESS, 0) + 3)]


def test_a_system_that_forbids_it_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from runtime import priority

    def refuse(*_arguments: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "getpriority", lambda *_arguments: 0)
    monkeypatch.setattr(os, "setpriority", refuse)
    assert priority.prefer_answers() is False
