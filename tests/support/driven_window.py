"""The real application in a process of its own, driven line by line: what is typed goes in, what is shown comes out.

As a program it runs the window offscreen and answers one JSON line to each command on stdin. `DrivenWindow` is the
other end, for tests.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lived_time import clock, waited

ROOT = Path(__file__).resolve().parent.parent.parent
_PATIENCE = 300.0  # seconds; only what never comes is a fault here


class DrivenWindow:
    """One running window on a profile folder."""

    def __init__(self, home: Path, *, script: dict[str, Any] | None = None, **environment: str) -> None:
        """With a `script`, a scripted engine answers in place of the real one."""
        settings = {"QUERN_HOME": str(home), "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT), **environment}
        if script is not None:
            settings["QUERN_TEST_SCRIPT"] = json.dumps(script)
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **settings}
        )

    def do(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Sends a command and returns the window's state after it. Raises RuntimeError where the window is gone."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"do": command, **arguments}).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise RuntimeError("the window is gone") from error
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the window is gone")
        state: dict[str, Any] = json.loads(line)
        return state

    def until(self, reached: Callable[[dict[str, Any]], bool], *, seconds: float = _PATIENCE) -> dict[str, Any]:
        """Returns the first state that fits. Raises AssertionError after a while."""
        deadline = clock().now() + seconds
        state = self.do("look")
        while not reached(state):
            assert clock().now() < deadline, f"never reached: {state}"
            time.sleep(0.02)
            state = self.do("look")
        return state

    def lived(self) -> float:
        """Returns seconds since some moment, without those in which it stood still or waited for a processor."""
        return clock().now() - waited(self.process.pid)

    def ready(self) -> dict[str, Any]:
        """Waits until the model is loaded."""
        return self.until(lambda state: state["engine"] == "ready")

    def close(self) -> int:
        """Closes the window as a person would, and returns its exit code."""
        self.do("close")
        code = self.process.wait(_PATIENCE)
        self.kill()
        return code

    def kill(self) -> None:
        """Ends the window the hard way, if it still runs, and lets go of its pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _run() -> int:
    from PySide6.QtCore import QSocketNotifier

    from desktop.app import Opening

    if script := os.environ.pop("QUERN_TEST_SCRIPT", ""):
        import scripted_engine
        from desktop import application

        application.EngineClient = functools.partial(  # type: ignore[misc, assignment]
            application.EngineClient, command=lambda: scripted_engine.command(**json.loads(script))
        )
    opening = Opening()
    if not opening.first:
        return 3
    driver = _Driver(opening)
    notifier = QSocketNotifier(0, QSocketNotifier.Type.Read)
    notifier.setEnabled(False)
    notifier.activated.connect(driver.read)
    opening.shell.furnished.connect(lambda: notifier.setEnabled(True))  # after everything was built
    return opening.run()


class _Driver:
    def __init__(self, opening: Any) -> None:
        self._opening = opening
        self._rest = b""

    def read(self) -> None:
        data = os.read(0, 65536)
        if not data:
            self._opening.shell.close()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, command: dict[str, Any]) -> None:
        if self._opening.application is not None:
            self._act(command, self._opening.application.parts.session)
        sys.stdout.write(json.dumps(self._state()) + "\n")
        sys.stdout.flush()
        if command["do"] == "close":
            self._opening.shell.close()

    def _act(self, command: dict[str, Any], session: Any) -> None:
        match command["do"]:
            case "send":
                session.send(command["text"])
            case "stop":
                session.stop()
            case "open":
                session.open(command["chat"])
            case "regenerate":
                session.regenerate(command["id"])
            case "edit":
                session.edit_and_resend(command["id"], command["text"])
            case "new":
                session.new_chat()
            case "draft":
                session.set_draft(command["text"])
            case "rename":
                session.rename_chat(session.chat_id, command["text"])
            case "delete":
                session.delete_chat(command["chat"])
            case "restore":
                self._opening.application.parts.store.restore_chat(command["chat"])
            case "import":
                self._opening.application.window.exchange.read(Path(command["path"]))
            case "convert":
                self._convert(Path(command["path"]), Path(command["target"]))

    def _convert(self, source: Path, target: Path) -> None:
        from desktop.convert.conversion import Conversion

        self._opening.application.parts.jobs.add(Conversion(source, target, "Q8_0"))

    def _state(self) -> dict[str, Any]:
        if self._opening.application is None:
            return {"engine": "not yet", "texts": [], "states": []}
        parts = self._opening.application.parts
        items = parts.items.items()
        return {
            "engine": str(parts.client.state),
            "pid": parts.client.pid,
            "chat": parts.session.chat_id,
            "texts": [item.text for item in items],
            "states": [str(item.state) for item in items],
            "ids": [item.id for item in items],
            "error": next((item.error.title for item in reversed(items) if item.error), ""),
        }


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(_run())
