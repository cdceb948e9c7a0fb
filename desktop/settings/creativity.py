"""“Creativity”: three words for what temperature and min-p do together. The one place that groups settings in words."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from desktop.controls.buttons import Words
from desktop.controls.segments import Segments
from desktop.settings.live import LiveSettings
from desktop.settings.rows import ResetDot
from desktop.theme import Space, current_theme
from runtime.params import SamplingParams
from runtime.settings import field_of
from runtime.text import N_, _

_MOVED = ("temperature", "min_p")
_DEFAULTS = {name: field_of(SamplingParams, name).default for name in _MOVED}
LEVELS: dict[str, dict[str, float]] = {
    N_("Precise"): {"temperature": 0.3, "min_p": 0.1},
    N_("Balanced"): _DEFAULTS,
    N_("Creative"): {"temperature": 1.2, "min_p": 0.03},
}
HELP = {
    N_("Precise"): N_("Keeps to the likeliest words: facts, code, summaries."),
    N_("Balanced"): N_("Varied, and still to the point: everyday questions."),
    N_("Creative"): N_("Takes less likely words: ideas, stories, names."),
}


class CreativityRow(QWidget):
    """The composite row: reads and moves temperature and min-p; says so when they were set by hand."""

    def __init__(self, live: LiveSettings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._live = live
        self.dot = ResetDot()
        self.dot.describe(_("Creativity"), _("Balanced"))
        self._segments = Segments([_(word) for word in LEVELS])
        self._help = Words(tone="quiet")
        self._help.setFont(current_theme().quiet_font)
        self._lay_out()
        self._segments.chosen.connect(self._move)
        self.dot.clicked.connect(lambda: self._live.set_values(SamplingParams, **_DEFAULTS))
        live.changed.connect(self._follow)
        self.refresh()

    def _lay_out(self) -> None:
        title = QHBoxLayout()
        title.setSpacing(0)
        title.addWidget(self.dot)
        title.addWidget(Words(_("Creativity")), 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(Space.SMALL)
        column.addLayout(title)
        for widget in (self._segments, self._help):
            row = QHBoxLayout()
            row.setContentsMargins(Space.WIDE, 0, 0, 0)
            row.addWidget(widget)
            column.addLayout(row)

    @property
    def level(self) -> str | None:
        """The level that the live values are at; None where they were set by hand."""
        values = {name: self._live.value(SamplingParams, name) for name in _MOVED}
        return next((word for word, level in LEVELS.items() if level == values), None)

    def refresh(self) -> None:
        """Shows the live values."""
        level = self.level
        self._segments.choose(list(LEVELS).index(level) if level else None)
        self.dot.setVisible(any(self._live.is_changed(SamplingParams, name) for name in _MOVED))
        self._help.setText(_(HELP[level]) if level else self._by_hand())

    def _by_hand(self) -> str:
        sampling = self._live.sampling
        return _("Set by hand: temperature {temperature}, min-p {min_p}.").format(
            temperature=f"{sampling.temperature:g}", min_p=f"{sampling.min_p:g}"
        )

    def _move(self, number: int) -> None:
        self._live.set_values(SamplingParams, **list(LEVELS.values())[number])

    def _follow(self, group: type, name: str) -> None:
        if group is SamplingParams and name in _MOVED:
            self.refresh()
