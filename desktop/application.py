"""The life of the application: builds the objects, joins them in the window, and ends them in order."""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from desktop import icons
from desktop.chat.kept_states import KeptStates
from desktop.chat.plain_text import one_line
from desktop.chat.session import ChatSession
from desktop.chat.view.message_model import MessageListModel
from desktop.engine_client import EngineClient
from desktop.failures import Failures, start_logging
from desktop.garbage import MainThreadGarbage
from desktop.in_steps import InSteps
from desktop.job import Jobs
from desktop.language import speak
from desktop.library.beside import beside
from desktop.library.known_files import KnownFiles
from desktop.look import dress, dressing
from desktop.main_window import MainWindow, Parts
from desktop.models import Models
from desktop.notebook.notebooks import Notebooks
from desktop.settings.live import LiveSettings
from desktop.store.chat_store import ChatStore
from desktop.store.records import MessageState
from desktop.tray import Tray
from desktop.unix_signals import UnixSignals
from runtime.errors import ErrorInfo
from runtime.params import AppSettings
from runtime.places import path_of
from runtime.saved_settings import SavedSettings
from runtime.text import _

if TYPE_CHECKING:
    from desktop.app import Opening
    from runtime.library import ModelInfo

_log = logging.getLogger(__name__)
_ICON_SIDE = 64
_SETTLE_MS = 3_000  # by then the model is being loaded and nobody has begun to type
# A fifth of a second of one slot, were they imported with the first answer or the first look at a page.
SOON_NEEDED = ("markdown_it", "pygments.lexers", "desktop.library.page", "desktop.convert.page",
               "desktop.notebook.page", "desktop.chat.ledger.panel", "desktop.settings.panel",
               "desktop.palette.palette")  # fmt: skip
_END_MS = 2_600  # whatever still runs then is ended the hard way


class LibraryFinder:
    """The model library and the files that were opened beside it, imported in the thread that uses it."""

    def __init__(self, known: KnownFiles | None = None, folders: Callable[[], Sequence[str]] | None = None) -> None:
        """`folders` says where to look besides the usual places; without it, the saved settings do."""
        self.problems: Sequence[str] = ()
        self._known, self._folders = known, folders

    def scan(self) -> Sequence[ModelInfo]:
        """Returns the models on this computer; `problems` says what could not be read."""
        from runtime.library import Library

        library = Library([path_of(folder) for folder in self._folders()] if self._folders is not None else None)
        found = library.models()
        self.problems = tuple(library.problems)
        return [*found, *beside(found, self._known.paths if self._known is not None else ())]

    def resolve(self, wanted: str) -> ModelInfo:
        """Returns the model that a path, a name or "starter" stands for. Raises `UserError`."""
        from runtime import library

        found = library.resolve(wanted)
        if self._known is not None and found.source == "path":
            self._known.add(found.path)
        return found

    def memory(self) -> tuple[int, int]:
        """Returns the bytes of memory that are free, and in all."""
        from runtime import memory

        return memory.free_memory(), memory.total_memory()


