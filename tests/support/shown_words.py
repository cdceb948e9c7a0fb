"""The real window in a process of its own: its words in English, and again after another language was chosen in it.

As a program it runs the window offscreen, opens every panel, chooses the language that its first word names in the
settings, and writes both lists of words as one JSON line. `words_in_both` is the other end, for tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from desktop.app import Opening
    from desktop.main_window import MainWindow

ROOT = Path(__file__).resolve().parent.parent.parent
_PATIENCE = 120.0


def words_in_both(home: Path, language: str) -> tuple[set[str], set[str]]:
    """Returns all that a window on the profile `home` says: in English, and after `language` was chosen."""
    home.mkdir(parents=True, exist_ok=True)
    settings = {"version": 1, "app": {"language": "en", "load_at_start": False}}
    (home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    environment = {"QUERN_HOME": str(home), "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, __file__, language],
        env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True, timeout=_PATIENCE,
    )  # fmt: skip
    before, after = json.loads(done.stdout)
    return set(before), set(after)


def _run(language: str) -> int:
    from desktop.app import Opening

    opening = Opening()
    opening.shell.furnished.connect(lambda: _report(opening, language))  # after everything was built
    return opening.run()


def _report(opening: Opening, language: str) -> None:
    try:
        sys.stdout.write(json.dumps(_compared(opening, language)) + "\n")
    finally:
        opening.shell.close()


def _compared(opening: Opening, language: str) -> tuple[list[str], list[str]]:
    from PySide6.QtWidgets import QComboBox

    assert opening.application is not None
    english = opening.application.window
    before = _opened(english)
    assert english.panel is not None
    box = english.panel.section("Appearance").rows["language"].findChild(QComboBox)
    assert isinstance(box, QComboBox)
    box.activated.emit(box.findData(language))
    while opening.application.window is english:
        opening.qt.processEvents()
    return before, _opened(opening.application.window)


def _opened(window: MainWindow) -> list[str]:
    """Returns the words of a window with everything in it unfolded."""
    from PySide6.QtWidgets import QWidget

    from runtime.params import GROUPS
    from runtime.settings import fields_of

    window.show_panel(True)
    assert window.panel is not None
    for section in window.panel.sections:
        section.set_filter(frozenset(declared.name for group in GROUPS for declared in fields_of(group)))
        section.set_filter(None)
        section.set_open(True)
    return sorted({word for widget in window.findChildren(QWidget) for word in _words(widget)})


def _words(widget: QWidget) -> Iterable[str]:
    for name in ("text", "placeholderText", "currentText", "toolTip", "accessibleName", "accessibleDescription"):
        found = getattr(widget, name, "")
        found = found() if callable(found) else found
        if isinstance(found, str) and any(letter.isalpha() for letter in found):
            yield found


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(_run(sys.argv[1]))
