"""The real window with a scripted engine and a user who does anything at random, seeded; a test is the other end.

    python tests/support/random_user.py '{"seed": 7, "actions": 500, "home": "/tmp/q", "models": "/tmp/m"}'

As a program it opens the window, takes actions from `first` on until one closes or kills the window, holds everything
against a ledger after each, and prints what it found as one line of JSON. `RandomUser` starts one such window after the
other until all actions are done. Every action draws from numbers of its own, so that `only` can leave others out: that
is how a failing list is made short.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE_SECONDS = 3600
_ALONE_SECONDS = 5.0  # how long children may outlive their window


@dataclass
class Report:
    """What came of a seed."""

    seed: int
    done: list[str] = field(default_factory=list)  # "12 send"
    faults: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")  # milliseconds, where

    def __str__(self) -> str:
        return "\n".join((f"seed {self.seed}", *self.faults, "after", ", ".join(self.done)))


def make_models(folder: Path) -> None:
    """Makes the models that lie on this user's disk, among them one that is no model."""
    import tiny_gguf  # not in the window's own process

    folder.mkdir(parents=True)
    for name in ("Tiny-Instruct.gguf", "Zwölf 模型.gguf"):
        tiny_gguf.write_tiny(folder / name, n_layers=1, d_model=32, n_heads=2, n_kv_heads=1, d_ff=32)
    (folder / "zz-damaged.gguf").write_bytes(b"GGUF and then nothing")


def play(seed: int, actions: int, folder: Path, *, only: Sequence[int] | None = None) -> Report:
    """Lets a random user act, in as many windows as that takes, and returns what came of it."""
    report, first = Report(seed), 0
    place = folder / "home" / "of" / "somebody"  # file dialogs open here, and a few folders up is still ours
    place.mkdir(parents=True, exist_ok=True)
    while first < actions and not report.faults:
        plan = {"seed": seed, "actions": actions, "first": first, "home": str(folder / "profile"),
                "models": str(folder / "models"), "place": str(place),
                "only": list(only) if only is not None else None}  # fmt: skip
        said = _one_window(plan, report)
        first = said["next"] if said else actions
    return report


def _one_window(plan: dict[str, Any], report: Report) -> dict[str, Any] | None:
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests" / "support")))
    environment = {**os.environ, "PYTHONPATH": paths, "QT_QPA_PLATFORM": "offscreen", "QUERN_HOME": plan["home"]}
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", __file__, json.dumps(plan)], env=environment, start_new_session=True,
        cwd=plan["place"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler says where it hangs
        out, err = process.communicate()
        report.faults.append(f"the window hung\n{err[-4000:]}")
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    said = lines[-1] if lines else None
    if said is None:
        report.faults.append(f"the window ended with {process.returncode}\n{err[-4000:]}")
        return None
    report.done += said["done"]
    report.faults += said["faults"]
    report.slowest = max(report.slowest, (said["slowest"], said["where"]))
    if process.returncode not in (0, -signal.SIGKILL) or (process.returncode and not said["killed"]):
        report.faults.append(f"the window ended with {process.returncode}\n{err[-4000:]}")
    if left := _left_behind(process.pid):
        report.faults.append(f"processes were left behind: {left}")
    return said


def _left_behind(session: int) -> list[str]:
    """Waits a moment for the window's children and returns those that stay; they are ended then."""
    deadline = time.monotonic() + _ALONE_SECONDS
    while (left := _members(session)) and time.monotonic() < deadline:
        time.sleep(0.05)
    found = []
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(" ".join(process.cmdline())[:200])
            process.kill()
    return found


def _members(session: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == session and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
                process.resume()  # one that was frozen cannot hear that the window is gone
    return found


def main(plan: dict[str, Any]) -> int:
    from user_window import UserWindow

    return UserWindow(plan).run()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
