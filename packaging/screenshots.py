"""Pictures of the real window with the starter model: every view, in two themes, languages and scales.

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
# What a reader meets in answers of larger models, so that it is looked at as well.
QUESTION = "How far does a thrown ball fly? Derive it, and give me a table and some code."
ANSWER = r'''<think>
The range follows from the time of flight. Set the height to zero, solve for $t$, and put it into $x(t)$.
</think>

Without air, the height of a ball thrown with speed $v$ at an angle $\alpha$ is

$$ y(t) = v t \sin\alpha - \frac{g t^2}{2}, \qquad R = \frac{v^2 \sin 2\alpha}{g} $$

so **45°** is best. At `v = 20 m/s`:

| Angle | Time of flight | Range |
|------:|---------------:|------:|
| 30° | 2.0 s | 35.3 m |
| 45° | 2.9 s | 40.8 m |
| 60° | 3.5 s | 35.3 m |

```python
from math import radians, sin

def distance(speed: float, angle: float, g: float = 9.81) -> float:
    """Returns how far it flies, in metres."""
    return speed**2 * sin(2 * radians(angle)) / g  # no air
```

1. Twice the speed, four times the distance.
2. 30° and 60° reach equally far.

> 空气阻力会让最佳角度略小于 45°。

مع مقاومة الهواء تكون المسافة أقصر.
'''
SHOWPIECE = "showpiece"
TALE = "The old mill stood where the river bends, and every evening the miller"
ANSWERS = {"temperature": 0.3, "seed": 4, "max_tokens": 160}
_PATIENCE = 300.0


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
        self._import_showpiece()
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
        older, spoken = self._application.window, self._parts.live.app.language
        self._parts.live.set_values(AppSettings, theme=theme, language=language)
        self._until(lambda: language == spoken or self._application.window is not older)  # it is built anew
        self._rest(0.3)
        window = self._application.window
        window.show_panel(True)
        self._opening.shell.activateWindow()
        window.composing.composer.edit.setFocus()
        self._rest(0.8)  # the counter and the colours of code come a moment later
        self._save(name)
        window.show_ledger(True)
        self._rest(1.2)  # the engine is asked what each message takes
        self._save(f"{name}-ledger")
        window.show_ledger(False)
        for page in ("library", "convert"):
            window.pages.turn_to(page)
            self._rest(1.5)  # models are looked for, and the types worked out, beside the window
            self._save(f"{name}-{page}")
        self._notebook(name, window)
        self._reading(name, window)
        self._settings(name, window)
        self._cards(name, window)
        self._beginning(name, window)

    def _notebook(self, name: str, window: Any) -> None:
        books = self._parts.notebooks
        window.pages.turn_to("notebook")
        self._until(lambda: window.pages.notebook.isVisible())
        self._rest(0.5)
        if not books.current.length:
            self._parts.live.set_values(self._sampling, **{**ANSWERS, "max_tokens": 90})
            window.pages.notebook.edit.insertPlainText(TALE)
            window.pages.notebook.go_on()
            self._until(lambda: not books.busy)
            for setting in ANSWERS:
                self._parts.live.reset(self._sampling, setting)
        self._rest(1.0)
        self._save(f"{name}-notebook")

    def _reading(self, name: str, window: Any) -> None:
        """The showpiece: folded and unfolded reasoning, formulas, a table, code; then what is found in it."""
        open_now = self._parts.session.chat_id
        window.pages.turn_to("chat")
        self._parts.session.open(SHOWPIECE)
        self._rest(1.2)
        window.view.verticalScrollBar().setValue(0)
        self._rest(0.3)
        self._save(f"{name}-reading")
        window.find_in_chat.open()
        window.find_in_chat.bar.field.setText("45")
        self._rest(0.6)
        self._save(f"{name}-find")
        window.find_in_chat.close()
        self._parts.session.open(open_now)
        self._rest(0.5)

    def _settings(self, name: str, window: Any) -> None:
        window.show_panel(True)
        panel = window.panel
        for title in ("Creativity", "Chat template", "Expert sampling", "Model"):
            panel.section(title).set_open(True)
        panel.section("Model").toggle_all()
        self._rest(0.8)
        bar = panel.findChild(self._scroll_area, "panelScroll").verticalScrollBar()
        for number in range(1, 4):
            bar.setValue(bar.maximum() * number // 3)
            self._rest(0.3)
            self._save(f"{name}-settings-{number}")
        panel.section("Model").toggle_all()
        for title in ("Creativity", "Chat template", "Expert sampling", "Model"):
            panel.section(title).set_open(False)
        window.show_panel(False)

    def _cards(self, name: str, window: Any) -> None:
        """What lies over the window; each is a window of its own."""
        cards = {
            "palette": window.open_palette, "receipts": window.show_receipts, "diagnostics": window.show_diagnostics,
            "backups": window.show_backups,
        }  # fmt: skip
        for card, opened in cards.items():
            shown = opened()
            self._rest(0.8)
            self._save(f"{name}-{card}", shown)
            shown.close()
        for action, kind in (("models", "ModelPicker"), ("shortcuts", "ShortcutsCard")):
            window.actions_by_name[action].trigger()
            self._rest(0.6)
            shown = next(each for each in self._opening.qt.topLevelWidgets()
                         if type(each).__name__ == kind and each.isVisible())  # fmt: skip
            self._save(f"{name}-{action}", shown)
            shown.close()

    def _beginning(self, name: str, window: Any) -> None:
        """A new chat, and an error above it."""
        from runtime.errors import ErrorInfo

        chat = self._parts.session.chat_id
        window.new_chat()
        self._rest(0.5)
        self._save(f"{name}-new")
        error = ErrorInfo(title="“Large-70B.Q8_0”: 75 GB > 12 GB", message="A sentence, and its cause.",
                          hint="What helps.", details="2026-01-01 12:00 error")  # fmt: skip
        window.notice.show_error(error, action="OK")
        self._rest(0.4)
        self._save(f"{name}-error")
        window.notice.dismiss()
        self._parts.session.open(chat)
        self._rest(0.4)

    def _import_showpiece(self) -> None:
        from desktop.store.records import ChatRecord, MessageRecord, OpenChat, now
        from runtime.messages import Role

        texts = ((Role.USER, QUESTION), (Role.ASSISTANT, ANSWER))
        messages = [
            MessageRecord(id=f"{SHOWPIECE}{number}", chat_id=SHOWPIECE, role=role, content=text, created=now(),
                          parent_id=f"{SHOWPIECE}{number - 1}" if number else None, model="SmolLM2 135M Instruct")
            for number, (role, text) in enumerate(texts)
        ]  # fmt: skip
        chat = ChatRecord(id=SHOWPIECE, title="How far a ball flies", created=now() - 100_000,
                          updated=now() - 100_000, leaf=messages[-1].id)  # fmt: skip
        self._parts.store.import_chat(OpenChat(chat=chat, messages=tuple(messages)))

    @property
    def _sampling(self) -> Any:
        from runtime.params import SamplingParams

        return SamplingParams

    @property
    def _scroll_area(self) -> Any:
        from PySide6.QtWidgets import QScrollArea

        return QScrollArea

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
