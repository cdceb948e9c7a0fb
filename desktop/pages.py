"""The middle of the window: the chat, the library, the converter. Builds each other page when it is first opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from desktop.background import Background
from desktop.library.facts import STARTER
from runtime.params import AppSettings
from runtime.places import path_of, spelled_path

if TYPE_CHECKING:
    from desktop.convert.page import ConvertPage
    from desktop.library.page import LibraryPage
    from desktop.main_window import Parts
    from runtime.library import ModelInfo

CHAT, LIBRARY, CONVERT = "chat", "library", "convert"


class Pages(QStackedWidget):
    """Turns pages and joins them with the objects behind the window."""

    turned = Signal(str)
    chat_requested = Signal(str)  # path of a model

    def __init__(self, chat: QWidget, parts: Parts, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts = parts
        self._chat = chat
        self._library: LibraryPage | None = None
        self._convert: ConvertPage | None = None
        self._background = Background(self)
        self._pending_folder = ""
        self._models: tuple[ModelInfo, ...] = ()
        self.addWidget(chat)
        parts.models.listed.connect(self._take_models)
        parts.models.status_changed.connect(self._follow_model)

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """The models that the last scan found."""
        return self._models

    @property
    def page(self) -> str:
        """The name of the page that shows."""
        shown: Any = self.currentWidget()
        return LIBRARY if shown is self._library else CONVERT if shown is self._convert else CHAT

    def turn_to(self, page: str = CHAT) -> None:
        """Turns to a page."""
        if page == self.page:
            return
        if page == LIBRARY:
            self.setCurrentWidget(self.library)
            self._parts.models.scan()
            self.library.search.setFocus()
        elif page == CONVERT:
            self.setCurrentWidget(self.convert)
            self._parts.models.scan()
            self.convert.source.setFocus()
        else:
            self.setCurrentWidget(self._chat)
        self.turned.emit(self.page)

    # --- the library -----------------------------------------------------------------------------------------------

    @property
    def library(self) -> LibraryPage:
        """The library, made when it is first asked for."""
        if self._library is None:
            from desktop.library.page import LibraryPage

            page = self._library = LibraryPage(self._parts.known, self)
            page.chat_requested.connect(self.chat_requested)
            page.convert_requested.connect(self._convert_model)
            page.close_requested.connect(lambda: self.turn_to(CHAT))
            page.rescan_requested.connect(self._parts.models.scan)
            page.folder_added.connect(self.add_folder)
            page.release_requested.connect(self._release)
            page.moved.connect(self._follow_moved)
            page.set_loaded(self._parts.models.loaded_path)
            if self._models:
                self._show_models()
            self.addWidget(page)
        return self._library

    def _take_models(self, models: tuple[ModelInfo, ...]) -> None:
        self._models = models
        self._show_models()
        if self._pending_folder:
            self._open_dropped_folder()

    def _show_models(self) -> None:
        models = self._parts.models
        if self._library is not None:
            self._library.set_models(self._models, memory=models.memory, problems=models.problems)
        if self._convert is not None:
            self._convert.set_models(self._models, memory=models.memory)

    def _follow_model(self, _status: object) -> None:
        if self._library is not None:
            self._library.set_loaded(self._parts.models.loaded_path)

    def _release(self, path: str) -> None:
        """Gives the engine's model back before its file is moved."""
        if path == self._parts.models.loaded_path:
            self._parts.models.eject()

    def _follow_moved(self, before: str, after: str) -> None:
        """Whatever named the file by its path names its new place."""
        live = self._parts.live
        live.move_model(spelled_path(before), spelled_path(after))
        if path_of(live.app.model) == Path(before):
            live.set_values(AppSettings, model=spelled_path(after))

    # --- dropping --------------------------------------------------------------------------------------------------

    def take_dropped(self, path: Path) -> None:
        """Runs a model file; a folder is added to the library, and runs where it holds just one model."""
        self._background.run(lambda: path.is_dir(), lambda is_folder: self._take_kind(path, is_folder))

    def _take_kind(self, path: Path, is_folder: bool) -> None:
        if is_folder:
            self._pending_folder = str(path)
            self.add_folder(str(path))
            self.turn_to(LIBRARY)
        else:
            self.chat_requested.emit(str(path))

    def add_folder(self, path: str) -> None:
        """Adds a folder to the places where models are looked for."""
        folders = self._parts.live.app.model_folders
        spelled = spelled_path(os.path.abspath(path))
        if spelled not in folders:
            self._parts.live.set_values(AppSettings, model_folders=(*folders, spelled))
        self._parts.models.scan()

    def _open_dropped_folder(self) -> None:
        folder, self._pending_folder = Path(self._pending_folder), ""
        inside = [info for info in self._models if folder in (info.path, *info.path.parents)]
        if not inside:
            return
        runnable = [info for info in inside if info.can_chat]
        self.library.choose(str((runnable or inside)[0].path))
        if len(runnable) == 1 and runnable[0].source != STARTER:
            self.chat_requested.emit(str(runnable[0].path))

    # --- converting ------------------------------------------------------------------------------------------------

    @property
    def convert(self) -> ConvertPage:
        """The converter, made when it is first asked for."""
        if self._convert is None:
            from desktop.convert.page import ConvertPage

            page = self._convert = ConvertPage(self._parts.jobs, self)
            page.chat_requested.connect(self.chat_requested)
            page.close_requested.connect(lambda: self.turn_to(CHAT))
            page.converted.connect(lambda path: self._take_converted(path))
            if self._models:
                self._show_models()
            self.addWidget(page)
        return self._convert

    def _convert_model(self, path: str) -> None:
        self.turn_to(CONVERT)
        self.convert.choose(path)

    def _take_converted(self, path: str) -> None:
        self._parts.known.add(Path(path))
        self._parts.models.scan()
