"""Which model is in use and how it stands: finds it, has it loaded, says it to the window. Knows no widget.

Files are looked for in a thread; the engine does the loading; this object only keeps the two and the settings together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from PySide6.QtCore import QObject, QTimer, Signal

from desktop.background import Background
from desktop.chat.header import ModelStatus, Standing
from desktop.chat.model_names import shown_name
from desktop.engine_client import EngineClient, EngineState
from desktop.fatal_models import ANSWERING, LOADING
from desktop.remedies import words_for
from desktop.settings.live import LiveSettings
from runtime.errors import ErrorInfo, UserError
from runtime.params import AppSettings, LoadParams
from runtime.places import path_of, spelled_path
from runtime.protocol import EngineInfo, PromptProgress
from runtime.text import _

if TYPE_CHECKING:
    from runtime.library import ModelInfo

STARTER = "starter"
_IDENTIFY_MS = 2_000  # after the model was loaded: the first answer comes first


class ModelFinder(Protocol):
    """What is needed of the library; the calls may read many files and run in a thread.

    `problems` are sentences about what the last `scan` could not read; `memory` is free and in all, in bytes.
    """

    problems: Sequence[str]

    def scan(self) -> Sequence[ModelInfo]: ...

    def resolve(self, wanted: str) -> ModelInfo: ...

    def memory(self) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error and the words of the button that helps."""

    error: ErrorInfo
    action: str = ""
    tone: str = "bad"


class FatalLastTime(UserError):
    """The model ended its engine when it was loaded before."""

    code = "fatal_last_time"

    def __init__(self, name: str, moment: str = LOADING) -> None:
        causes = {
            LOADING: _("The engine ended when this file was loaded the last time."),
            ANSWERING: _("The engine ended while this model answered the last time."),
        }
        super().__init__(
            _("{name} was not loaded by itself.").format(name=name),
            causes.get(moment, causes[LOADING]),
            _("Choose another model, or load it anyway."),
        )


