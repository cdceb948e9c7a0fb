"""Starts the window: can one open at all, is Quern running already, and then a first paint before all other imports.

What is heavy or may be slow (settings, chats, the engine, the widgets themselves) comes with `Application`, right
after the window was painted for the first time.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from desktop.platform_check import check_platform
from runtime.errors import UserError
from runtime.text import set_language

if TYPE_CHECKING:
    from desktop.application import Application


def main(words: list[str] | None = None) -> int:
    """Opens the window, with the model file that `words` may name, and returns the exit code when it is closed."""
    arguments = sys.argv[1:] if words is None else words
    set_language()
    try:
        check_platform()
        opening = Opening(os.path.abspath(arguments[0]) if arguments else "")
        return opening.run() if opening.first else 0
    except UserError as error:
        if sys.stderr is not None:
            sys.stderr.write(f"{error}\n")
        return 2


class Opening:
    """The first quarter of a second: a shell on the screen, in the colours of the last time."""

    def __init__(self, path: str = "") -> None:
        """Raises `UserError` where the profile cannot be used."""
        from PySide6.QtWidgets import QApplication

        from desktop.shell import Shell
        from desktop.single_instance import SingleInstance
        from desktop.state_file import StateFile
        from desktop.theme import ThemeSource
        from runtime.places import places

        self._path, self.places = path, places()
        qt = QApplication.instance() or QApplication(sys.argv[:1])
        assert isinstance(qt, QApplication)
        self.qt = qt
        self.instance = SingleInstance(self.places.data)
        self.first = self.instance.acquire(path)
        self.state = StateFile(self.places.state_file)
        self.themes = ThemeSource(qt)
        self.application: Application | None = None
        if self.first:
            self.themes.choose(str(self.state.get("theme", "system")))
            self._name_application()
            self.shell = Shell(self.state)
            self.shell.painted.connect(self.furnish)
            self.shell.closing.connect(self._closed_early)

    def _name_application(self) -> None:
        self.qt.setApplicationName("quern")
        self.qt.setApplicationDisplayName("Quern")
        self.qt.setDesktopFileName("quern")
        self.qt.setQuitOnLastWindowClosed(False)

    def run(self) -> int:
        """Shows the window and returns the exit code when everything has ended."""
        self.shell.show()
        code = self.qt.exec()
        if self.application is not None:
            self.application.leave()
        self.instance.release()
        return code

    def furnish(self) -> None:
        """Builds everything else. A failure ends the process: a window that does nothing helps nobody."""
        try:
            from desktop.application import Application

            self.application = Application(self)
            self.application.start(self._path)
        finally:
            if self.application is None:
                self.qt.exit(1)

    def _closed_early(self) -> None:
        if self.application is None:
            self.qt.quit()


