"""The middle of the window: chat, notebook, library, converter. All but the chat are built when first opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from desktop.background import Background
from desktop.chat.text_files import read_text_file
from desktop.controls.buttons import Words
from desktop.in_steps import InSteps
from desktop.library.facts import STARTER
from desktop.theme import Space, current_theme
from runtime.params import AppSettings
from runtime.places import path_of, spelled_path
from runtime.text import N_, _

if TYPE_CHECKING:
    from desktop.convert.page import ConvertPage
    from desktop.library.page import LibraryPage
    from desktop.main_window import Parts
    from desktop.notebook.page import NotebookPage
    from runtime.library import ModelInfo

CHAT, NOTEBOOK, LIBRARY, CONVERT = "chat", "notebook", "library", "convert"
_TITLES = {LIBRARY: N_("Library"), CONVERT: N_("Convert")}


class Pages(QStackedWidget):
    """Turns pages and joins them with the objects behind the window.

    A page that is opened for the first time shows its heading at once; the rest is built a step at a time.
    """

    turned = Signal(str)
    chat_requested = Signal(str)  # path of a model
    notebook_made = Signal(object)  # NotebookPage
    text_dropped = Signal(str)  # of a file, for the message that is written
    failed = Signal(object)  # ErrorInfo

    def __init__(self, centre: QWidget, talk: QStackedWidget, parts: Parts, parent: QWidget | None = None) -> None:
        """`talk` is part of the `centre` and holds the chat; what a model is talked to on comes beside it."""
        super().__init__(parent)
        self._parts = parts
        chat = talk.widget(0)
        assert chat is not None
        self._centre, self._talk, self._chat = centre, talk, chat
        self._page = CHAT
        self._pages: dict[str, Any] = {}
        self._openings: dict[str, QWidget] = {}
        self._making: dict[str, Iterator[None]] = {}
        self._background = Background(self)
        self._background.failed.connect(self.failed)
        self._pending_folder = ""
        self._left: dict[str, Any] = {}  # what was chosen and written on pages of the window before
        self._models: tuple[ModelInfo, ...] = ()
        self.addWidget(centre)
        parts.models.listed.connect(self._take_models)
        parts.models.status_changed.connect(self._follow_model)

    def minimumSizeHint(self) -> QSize:
        """Returns what the page needs that is shown: one that was opened once squeezes nothing beside the others."""
        shown = self.currentWidget()
        return super().minimumSizeHint() if shown is None else shown.minimumSizeHint()

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """The models that the last scan found."""
        return self._models

    @property
    def page(self) -> str:
        """The name of the page that shows, or of the one that is about to."""
        return self._page

    def turn_to(self, page: str = CHAT) -> None:
        """Turns to a page."""
        if page == self._page:
            return
        if self._page == NOTEBOOK:
            self._parts.notebooks.rest()
        self._page = page
        if page == CHAT:
            self._show(self._chat)
        elif page in self._pages:
            self._enter(page)
        else:
            self._open_soon(page)
        self.turned.emit(page)

    def take_over(self, older: Pages) -> None:
        """Turns to the page that the window before shows; what was chosen and written on its pages stays."""
        self._models = older._models
        self._left = {**older._left, **{name: page.left() for name, page in older._pages.items()}}
        self.turn_to(older.page)

    def _enter(self, page: str) -> None:
        made = self._pages[page]
        self._show(made)
        if page == NOTEBOOK:
            made.enter()
        else:
            (made.search if page == LIBRARY else made.source).setFocus()
            self._parts.models.scan()

    def _show(self, widget: QWidget) -> None:
        if self._talk.indexOf(widget) >= 0:
            self._talk.setCurrentWidget(widget)
            widget = self._centre
        self.setCurrentWidget(widget)

    # --- building --------------------------------------------------------------------------------------------------

    def _open_soon(self, page: str) -> None:
        """Shows the heading of a page and begins to build the rest, with whatever has to be imported for it."""
        if page not in self._openings:
            opening = self._openings[page] = _Opening(_(_TITLES[page]) if page in _TITLES else "")
            self._place_of(page).addWidget(opening)
            module = f"desktop.{page}.page"
            self._background.run(lambda: import_module(module), lambda _module: self._build_soon(page))
        self._show(self._openings[page])

    def _place_of(self, page: str) -> QStackedWidget:
        return self._talk if page == NOTEBOOK else self

    def _build_soon(self, page: str) -> None:
        InSteps(self._steps(page), self)

    def _steps(self, page: str) -> Iterator[None]:
        if page not in self._making:
            self._making[page] = self._make(page)
        return self._making[page]

    def _make(self, page: str) -> Iterator[None]:
        new, join = self._ways()[page]
        made = new()
        yield from made.steps
        self._place_of(page).addWidget(made)
        yield
        self._pages[page] = made
        join(made)
        if page in self._left:
            made.go_on_from(self._left.pop(page))
        if self._page == page:
            self._enter(page)

    def _whole(self, page: str) -> Any:
        """Returns a page, built at once where it is not there yet."""
        for _step in self._steps(page) if page not in self._pages else ():
            pass
        return self._pages[page]

    def _ways(self) -> dict[str, tuple[Callable[[], Any], Callable[[Any], None]]]:
        """Returns how each page is made, and joined with the rest."""
        return {
            LIBRARY: (self._new_library, self._join_library), CONVERT: (self._new_convert, self._join_convert),
            NOTEBOOK: (self._new_notebook, self.notebook_made.emit),
        }  # fmt: skip

    def _new_notebook(self) -> NotebookPage:
        from desktop.notebook.page import NotebookPage

        return NotebookPage(self._parts.notebooks, self._parts.client, in_steps=True)

    @property
    def notebook(self) -> NotebookPage:
        """The notebook, made when it is first asked for."""
        page: NotebookPage = self._whole(NOTEBOOK)
        return page

    def _new_library(self) -> LibraryPage:
        from desktop.library.page import LibraryPage

        return LibraryPage(self._parts.known, self, in_steps=True)

    def _new_convert(self) -> ConvertPage:
        from desktop.convert.page import ConvertPage

        return ConvertPage(self._parts.jobs, self, in_steps=True)

    # --- the library -----------------------------------------------------------------------------------------------

    @property
    def library(self) -> LibraryPage:
        """The library, made when it is first asked for."""
        page: LibraryPage = self._whole(LIBRARY)
        return page

    def _join_library(self, page: LibraryPage) -> None:
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

    def _take_models(self, models: tuple[ModelInfo, ...]) -> None:
        self._models = models
        self._show_models()
        if self._pending_folder:
            self._open_dropped_folder()

    def _show_models(self) -> None:
        models = self._parts.models
        if LIBRARY in self._pages:
            self.library.set_models(self._models, memory=models.memory, problems=models.problems)
        if CONVERT in self._pages:
            self.convert.set_models(self._models, memory=models.memory)

    def _follow_model(self, _status: object) -> None:
        if LIBRARY in self._pages:
            self.library.set_loaded(self._parts.models.loaded_path)

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

    def take_texts(self, paths: list[Path]) -> None:
        """Adds the texts of files to what is written: to the notebook where it is open, else to the message."""
        if self._page != NOTEBOOK:
            self.turn_to(CHAT)
        for path in paths:
            self._background.run(lambda path=path: read_text_file(path), self._take_text)  # type: ignore[misc]

    def _take_text(self, text: str) -> None:
        if self._page == NOTEBOOK:
            self.notebook.edit.paste_text(text)
        else:
            self.text_dropped.emit(text)

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
        page: ConvertPage = self._whole(CONVERT)
        return page

    def _join_convert(self, page: ConvertPage) -> None:
        page.chat_requested.connect(self.chat_requested)
        page.close_requested.connect(lambda: self.turn_to(CHAT))
        page.converted.connect(lambda path: self._take_converted(path))
        if self._models:
            self._show_models()

    def _convert_model(self, path: str) -> None:
        self.turn_to(CONVERT)
        self.convert.choose(path)

    def _take_converted(self, path: str) -> None:
        self._parts.known.add(Path(path))
        self._parts.models.scan()


class _Opening(QWidget):
    """What shows of a page until it is there: its title, in its place."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.setObjectName("page")
        words = Words(title, wrap=False)
        words.setFont(current_theme().title_font)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.WIDE, Space.LARGE, Space.WIDE, Space.MEDIUM)
        column.addWidget(words)
        column.addStretch(1)