class Application(QObject):
    """One running Quern: everything that lives longer than the widgets."""

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening.qt)
        self._opening, self._qt, self._shell = opening, opening.qt, opening.shell
        self._ending = self._ended = self._asked_to_close = self._engine_gone = self._quitting = False
        self.tray = Tray(self._shell, opening.state, self)
        self._garbage = MainThreadGarbage(self)
        self.failures = Failures(self)
        self.failures.install()
        start_logging(opening.places.logs)
        self._signals = UnixSignals(self) if os.name == "posix" else None
        self.parts = self._made_parts()
        self._dress()
        self.window: MainWindow
        self._rebuilding: InSteps | None = None
        self._dressing: InSteps | None = None
        QTimer.singleShot(_SETTLE_MS, self._garbage.settle)

    # --- building --------------------------------------------------------------------------------------------------

    def _made_parts(self) -> Parts:
        opening, path = self._opening, self._opening.places.settings_file
        live = LiveSettings(SavedSettings.read(path), path, self)
        speak(self._qt, live.app.language)
        store = ChatStore(opening.places.chats_file, self)
        client = EngineClient(opening.places, state=opening.state, parent=self)
        items = MessageListModel(self)
        known = KnownFiles(opening.state)
        models = Models(client, live, LibraryFinder(known, lambda: live.app.model_folders), self)
        states = KeptStates(client, opening.places.cache / "chat-states", parent=self)
        session = ChatSession(
            store, client, items, sampling=lambda: live.sampling, model_name=lambda: models.status.name,
            states=states, parent=self,
        )  # fmt: skip
        notebooks = Notebooks(store, client, sampling=lambda: live.sampling, states=states, parent=self)
        session.settings_changed.connect(live.use_chat)
        live.chat_layer_changed.connect(session.set_settings)
        opening.themes.choose(live.app.theme)
        opening.state.set("theme", live.app.theme)
        return Parts(store=store, client=client, session=session, notebooks=notebooks, items=items,
                     models=models, live=live, themes=opening.themes, state=opening.state, jobs=Jobs(self),
                     known=known)  # fmt: skip

    def _dress(self) -> None:
        theme = self.parts.themes.theme
        dress(self._qt, theme)
        self._qt.setWindowIcon(icons.icon("quern", theme, colour=theme.accent, size=_ICON_SIDE))

    def _dress_anew(self) -> None:
        """Takes another theme in steps; nothing is painted before the last one."""
        if self._dressing is not None:
            self._dressing.stop()
        self._shell.setUpdatesEnabled(False)
        self._dressing = InSteps(self._new_dress(), self)

    def _new_dress(self) -> Iterator[None]:
        try:
            yield from dressing(self._qt, self.parts.themes.theme)
            self._dress()
        finally:
            self._shell.setUpdatesEnabled(True)

    def furnish(self) -> Iterator[None]:
        """Builds what is in the window, a step at a time; only then can anything else be asked for."""
        window = MainWindow(self.parts, in_steps=True)
        yield from window.steps
        self._place(window)
        yield
        self._connect()

    def _place(self, window: MainWindow) -> None:
        window.quit_requested.connect(self._quit)
        self._shell.furnish(window)
        window.focus_composer()
        self.window = window

    def _connect(self) -> None:
        self._connect_tray()
        self._shell.may_close = self._may_close
        self._shell.closing.connect(self.end)
        self.parts.themes.changed.connect(self._dress_anew)
        self.parts.live.changed.connect(self._follow_setting)
        self.parts.client.closed.connect(self._note_engine_gone)
        self.parts.jobs.changed.connect(self._finish_when_quiet)
        self.failures.happened.connect(self._show_failure)
        self._opening.instance.raised.connect(self._come_forward)
        if self._signals is not None:
            self._signals.asked_to_end.connect(self._shell.close_now)

    def _connect_tray(self) -> None:
        self.tray.quit_requested.connect(self._quit)
        self.tray.message_clicked.connect(self._show_what_ended)
        self.parts.session.answer_ended.connect(self._tell_of_answer)
        self.parts.notebooks.ended.connect(self._tell_of_notebook)
        self.tray.follow(self.parts.live.app.tray)

    # --- running ---------------------------------------------------------------------------------------------------

    def start(self, path: str) -> None:
        """Opens the chats and finds the model, once there is a window."""
        self.parts.store.open()
        self.parts.models.start(path)
        threading.Thread(target=_import_ahead, name="imports", daemon=True).start()
        for note in self.parts.live.notes:
            self.window.show_problem(ErrorInfo(title=_("Some settings could not be used."), message=note))

    def _quit(self) -> None:
        """Ends Quern, also where closing the window would only hide it."""
        self._quitting = True
        if not self._shell.isVisible():
            self.tray.bring_window()  # there may be something to ask first
        self._shell.close()
        self._quitting = False

    def _tell_of_answer(self, chat_id: str, state: MessageState) -> None:
        title = self.parts.session.title if chat_id == self.parts.session.chat_id else ""
        words = _("The answer could not be finished.") if state is MessageState.FAILED else _("The answer is finished.")
        self.tray.tell(one_line(title, limit=60) or "Quern", words, chat_id)

    def _tell_of_notebook(self, _finished: object) -> None:
        self.tray.tell(one_line(self.parts.notebooks.current.title) or _("Notebook"), _("The text is written."))

    def _show_what_ended(self, chat_id: str) -> None:
        if chat_id and chat_id != self.parts.session.chat_id:
            self.parts.session.open(chat_id)

    def _may_close(self) -> bool:
        if not self._quitting and not self._qt.isSavingSession() and self.tray.keeps:
            self.tray.take_window()
            return False
        if not self.parts.jobs.active or self._asked_to_close:
            return True
        self._asked_to_close = True
        self.window.ask_before_closing()
        return False

    def _come_forward(self, path: str) -> None:
        """A second start of Quern: this window answers for it."""
        self.tray.bring_window()
        if path:
            self.window.open_model(path)

    def _show_failure(self, error: ErrorInfo) -> None:
        if not self._ending:
            self.window.show_problem(error)

    def _follow_setting(self, group: type, name: str) -> None:
        if group is AppSettings and name == "theme":
            self.parts.themes.choose(self.parts.live.app.theme)
            self.parts.state.set("theme", self.parts.live.app.theme)
        elif group is AppSettings and name == "tray":
            self.tray.follow(self.parts.live.app.tray)
        elif group is AppSettings and name == "language":
            QTimer.singleShot(0, self._rebuild)  # the widget that changed it is still in its own signal

    def _rebuild(self) -> None:
        """Builds the widgets again in another language, with everything that was open and written in them."""
        self.window.remember()
        if self._rebuilding is not None:
            self._rebuilding.stop()
        self._rebuilding = InSteps(self._replace_window(), self)

    def _replace_window(self) -> Iterator[None]:
        speak(self._qt, self.parts.live.app.language)
        self.tray.word()
        yield
        self._dress()
        yield
        older = self.window
        newer = MainWindow(self.parts, in_steps=True, replaces=older)
        yield from newer.steps
        self._place(newer)
        older.hand_over(newer)

    # --- ending ----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Begins to end: what is written is kept, the engine is asked to go, and `_finish` does the rest."""
        if self._ending:
            return
        self._ending = True
        self.tray.close()
        self.window.remember()
        self.parts.jobs.stop_all()
        self.parts.session.close()
        self.parts.notebooks.close()
        self.parts.client.shutdown()
        QTimer.singleShot(_END_MS, self._finish)

    def _note_engine_gone(self) -> None:
        self._engine_gone = True
        self._finish_when_quiet()

    def _finish_when_quiet(self) -> None:
        """A conversion that is stopped takes its half-written file away first."""
        if self._ending and self._engine_gone and not self.parts.jobs.busy:
            self._finish()

    def _finish(self) -> None:
        if not self._ending or self._ended:
            return
        self._ended = True
        self.parts.client.kill_now()
        self.parts.jobs.kill_now()
        self.parts.store.close()
        self.parts.live.flush()
        self.parts.state.flush()
        self._qt.quit()

    def leave(self) -> None:
        """The last thing before the process ends: leaves no child and no handler behind."""
        self.parts.client.kill_now()
        if self._signals is not None:
            self._signals.close()
        self.failures.uninstall()
        self._garbage.close()


def _import_ahead() -> None:
    for name in SOON_NEEDED:
        importlib.import_module(name)
