"""What is in the window: chats on the left, the conversation, settings on the right. Joins widgets and objects.

It keeps nothing that matters: building it again (after a change of language) loses nothing. `Shell` is around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QSplitter, QStackedWidget, QVBoxLayout, QWidget
from shiboken6 import isValid

from desktop.actions import make_actions
from desktop.chat.composing import ComposingArea
from desktop.chat.drop_veil import DropVeil, dropped_model, dropped_texts, offer_of
from desktop.chat.empty_state import EmptyState
from desktop.chat.exchange import ChatExchange
from desktop.chat.find_in_chat import FindInChat
from desktop.chat.header import Header, ModelStatus
from desktop.chat.ledger.control import LedgerControl
from desktop.chat.links import LinkOpener
from desktop.chat.model_picker import ModelPicker
from desktop.chat.plain_text import one_line
from desktop.chat.session import ChatSession
from desktop.chat.shortcuts import ShortcutsCard
from desktop.chat.sidebar import Sidebar
from desktop.chat.system_prompt import SystemPromptPanel
from desktop.chat.view.conversation_view import ConversationView
from desktop.chat.view.message_model import MessageListModel
from desktop.chat.zoom import Zoom
from desktop.controls.notice import Notice
from desktop.engine_client import EngineClient
from desktop.job import Jobs
from desktop.library.known_files import KnownFiles
from desktop.models import Models, Trouble
from desktop.notebook.notebooks import Notebooks
from desktop.pages import Pages
from desktop.remedies import words_for
from desktop.remedy_actions import RemedyActions
from desktop.settings.live import LiveSettings
from desktop.shell import STATE_KEY
from desktop.state_file import StateFile
from desktop.store.chat_store import ChatStore
from desktop.store.keeper import ChatsNotSaved
from desktop.store.records import ChatSummary, NotebookSummary
from desktop.theme import Size, Space, Theme, ThemeSource
from runtime.errors import ErrorInfo
from runtime.params import SamplingParams
from runtime.places import places
from runtime.protocol import EngineInfo
from runtime.settings import changed
from runtime.text import _

if TYPE_CHECKING:
    from desktop.about_card import AboutCard
    from desktop.backups_card import BackupsCard
    from desktop.chat.answer_card import AnswerCard
    from desktop.diagnostics_card import DiagnosticsCard
    from desktop.notebook.page import NotebookPage
    from desktop.palette.palette import Palette
    from desktop.settings.panel import SettingsPanel


_LEAST_CENTRE = 360  # pixels in which a conversation can be read
_LEAST_PAGE = 540  # and in which the other pages have room for their tables
_NO_TEMPLATE = "no_template_in_model"
_PRIVATE = (  # may hold the person's own words
    "stop", "grammar", "json_schema", "logit_bias", "lora", "draft_model", "template", "template_vars", "dry_breakers",
    "model", "model_folders",
)  # fmt: skip
# What notices are about that are taken away.
_MODEL, _SAVING, _CLOSING, _RESTORED = "model", "saving", "closing", "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The objects behind the window. They live as long as the application."""

    store: ChatStore
    client: EngineClient
    session: ChatSession
    notebooks: Notebooks
    items: MessageListModel
    models: Models
    live: LiveSettings
    themes: ThemeSource
    state: StateFile
    jobs: Jobs
    known: KnownFiles


