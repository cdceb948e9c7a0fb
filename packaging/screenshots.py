"""Pictures of the real window with the starter model: a chat and the other views, two themes, languages and scales.

    python packaging/screenshots.py                 into build/screenshots; README's picture into packaging/screenshots
    python packaging/screenshots.py --only light-en-150

Every scale is a process of its own, because Qt reads it once. The chats are made by the first and kept for the others.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOR_README = ROOT / "packaging" / "screenshots" / "window.png"
README_NAME = "light-en-150"
THEMES, LANGUAGES, SCALES = ("light", "dark"), ("en", "zh_CN"), (100, 150)
SIZE = (1280, 800)
CHATS = (
    ("Explain in simple words why the sky is blue.",),
    ("Write a short poem about the sea.",),
    (
        "What is the capital city of France? Answer in one sentence.",
        "Name three things to see there, as a list.",
    ),
)
ANSWERS = {"temperature": 0.3, "seed": 4, "max_tokens": 160}
_PATIENCE = 120.0


def main() -> int:
    """Makes the pictures and returns 0; the processes it starts come back here with `--scale`."""
    arguments = _arguments()
    if arguments.scale:
        sys.path.insert(0, str(ROOT))
        Photographer(arguments.out, arguments.scale, arguments.only).run()
        return 0
    shutil.rmtree(arguments.out, ignore_errors=True)
    arguments.out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as home:
        for scale in SCALES:
            if any(name.startswith(arguments.only) for name in names(scale)):
                _run_at(scale, home, arguments)
    picture = arguments.out / f"{README_NAME}.png"
    if picture.exists():
        FOR_README.parent.mkdir(exist_ok=True)
        shutil.copy(picture, FOR_README)
    return 0


def names(scale: int) -> Iterator[str]:
    """Yields the names of the pictures of one scale, without their ending."""
    for theme in THEMES:
        for language in LANGUAGES:
            yield f"{theme}-{language}-{scale}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "screenshots")
    parser.add_argument("--only", default="", help="make only pictures whose name begins like this")
    parser.add_argument("--scale", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def _run_at(scale: int, home: str, arguments: argparse.Namespace) -> None:
    profile = {"QUERN_HOME": home, "QT_SCALE_FACTOR": str(scale / 100)}
    environment = {"QT_QPA_PLATFORM": "offscreen", **os.environ, **profile}
    command = [sys.executable, __file__, "--out", str(arguments.out), "--only", arguments.only, "--scale", str(scale)]
    subprocess.run(command, env=environment, check=True)


class Photographer:
    """One window, dressed and worded in turn."""

    def __init__(self, out: Path, scale: int, only: str) -> None:
        from desktop.app import Opening

        self._out, self._scale, self._only = out, scale, only
        self._opening = Opening()
        self._opening.shell.resize(*SIZE)
        self._opening.shell.show()
        self._until(lambda: self._opening.application is not None)

    @property
    def _application(self) -> Any:
        assert self._opening.application is not None, "the window is not furnished yet"
        return self._opening.application

    @property
    def _parts(self) -> Any:
        return self._application.parts

    def run(self) -> None:
        """Makes all pictures of this scale."""
        self._until(lambda: self._parts.client.info is not None)
        self._have_chats()
        for name in names(self._scale):
            if name.startswith(self._only):
                self._picture(name)
        self._opening.shell.close()
        self._opening.qt.exec()
        self._application.leave()
        self._opening.instance.release()

    def _have_chats(self) -> None:
        from runtime.params import SamplingParams

        listed: list[Any] = []
        self._parts.store.list_chats(listed.append)
        self._until(lambda: bool(listed))
        if listed[0]:
            self._parts.session.open(listed[0][0].id)
            self._until(lambda: self._parts.items.rowCount() > 0)
            return
        self._parts.live.set_values(SamplingParams, **ANSWERS)
        for questions in CHATS:
            self._parts.session.new_chat()
            for question in questions:
                self._application.window.composing.send(question)
                self._until(lambda: not self._parts.session.busy)
        for name in ANSWERS:
            self._parts.live.reset(SamplingParams, name)

    def _picture(self, name: str) -> None:
        from runtime.params import AppSettings

        theme, language, _scale = name.split("-")
        self._parts.live.set_values(AppSettings, theme=theme, language=language)
        self._rest(0.2)  # the window is built anew for another language
        window = self._application.window
        window.show_panel(True)
        self._opening.shell.activateWindow()
        window.composing.composer.edit.setFocus()
        self._rest(0.8)  # the counter and the colours of code come a moment later
        self._save(name)
        window.show_ledger(True)
        self._rest(1.2)  # the engine is asked what each message takes
        self._save(f"{name}-ledger")
        window.show_panel(True)
        for page in ("library", "convert"):
            window.pages.turn_to(page)
            self._rest(1.5)  # models are looked for, and the types worked out, beside the window
            self._save(f"{name}-{page}")
        window.pages.turn_to("chat")
        palette = window.open_palette()
        self._rest(0.5)
        self._save(f"{name}-palette", palette)  # a window of its own
        palette.close()

    def _save(self, name: str, widget: Any = None) -> None:
        (widget or self._opening.shell).grab().save(str(self._out / f"{name}.png"))

    def _until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not reached():
            if time.monotonic() > deadline:
                raise SystemExit("the window did not get there in time")
            self._rest(0.02)

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._opening.qt.processEvents()
            time.sleep(0.005)


if __name__ == "__main__":
    raise SystemExit(main())
