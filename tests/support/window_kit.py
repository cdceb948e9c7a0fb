"""What tests of the window stand on: the objects behind it, with a scripted engine and a library of made-up models."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from PySide6.QtWidgets import QApplication

import scripted_engine
from desktop.chat.session import ChatSession
from desktop.chat.view.message_model import MessageListModel
from desktop.engine_client import EngineClient
from desktop.job import Jobs
from desktop.library.known_files import KnownFiles
from desktop.look import dress
from desktop.main_window import MainWindow, Parts
from desktop.models import Models
from desktop.notebook.notebooks import Notebooks
from desktop.settings.live import LiveSettings
from desktop.state_file import StateFile
from desktop.store.chat_store import ChatStore
from desktop.theme import ThemeSource
from runtime.library import ModelInfo, UnknownModel
from runtime.places import places
from runtime.saved_settings import SavedSettings

_PATIENCE = 60.0  # seconds
STARTER = ModelInfo(
    name="starter", path=Path("/models/Tiny-1M-Instruct.Q4_1.gguf"), kind="gguf", architecture="llama",
    size_bytes=98_000_000, quantization="Q4_1", context_length=8192, runnable=True, source="starter",
)  # fmt: skip
WHISPER = ModelInfo(
    name="whisper-large", path=Path("/models/whisper-large.gguf"), kind="gguf", reason="It turns speech into text."
)
LARGE = ModelInfo(
    name="Large-70B.Q8_0", path=Path("/models/Large-70B.Q8_0.gguf"), kind="gguf", architecture="llama",
    size_bytes=75_000_000_000, quantization="Q8_0", context_length=131_072, runnable=True,
)  # fmt: skip


class Shelf:
    """A library that holds what it is given."""

    def __init__(self, *models: ModelInfo) -> None:
        self.models = models or (STARTER, LARGE, WHISPER)
        self.problems: tuple[str, ...] = ()

    def scan(self) -> tuple[ModelInfo, ...]:
        return self.models

    def resolve(self, wanted: str) -> ModelInfo:
        for model in self.models:
            if wanted in (model.name, str(model.path)):
                return model
        raise UnknownModel(wanted)

    def memory(self) -> tuple[int, int]:
        return 8_000_000_000, 16_000_000_000


def _wait(reached: Callable[[], bool]) -> None:
    """Lets what is being ended end: a process that is destroyed while it runs makes Qt complain."""
    deadline = time.monotonic() + _PATIENCE
    while not reached() and time.monotonic() < deadline:
        QApplication.processEvents()
        time.sleep(0.01)


@contextmanager
def window_parts(shelf: Shelf | None = None, **script: Any) -> Iterator[Parts]:
    """Yields everything behind a window, started, and ends it."""
    qt = QApplication.instance()
    assert isinstance(qt, QApplication)
    found = places()
    live = LiveSettings(SavedSettings.read(found.settings_file), found.settings_file)
    state = StateFile(found.state_file)
    store = ChatStore(found.chats_file)
    store.open()
    client = EngineClient(
        found, state=state, command=lambda: scripted_engine.command(**script), stop_seconds=1.0, close_seconds=0.3
    )
    items = MessageListModel()
    models = Models(client, live, shelf or Shelf())
    session = ChatSession(
        store, client, items, sampling=lambda: live.sampling, model_name=lambda: models.status.name
    )
    notebooks = Notebooks(store, client, sampling=lambda: live.sampling)
    session.settings_changed.connect(live.use_chat)
    live.chat_layer_changed.connect(session.set_settings)
    themes, jobs = ThemeSource(qt), Jobs()
    dress(qt, themes.theme)
    try:
        yield Parts(store=store, client=client, session=session, notebooks=notebooks, items=items,
                    models=models, live=live, themes=themes, state=state, jobs=jobs,
                    known=KnownFiles(state))  # fmt: skip
    finally:
        session.close()
        notebooks.close()
        jobs.stop_all()
        _wait(lambda: not jobs.busy)
        client.shutdown()
        client.kill_now()
        jobs.kill_now()
        store.close()
        live.flush()
        state.flush()
        themes.setParent(None)


@contextmanager
def plain_windows(size: tuple[int, int] | None = None) -> Iterator[Callable[..., MainWindow]]:
    """Yields what opens windows without a shell around them, `opened(shelf, **script)`, and ends them all."""
    with ExitStack() as stack:

        def opened(shelf: Shelf | None = None, **script: Any) -> MainWindow:
            parts = stack.enter_context(window_parts(shelf, **script))
            window = MainWindow(parts)
            stack.callback(window.deleteLater)
            if size is not None:
                window.resize(*size)
            window.show()
            parts.models.start()
            return window

        yield opened
