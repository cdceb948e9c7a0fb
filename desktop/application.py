"""The life of the application: builds the objects, starts them after the first paint, ends them in order."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QApplication

from desktop import fonts
from desktop.chat.session import ChatSession
from desktop.chat.view.message_model import MessageListModel
from desktop.engine_client import EngineClient
from desktop.failures import Failures, start_logging
from desktop.main_window import MainWindow, Parts
from desktop.models import Models
from desktop.settings.live import LiveSettings
from desktop.single_instance import SingleInstance
from desktop.state_file import StateFile
from desktop.store.chat_store import ChatStore
from desktop.theme import ThemeSource, palette, stylesheet
from desktop.unix_signals import UnixSignals
from runtime.errors import ErrorInfo
from runtime.params import AppSettings
from runtime.places import Places, places
from runtime.saved_settings import SavedSettings
from runtime.text import _, set_language

if TYPE_CHECKING:
    from runtime.library import ModelInfo

_log = logging.getLogger(__name__)
_END_MS = 2_600  # whatever still runs then is ended the hard way


class LibraryFinder:
    """The model library, imported in the thread that uses it."""

    def scan(self) -> Sequence[ModelInfo]:
        """Returns the models on this computer."""
        from runtime.library import Library

        return Library().models()

    def resolve(self, wanted: str) -> ModelInfo:
        """Returns the model that a path, a name or "starter" stands for. Raises `UserError`."""
        from runtime import library

        return library.resolve(wanted)


class FirstPaint(QObject):
    """Says once when a window has been painted."""

    painted = Signal()

    def __init__(self, window: QObject) -> None:
        super().__init__(window)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            QTimer.singleShot(0, self.painted)
        return False


class Application(QObject):
    """One running Quern."""

    def __init__(self, qt: QApplication, found: Places, instance: SingleInstance, path: str) -> None:
        super().__init__(qt)
        self._qt, self._places, self._instance, self._path = qt, found, instance, path
        self._ending = False
        self.failures = Failures(self)
        self.failures.install()
        self._signals = UnixSignals(self) if os.name == "posix" else None
        self.parts = self._made_parts()
        self._dress()
        self.window = self._made_window()
        self._connect()

    @classmethod
    def started(cls, path: str) -> Application | None:
        """Returns the application; None where a running one was raised instead. Raises `UserError`."""
        found = places()
        qt = QApplication.instance() or QApplication(sys.argv[:1])
        assert isinstance(qt, QApplication)
        qt.setApplicationName("quern")
        qt.setApplicationDisplayName("Quern")
        qt.setDesktopFileName("quern")
        qt.setQuitOnLastWindowClosed(False)
        instance = SingleInstance(found.data)
        if not instance.acquire(path):
            return None
        return cls(qt, found, instance, path)

    # --- building --------------------------------------------------------------------------------------------------

    def _made_parts(self) -> Parts:
        live = LiveSettings(SavedSettings.read(self._places.settings_file), self._places.settings_file, self)
        set_language(live.app.language)
        state = StateFile(self._places.state_file)
        store = ChatStore(self._places.chats_file, self)
        client = EngineClient(self._places, state=state, parent=self)
        items = MessageListModel(self)
        session = ChatSession(store, client, items, sampling=lambda: live.sampling, parent=self)
        models = Models(client, live, LibraryFinder(), self)
        themes = ThemeSource(self._qt)
        themes.choose(live.app.theme)
        return Parts(store=store, client=client, session=session, items=items, models=models, live=live,
                     themes=themes, state=state)  # fmt: skip

    def _dress(self) -> None:
        """Gives the application its look."""
        theme = self.parts.themes.theme
        self._qt.setStyle("Fusion")
        self._qt.setFont(fonts.body())
        self._qt.setPalette(palette(theme))
        self._qt.setStyleSheet(stylesheet(theme))

    def _redress(self) -> None:
        theme = self.parts.themes.theme
        self._qt.setPalette(palette(theme))
        self._qt.setStyleSheet(stylesheet(theme))

    def _made_window(self) -> MainWindow:
        window = MainWindow(self.parts)
        window.closing.connect(self.end)
        window.quit_requested.connect(window.close)
        return window

    def _connect(self) -> None:
        self.parts.themes.changed.connect(self._redress)
        self.parts.live.changed.connect(self._follow_setting)
        self.parts.client.closed.connect(self._finish)
        self.failures.happened.connect(self._show_failure)
        self._instance.raised.connect(self._come_forward)
        if self._signals is not None:
            self._signals.asked_to_end.connect(self._close_window)

    # --- running ---------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Shows the window and returns the exit code when it was closed."""
        FirstPaint(self.window).painted.connect(self._start)
        self.window.show()
        code = self._qt.exec()
        self.parts.client.kill_now()
        self._instance.release()
        if self._signals is not None:
            self._signals.close()
        self.failures.uninstall()
        return code

    def _start(self) -> None:
        start_logging(self._places.logs)
        self.parts.store.open()
        self.parts.models.start(self._path)
        for note in self.parts.live.notes:
            self.window.show_problem(ErrorInfo(title=_("Some settings could not be used."), message=note))

    def _come_forward(self, path: str) -> None:
        """A second start of Quern: this window answers for it."""
        self.window.setWindowState(self.window.windowState() & ~self.window.windowState().WindowMinimized)
        self.window.show()
        self.window.raise_()
        self.window.activateWindow()
        if path:
            self.window.open_model(path)

    def _show_failure(self, error: ErrorInfo) -> None:
        if not self._ending:
            self.window.show_problem(error)

    def _follow_setting(self, group: type, name: str) -> None:
        if group is AppSettings and name == "theme":
            self.parts.themes.choose(self.parts.live.app.theme)
        elif group is AppSettings and name == "language":
            QTimer.singleShot(0, self._rebuild)  # the widget that changed it is still in its own signal

    def _rebuild(self) -> None:
        """Builds the window again in another language, with everything that was open and written in it."""
        set_language(self.parts.live.app.language)
        older = self.window
        older.remember()
        self.window = self._made_window()
        older.hand_over(self.window)
        self.window.show()
        older.closing.disconnect(self.end)
        older.hide()
        older.deleteLater()

    # --- ending ----------------------------------------------------------------------------------------------------

    def _close_window(self) -> None:
        self.window.close()

    def end(self) -> None:
        """Begins to end: what is written is kept, the engine is asked to go, and `_finish` does the rest."""
        if self._ending:
            return
        self._ending = True
        self.parts.session.close()
        self.parts.client.shutdown()
        QTimer.singleShot(_END_MS, self._finish)

    def _finish(self) -> None:
        if not self._ending:
            return
        self.parts.client.kill_now()
        self.parts.store.close()
        self.parts.live.flush()
        self.parts.state.flush()
        self._qt.quit()
