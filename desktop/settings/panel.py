"""The settings panel: what most people change first, the rest folded, a search over all of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from desktop import fonts
from desktop.controls.buttons import Button, IconButton, SearchField, Words
from desktop.settings.creativity import CreativityRow
from desktop.settings.live import LiveSettings
from desktop.settings.memory_card import MemoryCard
from desktop.settings.memory_gauge import MemoryGauge
from desktop.settings.presets import PresetFolder
from desktop.settings.scope_bar import ScopeBar
from desktop.settings.sections import Section
from desktop.settings.template_card import TemplateCard
from desktop.theme import Space
from runtime.params import GROUPS
from runtime.settings import SettingField, fields_of, sections_of
from runtime.text import N_, _

if TYPE_CHECKING:
    from desktop.models import Models

# The order in which people look for things; sections that are not named here follow. True: open at first.
_ORDER: dict[str, bool] = {
    N_("Answer"): True, N_("Memory"): True, N_("Appearance"): True, N_("Start"): True, N_("Creativity"): False,
    N_("Chat template"): False, N_("Repetition"): False, N_("Form of the answer"): False,
    N_("Expert sampling"): False, N_("Speed"): False, N_("Graphics card"): False,
}  # fmt: skip


class SettingsPanel(QWidget):
    """Shows every declared setting over `LiveSettings`. `reload_requested` asks to load the model anew."""

    reload_requested = Signal()
    close_requested = Signal()

    def __init__(
        self, live: LiveSettings, *, models: Models | None = None, presets: PresetFolder | None = None,
        parent: QWidget | None = None,
    ) -> None:  # fmt: skip
        """With `models` the memory they take is shown, with `presets` settings are kept under names."""
        super().__init__(parent)
        self.setObjectName("panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._live = live
        self._settings = [declared for group in GROUPS for declared in fields_of(group)]
        self._openings: deque[Callable[[], None]] = deque()
        self._findings: deque[Callable[[], None]] = deque()
        self._next_step = QTimer(self, interval=0)
        self._next_step.timeout.connect(self._take_step)
        self._models = models
        self.gauge = MemoryGauge(models, live, self) if models is not None else None
        self.scope = ScopeBar(live, presets) if presets is not None else None
        self._sections: list[Section] = []
        self._unmade = deque(self._titles())
        self._unfolded: dict[str, tuple[bool, bool]] = {}  # by title, as another panel has them
        self._scroll_to: int | None = None
        self.search = SearchField(_("Search settings"))
        self.search.textChanged.connect(self._find)
        self._nothing = Words(_("No setting has this in its name or help."), tone="quiet")
        self._nothing.hide()
        self._reload_bar = self._make_reload_bar()
        self._lay_out()
        self._next_step.start()

    def _take_step(self) -> None:
        """Builds one section at a time, so that the window never waits for all of them."""
        steps = self._openings or self._findings
        if self._unmade:
            self._make_section(self._unmade.popleft())
        elif steps:
            steps.popleft()()
        elif self.settled:
            self._next_step.stop()
            QTimer.singleShot(0, self, self._scroll_back)  # the layout comes first

    @property
    def settled(self) -> bool:
        """True when everything that shall show does."""
        waiting = self._unmade or self._openings or self._findings
        return not waiting and all(section.settled for section in self._sections)

    @property
    def sections(self) -> list[Section]:
        """All sections; those that are not made yet are made now."""
        while self._unmade:
            self._make_section(self._unmade.popleft())
        return self._sections

    def _titles(self) -> list[str]:
        found = sections_of(self._settings)
        return sorted(found, key=lambda title: list(_ORDER).index(title) if title in _ORDER else len(_ORDER))

    def _make_section(self, title: str) -> None:
        settings = sections_of(self._settings)[title]
        section = Section(title, settings, self._live, first_row=self._first_rows().get(title), parent=self)
        self._column.insertWidget(len(self._sections), section)
        self._sections.append(section)
        if title in self._unfolded:
            self._openings.append(partial(section.unfold, *self._unfolded[title]))
        elif _ORDER.get(title, False):
            self._openings.append(partial(section.set_open, True))

    def _first_rows(self) -> dict[str, Callable[[], QWidget]]:
        """Returns what stands above the single settings of a section."""
        rows: dict[str, Callable[[], QWidget]] = {"Answer": lambda: CreativityRow(self._live)}
        if (gauge := self.gauge) is not None:
            rows["Memory"] = lambda: MemoryCard(gauge)
        if (models := self._models) is not None:
            rows["Chat template"] = lambda: TemplateCard(self._live, models)
        return rows

    def _make_reload_bar(self) -> QFrame:
        bar = QFrame()
        bar.setProperty("kind", "card")
        row = QHBoxLayout(bar)
        row.setContentsMargins(Space.MEDIUM, Space.SMALL, Space.SMALL, Space.SMALL)
        row.addWidget(Words(_("Some changes wait until the model is loaded again.")), 1)
        button = Button(_("Reload"), kind="primary")
        button.clicked.connect(self.reload_requested)
        row.addWidget(button)
        bar.hide()
        return bar

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self._heading())
        column.addWidget(self._scroller(), 1)
        foot = QVBoxLayout()
        foot.setContentsMargins(Space.MEDIUM, 0, Space.MEDIUM, Space.MEDIUM)
        foot.addWidget(self._reload_bar)
        column.addLayout(foot)

    def _heading(self) -> QVBoxLayout:
        title = Words(_("Settings"), wrap=False)
        title.setFont(fonts.strong())
        close = IconButton("close", _("Close settings"))
        close.clicked.connect(self.close_requested)
        row = QHBoxLayout()
        row.addWidget(title, 1)
        row.addWidget(close)
        column = QVBoxLayout()
        column.setContentsMargins(Space.LARGE, Space.SMALL, Space.SMALL, Space.MEDIUM)
        column.addLayout(row)
        searching = QHBoxLayout()
        searching.setContentsMargins(0, 0, Space.SMALL, 0)
        searching.addWidget(self.search)
        column.addLayout(searching)
        if self.scope is not None:
            scoping = QHBoxLayout()
            scoping.setContentsMargins(0, Space.MEDIUM, Space.SMALL, 0)
            scoping.addWidget(self.scope)
            column.addLayout(scoping)
        return column

    def _scroller(self) -> QScrollArea:
        body = QWidget()
        body.setObjectName("panelBody")
        column = self._column = QVBoxLayout(body)
        column.setContentsMargins(Space.TINY, Space.TINY, Space.LARGE, Space.LARGE)
        column.setSpacing(Space.TINY)
        column.addWidget(self._nothing)
        column.addStretch(1)
        area = self._area = QScrollArea()
        area.setObjectName("panelScroll")
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(body)
        return area

    def take_over(self, older: SettingsPanel) -> None:
        """Shows what another panel shows: what is searched for, what is unfolded, and the place in it."""
        self._unfolded = {section.title: section.unfolded for section in older._sections}
        for section in self._sections:
            self._openings.append(partial(section.unfold, *self._unfolded.get(section.title, section.unfolded)))
        self._scroll_to = older._area.verticalScrollBar().value()
        self.search.setText(older.search.text())
        self._next_step.start()

    def _scroll_back(self) -> None:
        if self._scroll_to is not None:
            self._area.verticalScrollBar().setValue(self._scroll_to)
            self._scroll_to = None

    def show_reload(self, needed: bool) -> None:
        """Offers to load the model again where a changed setting waits for it."""
        self._reload_bar.setVisible(needed)

    def section(self, title: str) -> Section:
        """Returns a section by its untranslated title. Raises StopIteration where there is none."""
        return next(section for section in self.sections if section.title == title)

    def _find(self, words: str) -> None:
        names = matching(self._settings, words)
        self._findings = deque([partial(self._filter, names)])
        self._next_step.start()
        self._nothing.setVisible(names is not None and not names)

    def _filter(self, names: frozenset[str] | None) -> None:
        """Filters every section, once all of them are made."""
        self._findings = deque(partial(section.set_filter, names) for section in self._sections)


def matching(settings: Iterable[SettingField], words: str) -> frozenset[str] | None:
    """Returns the names of the settings whose words hold all that are searched for; None where none are."""
    wanted = words.lower().split()
    if not wanted:
        return None
    return frozenset(declared.name for declared in settings if all(word in _words_of(declared) for word in wanted))


def _words_of(declared: SettingField) -> str:
    setting = declared.setting
    texts = (setting.title, setting.help, setting.section)
    return "\n".join((declared.name, declared.flag, *texts, *map(_, texts))).lower()
