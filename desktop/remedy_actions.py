"""Does what the window offers about an error: loads otherwise, opens the place, shows the setting, asks again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from PySide6.QtCore import QObject

from desktop.chat.session import ChatSession
from desktop.engine_client import EngineClient
from desktop.human import whole_number
from desktop.models import Models
from desktop.remedies import Action, remedy_for
from desktop.settings.live import LiveSettings
from runtime.errors import ErrorInfo
from runtime.params import LoadParams
from runtime.protocol import EngineInfo
from runtime.text import _

_LEAST_CONTEXT, _USUAL_CONTEXT = 512, 4096


class Window(Protocol):
    """What is needed of the window."""

    def open_picker(self) -> None: ...

    def open_library(self) -> None: ...

    def choose_template(self) -> None: ...

    def new_chat(self) -> None: ...

    def show_setting(self, title: str) -> None: ...

    def show_diagnostics(self) -> object: ...

    def open_data_folder(self) -> None: ...

    def show_backups(self) -> object: ...

    def open_logs(self) -> None: ...

    def ask_import(self) -> None: ...

    def unpin_all(self) -> None: ...

    def show_problem(self, error: ErrorInfo) -> None: ...


class RemedyActions(QObject):
    """Over the window's parts. An answer that failed is asked for again once what stood in its way is done."""

    def __init__(
        self, window: Window, *, models: Models, session: ChatSession, live: LiveSettings, client: EngineClient,
        parent: QObject,
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self._window, self._models, self._session, self._live, self._client = window, models, session, live, client
        self._retry_when_ready = ""
        self._openings: dict[Action, Callable[[], object]] = {
            Action.MODELS: window.open_picker, Action.LIBRARY: window.open_library, Action.NEW_CHAT: window.new_chat,
            Action.TEMPLATE: window.choose_template, Action.DATA_FOLDER: window.open_data_folder,
            Action.BACKUPS: window.show_backups, Action.LOGS: window.open_logs,
            Action.DIAGNOSTICS: window.show_diagnostics, Action.IMPORT: window.ask_import,
        }  # fmt: skip
        self._doings: dict[Action, Callable[[str], None]] = {
            Action.RETRY: self._retry, Action.LOAD: self._load, Action.LOAD_ANYWAY: self._load,
            Action.SMALLER_CONTEXT: self._smaller, Action.LARGER_CONTEXT: self._larger, Action.UNPIN: self._unpin,
        }  # fmt: skip
        models.ready.connect(self._model_is_ready)
        models.trouble.connect(self._forget_retry)

    def run(self, code: str, item_id: str = "") -> bool:
        """Does what helps about an error, which `item_id` failed with; returns False where nothing is known to."""
        remedy = remedy_for(code)
        if remedy is None:
            return False
        if remedy.action is Action.SETTING:
            self._window.show_setting(remedy.title)
        elif remedy.action in self._openings:
            self._openings[remedy.action]()
        else:
            self._doings[remedy.action](item_id)
        return True

    def _retry(self, item_id: str) -> None:
        answer = item_id or self._session.last_failed
        if answer:
            self._models.ensure()
            self._session.regenerate(answer)
        elif self._client.info is None:
            self._models.load()

    def _load(self, item_id: str) -> None:
        self._retry_when_ready = item_id
        self._models.load()

    def _unpin(self, item_id: str) -> None:
        self._window.unpin_all()
        if item_id:
            self._session.regenerate(item_id)

    # --- the context's length ----------------------------------------------------------------------------------

    @property
    def _context(self) -> int:
        """The context length in force: the loaded model's, else the one that is set, else a usual one."""
        engine = self._client.info
        length = engine.context_length if engine is not None else 0
        return length or self._live.load.context_length or _USUAL_CONTEXT

    def _smaller(self, item_id: str) -> None:
        if self._context <= _LEAST_CONTEXT:
            self._window.open_picker()
        else:
            self._load_with(max(self._context // 2, _LEAST_CONTEXT), item_id)

    def _larger(self, item_id: str) -> None:
        engine = self._client.info
        most = engine.trained_context if engine is not None else 0
        if most and self._context >= most:
            self._window.show_problem(_no_larger(most))
        else:
            self._load_with(min(2 * self._context, most or 2 * self._context), item_id)

    def _load_with(self, context_length: int, item_id: str) -> None:
        self._live.set_for_model(LoadParams, context_length=context_length)
        self._load(item_id)

    def _model_is_ready(self, _engine: EngineInfo) -> None:
        item_id, self._retry_when_ready = self._retry_when_ready, ""
        if item_id:
            self._session.regenerate(item_id)

    def _forget_retry(self, _trouble: object) -> None:
        self._retry_when_ready = ""


def _no_larger(most: int) -> ErrorInfo:
    return ErrorInfo(
        title=_("The context cannot be larger."),
        message=_("This model was made for {n} tokens, and all of them are in use.").format(n=whole_number(most)),
        hint=_("Start a new chat, shorten the message, or choose a model with a longer context."),
        code="context_at_most",
    )  # fmt: skip
