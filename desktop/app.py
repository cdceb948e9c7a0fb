"""Starts the window: can one open at all, is Quern running already, and then a first paint before all other imports.

What is heavy or may be slow (settings, chats, the engine, the widgets themselves) comes with `Application`, right
after the window was painted for the first time.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from desktop.input_method import choose_input_method
from desktop.platform_check import check_platform
from runtime.errors import UserError
from runtime.text import set_language

if TYPE_CHECKING:
    from desktop.application import Application
    from desktop.in_steps import InSteps

# What the window needs, in portions of which none takes long to import.
_NEEDED = (
    "runtime.params", "runtime.saved_settings", "desktop.look", "desktop.store.chat_store", "desktop.engine_client",
    "desktop.chat.view.conversation_view", "desktop.chat.session", "desktop.models", "desktop.settings.live",
    "desktop.chat.sidebar", "desktop.chat.composing", "desktop.main_window", "desktop.application",
)  # fmt: skip


def main(words: list[str] | None = None) -> int:
    """Opens the window, with the model file that `words` may name, and returns the exit code when it is closed."""
    arguments = sys.argv[1:] if words is None else words
    set_language()
    try:
        check_platform()
        choose_input_method()
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

        from desktop.document_application import DocumentApplication
        from desktop.shell import Shell
        from desktop.single_instance import SingleInstance
        from desktop.state_file import StateFile
        from desktop.theme import ThemeSource
        from runtime.places import places

        self._path, self.places = path, places()
        qt = QApplication.instance() or DocumentApplication(sys.argv[:1])
        assert isinstance(qt, QApplication)
        self.qt = qt
        self.instance = SingleInstance(self.places.data)
        self.first = self.instance.acquire(path)
        self.state = StateFile(self.places.state_file)
        self.themes = ThemeSource(qt)
        self.application: Application | None = None
        self._made: Application | None = None  # maybe without its window yet
        self._steps: InSteps | None = None
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
        if self._made is not None:
            self._made.leave()
        self.instance.release()
        return code

    def furnish(self) -> None:
        """Builds everything else, in steps. A failure ends the process: a window that does nothing helps nobody."""
        from desktop.in_steps import InSteps

        self._steps = InSteps(self._furnishing(), self.qt)

    def _furnishing(self) -> Iterator[None]:
        try:
            for name in _NEEDED:
                importlib.import_module(name)
                yield
            from desktop.application import Application

            self._made = Application(self)
            yield
            yield from self._made.furnish()
            self.application = self._made
            self.application.start(self._opened_so_far() or self._path)
        finally:
            if self.application is None:
                self.qt.exit(1)
        self.shell.furnished.emit()

    def _opened_so_far(self) -> str:
        from desktop.document_application import DocumentApplication

        if not isinstance(self.qt, DocumentApplication):
            return ""
        self.qt.file_opened.connect(self.instance.raised)
        return self.qt.take_over()

    def _closed_early(self) -> None:
        if self.application is None:
            if self._steps is not None:
                self._steps.stop()
            self.qt.quit()