class Models(QObject):
    """The model of the window."""

    status_changed = Signal(object)  # ModelStatus
    trouble = Signal(object)  # Trouble
    listed = Signal(object)  # tuple[ModelInfo, ...]
    ready = Signal(object)  # EngineInfo
    reload_changed = Signal(bool)

    def __init__(
        self, client: EngineClient, live: LiveSettings, finder: ModelFinder, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._client, self._live, self._finder = client, live, finder
        self._info: ModelInfo | None = None
        self._wanted = live.app.model
        self._status = ModelStatus()
        self._searches = 0
        self._problems: tuple[str, ...] = ()
        self._memory = (0, 0)
        self._remember = False  # whether the model being loaded was chosen, and is the one for the next start
        self._background = Background(self)
        self._identify_later = QTimer(self, singleShot=True, interval=_IDENTIFY_MS)
        self._identify_later.timeout.connect(self._identify)
        self._connect()

    def _connect(self) -> None:
        self._client.state_changed.connect(self._follow_state)
        self._client.load_progress.connect(lambda fraction: self._show(Standing.LOADING, fraction=fraction))
        self._client.loaded.connect(self._take_loaded)
        self._client.load_failed.connect(self._take_failure)
        self._client.crashed.connect(lambda _error: self._show(Standing.FAILED))
        self._client.prompt_progress.connect(self._take_progress)
        self._client.text.connect(lambda *_text: self._show(Standing.WRITING))
        self._live.changed.connect(self._note_setting)

    @property
    def status(self) -> ModelStatus:
        """How the model stands."""
        return self._status

    @property
    def info(self) -> ModelInfo | None:
        """The model in use, loaded or not; None where it is not known."""
        return self._info

    @property
    def path(self) -> str:
        """The path of the model in use, loaded or not; empty where it is not known."""
        return str(self._info.path) if self._info is not None else ""

    @property
    def loaded_path(self) -> str:
        """The path of the model that is loaded or being loaded; empty where none is."""
        return self._client.wanted[0] if self._client.wanted is not None else ""

    @property
    def engine(self) -> EngineInfo | None:
        """What the engine says of the loaded model."""
        return self._client.info

    @property
    def needs_reload(self) -> bool:
        """True where loading was set otherwise than the model was loaded."""
        wanted = self._client.wanted
        return wanted is not None and wanted[1] != self._live.load

    def scan(self) -> None:
        """Looks for models on this computer; `listed` follows."""
        self._background.run(self._scan, self._take_scanned)

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read at the last look for models, in sentences."""
        return self._problems

    @property
    def memory(self) -> tuple[int, int]:
        """The bytes of memory that were free at the last look for models, and in all."""
        return self._memory

    def _scan(self) -> tuple[tuple[ModelInfo, ...], tuple[str, ...], tuple[int, int]]:
        models = tuple(self._finder.scan())
        for info in models:
            shown_name(info)  # worded here, so that long lists appear at once
        return models, tuple(self._finder.problems), self._finder.memory()

    def _take_scanned(self, found: tuple[tuple[ModelInfo, ...], tuple[str, ...], tuple[int, int]]) -> None:
        models, self._problems, self._memory = found
        self.listed.emit(models)

    def start(self, path: str = "") -> None:
        """Begins with a file that was named, else with the model of the settings."""
        if path:
            self.load(path)
        elif self._live.app.load_at_start:
            self._find(self._wanted, self._load_unless_fatal)
        else:
            self._find(self._wanted, lambda _info: self._show(Standing.EMPTY))

    def load(self, wanted: str = "") -> None:
        """Loads a path, a name of the library or "starter"; the model in use where nothing is named."""
        self._find(wanted or self.path or self._wanted, self._load_chosen if wanted else self._load)

    def reload(self) -> None:
        """Loads the model anew, as the settings are now."""
        self.load()

    def ensure(self) -> None:
        """Has the model loaded before a message is sent, where that has not begun."""
        if self._client.wanted is None and self._info is not None:
            self._load(self._info)

    def eject(self) -> None:
        """Gives the model's memory back."""
        self._client.unload()
        self._show(Standing.EMPTY)

    def cancel(self) -> None:
        """Stops loading."""
        self._client.stop()

    # --- finding ---------------------------------------------------------------------------------------------------

    def _find(self, wanted: str, then: Callable[[ModelInfo], None]) -> None:
        self._searches += 1
        number = self._searches
        self._background.run(
            lambda: self._finder.resolve(str(path_of(wanted))),
            lambda found: self._take_found(number, found, then),
            failed=lambda error: self._take_missing(number, error),
        )

    def _take_missing(self, number: int, error: ErrorInfo) -> None:
        if number == self._searches:
            self._report(error)

    def _take_found(self, number: int, found: ModelInfo, then: Callable[[ModelInfo], None]) -> None:
        if number != self._searches:
            return
        self._info = found
        self._live.use_model(found.key)
        then(found)

    def _load_unless_fatal(self, info: ModelInfo) -> None:
        if moment := self._client.fatal_moment(info.path):
            self._show(Standing.EMPTY)
            error = FatalLastTime(shown_name(info), moment).info
            self.trouble.emit(Trouble(error, words_for(error.code), "caution"))
        else:
            self._load(info)

    def _load_chosen(self, info: ModelInfo) -> None:
        self._remember = True
        self._load(info)

    def _load(self, info: ModelInfo) -> None:
        self._show(Standing.LOADING)
        self._client.load(info.path, self._live.load)
        self._announce_reload()

    # --- what the engine says --------------------------------------------------------------------------------------

    def _take_loaded(self, engine: EngineInfo) -> None:
        self._show(Standing.READY)
        self.ready.emit(engine)
        self._identify_later.start()
        self._announce_reload()
        if self._info is not None and self._remember:
            self._remember = False
            self._live.set_values(AppSettings, model=_lasting_name(self._info))

    def _identify(self) -> None:
        """Has the model's files hashed, so that receipts name the very file; large ones take their time once."""
        if self._client.info is not None:
            self._client.identify()

    def _take_failure(self, error: ErrorInfo) -> None:
        self._show(Standing.FAILED)
        if error.code != "load_cancelled":
            self._report(error)

    def _take_progress(self, _id: int, progress: PromptProgress) -> None:
        if progress.done < progress.total:
            self._show(Standing.READING, done=progress.done, total=progress.total)
        else:
            self._show(Standing.WRITING)

    def _follow_state(self, state: EngineState) -> None:
        if state is EngineState.READY:
            self._show(Standing.READY)
        elif state is EngineState.OFF and self._status.standing is not Standing.FAILED:
            self._show(Standing.EMPTY)

    def _show(self, standing: Standing, **progress: Any) -> None:
        named = replace(self._named(), standing=standing, **progress)
        if named != self._status:
            self._status = named
            self.status_changed.emit(named)

    def _named(self) -> ModelStatus:
        if self._info is None:
            return ModelStatus()
        return ModelStatus(name=shown_name(self._info), quantization=self._info.quantization)

    def _report(self, error: ErrorInfo) -> None:
        self.trouble.emit(Trouble(error, words_for(error.code) or _("Choose a model")))

    def _note_setting(self, group: type, _name: str) -> None:
        if group is LoadParams:
            self._announce_reload()

    def _announce_reload(self) -> None:
        QTimer.singleShot(0, lambda: self.reload_changed.emit(self.needs_reload))


def _lasting_name(info: ModelInfo) -> str:
    """Returns what finds the model again at the next start, also after an update moved the starter model."""
    return STARTER if info.source == STARTER else spelled_path(info.path)