class MainWindow(QWidget):
    """The content of the window, over `Parts`."""

    quit_requested = Signal()

    def __init__(self, parts: Parts, *, in_steps: bool = False, replaces: MainWindow | None = None) -> None:
        """With `in_steps`, nothing is there until all `steps` were taken, so that none of them takes long.

        A window that `replaces` another is built beside it, and is then handed over what is written there.
        """
        super().__init__()
        self._parts, self._is_first = parts, replaces is None
        self._panel: SettingsPanel | None = None
        self._sidebar_wanted = True
        self._sidebar_width, self._panel_width = Size.SIDEBAR[1], Size.PANEL[1]
        self._picker: ModelPicker | None = None
        self.setAcceptDrops(True)
        self.steps = self._build()
        if not in_steps:
            for _step in self.steps:
                pass

    def _build(self) -> Iterator[None]:
        yield from self._make_widgets()
        yield from self._lay_out()
        self.actions_by_name = make_actions(self, self._handlers())
        self._connect_widgets()
        self._connect_parts()
        self._show_all()
        self._restore()

    # --- building --------------------------------------------------------------------------------------------------

    def _make_widgets(self) -> Iterator[None]:
        parts = self._parts
        self.sidebar = Sidebar(parts.store)
        yield
        self.header = Header()
        self.system_prompt = SystemPromptPanel()
        self.notice = Notice()
        yield
        self._stack, self.empty = QStackedWidget(), EmptyState()
        self._stack.addWidget(self.empty)
        yield
        self._make_view()
        yield
        self.find_in_chat = FindInChat(self.view, parts.items)
        self.links, self.zoom = LinkOpener(self), Zoom(parts.state, self)
        yield
        self.composing = ComposingArea(parts.session, parts.client, parts.items, in_charge=self._is_first)
        self.ledger = LedgerControl(parts.session, self.view, self.composing, self)
        self.remedies = RemedyActions(
            self, models=parts.models, session=parts.session, live=parts.live, client=parts.client, parent=self
        )
        self.veil = DropVeil(self)
        self.exchange = ChatExchange(parts.store, self)
        yield

    def _make_view(self) -> None:
        """The page is chosen before the view lays a chat out, which so is done once, for the width it has there."""
        items = self._parts.items
        items.modelReset.connect(self._choose_page)
        self.view = ConversationView(items)
        self._stack.addWidget(self.view)

    def _lay_out(self) -> Iterator[None]:
        centre = QWidget()
        centre.setObjectName("centre")
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.header)
        column.addWidget(_Fold(self.notice))
        talk = QStackedWidget()
        talk.addWidget(self._made_chat())
        column.addWidget(talk, 1)
        yield
        self.pages = Pages(centre, talk, self._parts, self)
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.setHandleWidth(1)
        self.splitter.setChildrenCollapsible(False)
        self.sidebar.setMinimumWidth(Size.SIDEBAR[0])
        self.sidebar.setMaximumWidth(Size.SIDEBAR[2])
        self.splitter.addWidget(self.sidebar)
        self.splitter.addWidget(self.pages)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.splitterMoved.connect(self._note_width)
        yield
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.splitter)

    def _made_chat(self) -> QWidget:
        chat = QWidget()
        column = QVBoxLayout(chat)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(_Fold(self.system_prompt))
        column.addWidget(self._stack, 1)
        column.addLayout(_centred(self.composing, top=Space.SMALL, bottom=Space.SMALL))
        return chat

    def _handlers(self) -> dict[str, Any]:
        return {
            "new_chat": self.new_chat, "search": self._focus_search, "sidebar": self._toggle_sidebar,
            "find": self._find, "zoom_in": lambda: self.zoom.step(1), "zoom_out": lambda: self.zoom.step(-1),
            "zoom_reset": self.zoom.reset,
            "settings": self._toggle_panel, "system_prompt": self._toggle_prompt, "models": self.open_picker,
            "open_file": self._ask_for_file, "composer": self.focus_composer, "stop": self._escape,
            "palette": self.open_palette,
            "notebook": lambda: self.pages.turn_to("notebook"),
            "library": lambda: self.pages.turn_to("library"), "convert": lambda: self.pages.turn_to("convert"),
            "ledger": lambda: self.show_ledger(not self.ledger.is_open),
            "receipts": self.show_receipts, "diagnostics": self.show_diagnostics,
            "backups": self.show_backups,
            "export_markdown": lambda: self.exchange.ask_export(self._parts.session.chat_id, "markdown"),
            "export_json": lambda: self.exchange.ask_export(self._parts.session.chat_id, "json"),
            "import_chats": self.exchange.ask_import,
            "about": self.show_about, "shortcuts": self._show_shortcuts, "quit": self.quit_requested.emit,
        }  # fmt: skip

    def _connect_widgets(self) -> None:
        self._connect_sidebar()
        self._connect_header()
        self._connect_view()
        self.empty.prompt_chosen.connect(self.composing.send)
        self.empty.library_requested.connect(lambda: self.pages.turn_to("library"))
        self.empty.file_requested.connect(self._ask_for_file)
        self.composing.about_to_send.connect(self._before_sending)
        self.ledger.visible_requested.connect(self.show_ledger)
        self.ledger.policy_requested.connect(lambda: self.remedies.run("nothing_may_be_left_out"))
        self.ledger.remedy_requested.connect(self.remedies.run)
        self.system_prompt.edited.connect(self._parts.session.set_system_prompt)
        self.notice.acted.connect(self._help)

    def _connect_sidebar(self) -> None:
        self.sidebar.new_requested.connect(self.new_chat)
        self.sidebar.collapse_requested.connect(self._toggle_sidebar)
        self.sidebar.chat_chosen.connect(self._open_chat)
        self.sidebar.notebook_requested.connect(lambda: self.pages.turn_to("notebook"))
        self.sidebar.notebook_chosen.connect(self._open_notebook)
        self.sidebar.library_requested.connect(lambda: self.pages.turn_to("library"))
        self.sidebar.convert_requested.connect(lambda: self.pages.turn_to("convert"))
        self.sidebar.export_requested.connect(self.exchange.ask_export)
        self.sidebar.import_requested.connect(self.exchange.ask_import)
        self.exchange.failed.connect(self.show_problem)
        self.exchange.said.connect(self.composing.meter.say)
        self.exchange.imported.connect(lambda chat_id: self._open_chat(chat_id, None))
        self.pages.turned.connect(self.sidebar.mark_page)
        self.pages.turned.connect(self.header.follow_page)
        self.pages.turned.connect(self._follow_page)
        self.pages.notebook_made.connect(self._join_notebook)
        self.pages.text_dropped.connect(self.composing.composer.add_chip)
        self.pages.failed.connect(self.show_problem)
        self.pages.chat_requested.connect(self._chat_with)
        self.sidebar.delete_requested.connect(self._parts.session.delete_chat)
        self.sidebar.rename_requested.connect(self._parts.session.rename_chat)

    def _connect_header(self) -> None:
        models = self._parts.models
        self.header.picker_requested.connect(self.open_picker)
        self.header.load_requested.connect(models.load)
        self.header.eject_requested.connect(models.eject)
        self.header.stop_loading_requested.connect(models.cancel)
        self.header.prompt_toggled.connect(self.show_prompt)
        self.header.panel_toggled.connect(self.show_panel)
        self.header.sidebar_requested.connect(self._toggle_sidebar)

    def _connect_view(self) -> None:
        session = self._parts.session
        self.view.regenerate_requested.connect(self._regenerate)
        self.view.retry_requested.connect(self._regenerate)
        self.view.continue_requested.connect(self._continue)
        self.view.edit_requested.connect(self.composing.edit)
        self.view.remedy_requested.connect(self._help_answer)
        self.view.version_requested.connect(session.choose_version)
        self.view.link_activated.connect(self.links.follow)
        self.view.zoom_requested.connect(self.zoom.step)
        self.zoom.changed.connect(self._follow_zoom)

    def _connect_parts(self) -> None:
        """Bound methods only: Qt forgets them when the window is gone, which it does not do for functions."""
        parts = self._parts
        parts.session.chat_changed.connect(self._show_chat)
        parts.session.title_changed.connect(self._show_title)
        parts.session.system_prompt_changed.connect(self.system_prompt.set_text)
        parts.session.busy_changed.connect(self._follow_busy)
        parts.notebooks.busy_changed.connect(self._follow_busy)
        parts.notebooks.problem.connect(self.show_problem)
        parts.session.problem.connect(self.show_problem)
        parts.session.context_trimmed.connect(self._note_trimmed)
        parts.session.answer_ended.connect(self._say_once)
        parts.store.problem.connect(self.show_problem)
        parts.store.saving_again.connect(self._note_saving)
        parts.live.write_failed.connect(self._show_write_failure)
        parts.live.changed.connect(self.composing.context.soon)
        parts.models.status_changed.connect(self._show_status)
        parts.models.trouble.connect(self._show_trouble)
        parts.models.listed.connect(self._show_models)
        parts.models.ready.connect(self._model_is_ready)
        parts.models.reload_changed.connect(self._show_reload)
        parts.items.rowsInserted.connect(self._choose_page)
        parts.items.rowsRemoved.connect(self._choose_page)
        parts.themes.changed.connect(self._follow_theme)

    def _show_all(self) -> None:
        session = self._parts.session
        self._show_chat(session.chat_id)
        self._show_title(session.title)
        self.system_prompt.set_text(session.system_prompt)
        self._show_status(self._parts.models.status)
        self._follow_busy(session.busy)
        self._choose_page()
        self._follow_zoom(self.zoom.percent)

    # --- showing what happens --------------------------------------------------------------------------------------

    def _show_chat(self, chat_id: str) -> None:
        self.sidebar.set_current(chat_id)

    def _show_title(self, title: str) -> None:
        self.window().setWindowTitle(f"{one_line(title)} – Quern" if title else "Quern")

    def _show_status(self, status: ModelStatus) -> None:
        self.header.show_status(status)
        self.empty.show_status(status)

    def _show_models(self, models: tuple[Any, ...]) -> None:
        if self._picker is not None:
            self._picker.set_models(models, problems=self._parts.models.problems)

    def _model_is_ready(self, engine: EngineInfo) -> None:
        self.notice.dismiss(about=_MODEL)
        if engine.notes:
            title = _("The model was loaded otherwise than the settings say.")
            error = ErrorInfo(title=title, message="\n".join(engine.notes), code="notes")
            self.notice.show_error(error, tone="quiet", about=_MODEL)
        self._offer_template(engine)

    def _offer_template(self, engine: EngineInfo) -> None:
        """A model without a chat template answers best with the one that its vocabulary was made for."""
        self.notice.dismiss(about=_NO_TEMPLATE)
        if engine.has_template or engine.reads_source or self._parts.live.sampling.template:
            return
        if engine.template_guess:
            cause = _("Its vocabulary was made for “{name}”.").format(name=engine.template_guess)
            action = _("Use “{name}”").format(name=engine.template_guess)
        else:
            cause = _("It may be a base model, which goes on with a text. To chat with it all the same, choose a "
                      "template in the settings.")  # fmt: skip
            action = _("Continue text in the notebook")
        error = ErrorInfo(title=_("This model has no chat template."), message=cause, code=_NO_TEMPLATE)
        self.notice.show_error(error, action=action, tone="quiet", about=_NO_TEMPLATE)

    def choose_template(self) -> None:
        """Shows where the chat template is chosen."""
        self.show_setting(_("Chat template"))

    def _choose_template(self) -> None:
        engine = self._parts.models.engine
        if engine is not None and engine.template_guess:
            self._parts.live.set_for_model(SamplingParams, template=engine.template_guess)
        else:
            self.pages.turn_to("notebook")

    def _show_trouble(self, trouble: Trouble) -> None:
        self.notice.show_error(trouble.error, action=trouble.action, tone=trouble.tone, about=_MODEL)

    def _say_once(self, chat_id: str, _state: object) -> None:
        """An error that stands in the conversation need not stand above it as well."""
        error = self._parts.items.items()[-1].error if self._parts.items.rowCount() else None
        if error is not None and chat_id == self._parts.session.chat_id:
            self.notice.withdraw(error)

    def _show_write_failure(self, error: Any) -> None:
        self.show_problem(error.info)

    def show_problem(self, error: ErrorInfo) -> None:
        """Shows an error above the conversation, with the button that helps."""
        about = _SAVING if error.code == ChatsNotSaved.code else ""
        tone = "bad" if error.code == "bug" else "caution"
        self.notice.show_error(error, action=words_for(error.code), tone=tone, about=about)

    def _note_saving(self) -> None:
        self.notice.dismiss(about=_SAVING)

    def _note_trimmed(self, dropped: int) -> None:
        del dropped  # the answer's own line says how many; the meter says that the context is full
        self.composing.meter.say(_("The oldest messages no longer fit and were left out of the prompt."))

    def _show_reload(self, needed: bool) -> None:
        if self._panel is not None:
            self._panel.show_reload(needed)

    def _follow_busy(self, busy: bool) -> None:
        busy = busy or self._parts.session.busy or self._parts.notebooks.busy
        self.actions_by_name["stop"].setEnabled(busy or self.composing.editing)

    def _follow_theme(self, theme: Theme) -> None:
        self.view.set_theme(theme)

    def _choose_page(self, *_what: object) -> None:
        self._stack.setCurrentWidget(self.view if self._parts.items.rowCount() else self.empty)

    # --- doing -----------------------------------------------------------------------------------------------------

    def _chat_with(self, path: str) -> None:
        self.pages.turn_to("chat")
        self.open_model(path)
        self.focus_composer()

    def new_chat(self) -> None:
        """Shows an empty chat, ready to write in."""
        self.pages.turn_to("chat")
        self.system_prompt.commit()
        self._parts.session.new_chat()
        self.focus_composer()

    def _open_chat(self, chat_id: str, message_id: str | None) -> None:
        self.pages.turn_to("chat")
        if chat_id != self._parts.session.chat_id or message_id is not None:
            self.system_prompt.commit()
            self._parts.session.open(chat_id, reveal=message_id)

    def _open_notebook(self, id: str) -> None:
        self._parts.notebooks.open(id)
        self.pages.turn_to("notebook")

    def _join_notebook(self, page: NotebookPage) -> None:
        page.edit.set_zoom(self.zoom.percent)
        page.edit.zoom_requested.connect(self.zoom.step)
        page.about_to_write.connect(self._parts.models.ensure)
        page.problem.connect(self.show_problem)
        self.zoom.changed.connect(page.edit.set_zoom)

    def _before_sending(self) -> None:
        self.system_prompt.commit()
        self._parts.models.ensure()

    def _regenerate(self, item_id: str) -> None:
        self._before_sending()
        self._parts.session.regenerate(item_id)

    def _continue(self, item_id: str) -> None:
        self._before_sending()
        self._parts.session.continue_answer(item_id)

    def open_model(self, path: str) -> None:
        """Loads a model file that was dropped, chosen or named at the start."""
        self._parts.models.load(path)

    def _help(self, code: str) -> None:
        """The button of a notice."""
        if code != ChatsNotSaved.code:  # that stays until it is so no more
            self.notice.dismiss()
        if code == _NO_TEMPLATE:
            self._choose_template()
        elif code == _CLOSING:
            self.quit_requested.emit()
        elif not self.remedies.run(code):
            self.open_picker()

    def _help_answer(self, item_id: str) -> None:
        """The button of an answer that failed."""
        error = self._parts.items.item(self._parts.items.row_of(item_id)).error
        if error is not None:
            self.remedies.run(error.code, item_id)

    def open_library(self) -> None:
        """Turns to the library of models."""
        self.pages.turn_to("library")

    def open_data_folder(self) -> None:
        """Opens the folder of the chats in the system's file manager, to make room or give permission there."""
        _reveal(places().data)

    def open_logs(self) -> None:
        """Opens the folder of the logs in the system's file manager."""
        _reveal(places().logs)

    def ask_import(self) -> None:
        """Asks for a file with chats."""
        self.exchange.ask_import()

    def unpin_all(self) -> None:
        """Lets every pinned message of the chat be left out again."""
        self.ledger.unpin_all()

    def ask_before_closing(self) -> None:
        """Says that work is under way which closing would end."""
        self.pages.turn_to("chat")
        error = ErrorInfo(
            title=_("A conversion is under way."),
            message=_("Closing Quern stops it; nothing half-written is left behind."), code=_CLOSING,
        )  # fmt: skip
        self.notice.show_error(error, action=_("Stop it and close"), tone="caution", about=_CLOSING)

    def _escape(self) -> None:
        if self.pages.page == "notebook":
            self._parts.notebooks.stop()
        elif self._parts.session.busy:
            self._parts.session.stop()
        elif self.composing.editing:
            self.composing.cancel_edit()

    # --- panels ----------------------------------------------------------------------------------------------------

    def open_picker(self) -> None:
        """Opens the list of models under the model's name and looks for models anew."""
        if self._picker is None:
            self._picker = ModelPicker(self)
            self._picker.chosen.connect(self.open_model)
            self._picker.file_requested.connect(self._ask_for_file)
            self._picker.eject_requested.connect(self._parts.models.eject)
        self._parts.models.scan()
        self._picker.open_under(self.header.model_button, current=self._parts.models.loaded_path)

    @property
    def picker(self) -> ModelPicker | None:
        """The list of models, once it was opened."""
        return self._picker

    @property
    def panel(self) -> SettingsPanel | None:
        """The settings, once they were opened."""
        return self._panel

    def show_panel(self, visible: bool) -> None:
        """Shows or hides the settings; they are built when they are first shown."""
        if visible and self._panel is None:
            self._panel = self._made_panel()
        if self._panel is not None:
            self._panel.setVisible(visible)
        if visible and self.ledger.panel is not None:
            self.ledger.panel.hide()
        self._share_width()
        self.header.panel_button.setChecked(visible)

    def show_ledger(self, visible: bool) -> None:
        """Shows or hides what fills the context, in the place of the settings."""
        if visible:
            self.pages.turn_to("chat")
            self.show_panel(False)
            self._dock(self.ledger.made_panel())
            self.ledger.made_panel().show()
            self.ledger.made_panel().list.setFocus()
        elif self.ledger.panel is not None:
            self.ledger.panel.hide()
            self.focus_composer()
        self._share_width()

    @property
    def _least(self) -> int:
        return _LEAST_CENTRE if self.pages.page in ("chat", "notebook") else _LEAST_PAGE

    def _follow_page(self, _page: str) -> None:
        """A page that needs more room gets it: what is docked goes first, then the chats."""
        docked = self._docked
        if docked is not None and self.width() - self._panel_width < self._least:
            if self._panel_is_open:
                self.show_panel(False)
            else:
                docked.hide()
        self._share_width()

    def _share_width(self) -> None:
        """Gives both sides the width they had, and the conversation the rest; without room, the chats step aside."""
        left, right = self._sidebar_width, self._panel_width if self._docked is not None else 0
        shown = self._sidebar_wanted and self.width() - left - right >= self._least
        self.sidebar.setVisible(shown)
        self.header.sidebar_button.setVisible(not shown)
        docked = [right] * (self.splitter.count() - 2)  # at most one of them is shown
        self.splitter.setSizes([left, max(self.width() - left * shown - right, 0), *docked])

    @property
    def _panel_is_open(self) -> bool:
        return self._panel is not None and not self._panel.isHidden()

    @property
    def _docked(self) -> QWidget | None:
        """The panel that is open at the right edge: the settings, or what fills the context."""
        return self._panel if self._panel_is_open else self.ledger.panel if self.ledger.is_open else None

    def _note_width(self, _place: int, _handle: int) -> None:
        if not self.sidebar.isHidden():
            self._sidebar_width = self.sidebar.width()
        if (docked := self._docked) is not None:
            self._panel_width = docked.width()

    def _dock(self, panel: QWidget) -> None:
        """Gives a panel its place at the right edge."""
        if self.splitter.indexOf(panel) < 0:
            panel.setMinimumWidth(Size.PANEL[0])
            panel.setMaximumWidth(Size.PANEL[2])
            self.splitter.addWidget(panel)
            self.splitter.setStretchFactor(self.splitter.count() - 1, 0)

    def _made_panel(self) -> SettingsPanel:
        from desktop.settings.panel import SettingsPanel
        from desktop.settings.presets import PresetFolder

        panel = SettingsPanel(
            self._parts.live, models=self._parts.models, presets=PresetFolder(places().config / "presets")
        )
        panel.close_requested.connect(self._toggle_panel)
        panel.reload_requested.connect(self._parts.models.reload)
        panel.show_reload(self._parts.models.needs_reload)
        self._dock(panel)
        return panel

    def _toggle_panel(self) -> None:
        self.show_panel(not self._panel_is_open)

    def show_prompt(self, visible: bool) -> None:
        """Unfolds or folds the system prompt."""
        self.system_prompt.setVisible(visible)
        self.header.prompt_button.setChecked(visible)
        if visible:
            self.system_prompt.edit.setFocus()
        else:
            self.system_prompt.commit()

    def _toggle_prompt(self) -> None:
        self.show_prompt(self.system_prompt.isHidden())

    def show_sidebar(self, visible: bool) -> None:
        """Shows or hides the list of chats."""
        self._sidebar_wanted = visible
        room = self.width() - self._sidebar_width - self._panel_width
        if visible and room < _LEAST_CENTRE and (docked := self._docked) is not None:
            (self.show_panel if docked is self._panel else self.show_ledger)(False)
        self._share_width()

    def _toggle_sidebar(self) -> None:
        self.show_sidebar(self.sidebar.isHidden())

    def _focus_search(self) -> None:
        self.show_sidebar(True)
        self.sidebar.search.setFocus()
        self.sidebar.search.selectAll()

    def _follow_zoom(self, percent: int) -> None:
        self.view.set_zoom(percent)
        self.composing.composer.set_zoom(percent)

    def _find(self) -> None:
        if self.view.isVisible():
            self.find_in_chat.open()
        else:
            self._focus_search()

    def focus_composer(self) -> None:
        """Lets typing go where messages are written."""
        self.pages.turn_to("chat")
        self.composing.composer.edit.setFocus()

    def open_palette(self) -> Palette:
        """Opens the list of everything that can be done or opened by its name."""
        from desktop.palette import entries
        from desktop.palette.palette import Palette

        palette = Palette(self)
        rows = palette.rows
        rows.add(entries.of_actions(self.actions_by_name))
        rows.add(entries.of_settings(self.show_setting))
        rows.add(entries.of_models(self.pages.models, self._chat_with))

        def take(chats: list[ChatSummary] | None) -> None:
            if isValid(rows):
                rows.add(entries.of_chats(chats or (), lambda chat_id: self._open_chat(chat_id, None)))

        def take_books(books: list[NotebookSummary] | None) -> None:
            if isValid(rows):
                rows.add(entries.of_notebooks(books or (), self._open_notebook))

        self._parts.store.list_chats(take)
        self._parts.store.list_notebooks(take_books)
        palette.open_over(self)
        return palette

    def show_setting(self, title: str) -> None:
        """Opens the settings where the one with this title is."""
        self.show_panel(True)
        if self._panel is not None:
            self._panel.search.setText(title)
            self._panel.search.setFocus()

    def show_receipts(self) -> AnswerCard:
        """Shows how the last answer was made, and the ones before it."""
        from desktop.chat.answer_card import AnswerCard

        card = AnswerCard(self._parts.session.answers, self._parts.store, self._parts.client, self)
        card.open_over(self)
        return card

    def show_diagnostics(self) -> DiagnosticsCard:
        """Shows what helps to find a fault, without anything of the chats."""
        from desktop.diagnostics import report
        from desktop.diagnostics_card import DiagnosticsCard

        live, engine, found = self._parts.live, self._parts.models.engine, places()
        settings = [f"{name}={value}" for group in (live.app, live.load, live.sampling)
                    for name, value in changed(group).items() if name not in _PRIVATE]  # fmt: skip
        card = DiagnosticsCard(lambda: report(found, engine, settings), lambda: _reveal(found.logs), self)
        card.open_over(self)
        return card

    def show_about(self) -> AboutCard:
        """Shows version, build, engines and licences."""
        from desktop.about import about_text, licence_file
        from desktop.about_card import AboutCard
        from desktop.library.page import reveal

        card = AboutCard(about_text, licence_file(), reveal, self)
        card.open_over(self)
        return card

    def show_backups(self) -> BackupsCard:
        """Shows the backups of the chats, to go back to one."""
        from desktop.backups_card import BackupsCard
        from desktop.library.page import reveal

        card = BackupsCard(self._parts.store, lambda: reveal(places().chats_file), self)
        card.restore_requested.connect(self.restore_backup)
        card.open_over(self)
        return card

    def restore_backup(self, path: Path) -> None:
        """Ends what is being written and puts a backup in the place of all chats and notebooks."""
        self._parts.notebooks.start_over()
        self._parts.session.start_over()
        self._parts.store.restore_backup(path, lambda kept, error: self._restored(kept, error))

    def _restored(self, kept: Path | None, error: ErrorInfo | None) -> None:
        if not isValid(self):
            return
        self._parts.notebooks.open_latest()
        self.sidebar.refresh()
        if kept is not None:
            words = _("The backup was restored. What was there before is in the list of backups.")
            error = ErrorInfo(title=words, code=_RESTORED)
        if error is not None:
            self.notice.show_error(error, tone="quiet" if kept is not None else "bad", about=_RESTORED)

    def _show_shortcuts(self) -> None:
        ShortcutsCard(self).open_over(self)

    def _ask_for_file(self) -> None:
        dialog = QFileDialog(self, _("Open a model file"), "", _("Model files (*.gguf);;All files (*)"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.open_model)
        dialog.open()

    # --- dropping --------------------------------------------------------------------------------------------------

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if words := offer_of(event.mimeData()):
            event.acceptProposedAction()
            self.veil.show_for(words)

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        self.veil.hide()

    def dropEvent(self, event: QDropEvent) -> None:
        self.veil.hide()
        path, texts = dropped_model(event.mimeData()), dropped_texts(event.mimeData())
        if path is not None:
            event.acceptProposedAction()
            self.pages.take_dropped(path)
        elif texts:
            event.acceptProposedAction()
            self.pages.take_texts(texts)

    # --- remembering -----------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        kept = self._kept()
        self._sidebar_width = _whole(kept.get("sidebar_width"), Size.SIDEBAR[1])
        self._panel_width = _whole(kept.get("panel_width"), Size.PANEL[1])
        self.show_sidebar(bool(kept.get("sidebar", True)))
        self.show_panel(bool(kept.get("panel", False)))
        if kept.get("ledger", False) and not self._panel_is_open:
            self.show_ledger(True)

    def _kept(self) -> dict[str, Any]:
        known = self._parts.state.get(STATE_KEY)
        return known if isinstance(known, dict) else {}

    def remember(self) -> None:
        """Keeps what is open and how wide it is for the next start."""
        self.system_prompt.commit()
        kept = {
            **self._kept(),
            "sidebar": self._sidebar_wanted,
            "panel": self._panel_is_open,
            "ledger": self.ledger.is_open,
            "sidebar_width": self._sidebar_width,
            "panel_width": self._panel_width,
        }
        self._parts.state.set(STATE_KEY, kept)

    def hand_over(self, newer: MainWindow) -> None:
        """Gives what is being written, searched for and looked at to the window that takes this one's place."""
        self.system_prompt.commit()
        self.composing.hand_over(newer.composing)
        newer.show_prompt(not self.system_prompt.isHidden())
        newer.notice.take_over(self.notice)
        newer.view.take_over(self.view)
        newer.find_in_chat.take_over(self.find_in_chat)
        newer.sidebar.search.setText(self.sidebar.search.text())
        newer.pages.take_over(self.pages)
        if self._panel is not None and newer._panel is not None:
            newer._panel.take_over(self._panel)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.veil.setGeometry(self.rect())
        self._share_width()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        activated = event.type() == QEvent.Type.ActivationChange and self.isActiveWindow()
        if activated and self.focusWidget() is None and self.pages.page == "chat":
            self.focus_composer()


def _reveal(folder: Path) -> None:
    from desktop.library.page import reveal

    reveal(folder)


class _Fold(QWidget):
    """Keeps a widget in the middle of the column; takes no room at all while that widget is hidden."""

    def __init__(self, inner: QWidget) -> None:
        super().__init__()
        self.setLayout(_centred(inner, top=Space.SMALL, bottom=Space.SMALL))
        self.setVisible(not inner.isHidden())
        inner.installEventFilter(self)

    def eventFilter(self, inner: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent) and isinstance(inner, QWidget):
            self.setVisible(not inner.isHidden())
        return False


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else otherwise


def _centred(widget: QWidget, *, top: int = 0, bottom: int = 0) -> QHBoxLayout:
    """Returns a row that keeps a widget in the middle, at most as wide as the conversation's column."""
    widget.setMaximumWidth(Size.COLUMN)
    row = QHBoxLayout()
    row.setContentsMargins(Space.WIDE, top, Space.WIDE, bottom)
    row.addStretch(1)
    row.addWidget(widget, 1000)
    row.addStretch(1)
    return row
