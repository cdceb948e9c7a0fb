"""The card of the selected model: its facts in sentences and the buttons of what can be done. Does nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QVBoxLayout, QWidget

from desktop import fonts
from desktop.chat.model_names import shown_name
from desktop.chat.plain_text import one_line
from desktop.controls.buttons import Button, Words
from desktop.human import data_size
from desktop.library import facts
from desktop.library.actions_menu import actions_for
from desktop.theme import Space, current_theme
from runtime.places import shown_path
from runtime.text import _

if TYPE_CHECKING:
    from runtime.library import ModelInfo


class ModelCard(QFrame):
    """Shows one model. `asked` names an action of `MODEL_ACTIONS`."""

    asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, Space.TINY, 1, Space.TINY)
        column.addWidget(self._area)
        self.show_model(None, facts.Fit.UNKNOWN)

    def show_model(self, info: ModelInfo | None, fit: facts.Fit, *, loaded: bool = False) -> None:
        """Shows a model, or how to choose one."""
        body = QWidget()
        body.setObjectName("cardBody")
        column = QVBoxLayout(body)
        column.setContentsMargins(Space.MEDIUM, Space.MEDIUM, Space.MEDIUM, Space.MEDIUM)
        column.setSpacing(Space.SMALL)
        if info is None:
            column.addWidget(Words(_("Choose a model to see what it is."), tone="quiet"))
        else:
            self._fill(column, info, fit, loaded=loaded)
        column.addStretch(1)
        self._area.setWidget(body)

    def _fill(self, column: QVBoxLayout, info: ModelInfo, fit: facts.Fit, *, loaded: bool) -> None:
        name = Words(shown_name(info))
        name.setFont(fonts.strong())
        name.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        column.addWidget(name)
        if info.reason or info.caution:
            column.addWidget(Words(one_line(info.reason or info.caution, limit=600), tone="caution"))
        column.addLayout(self._table(info, fit, loaded=loaded))
        column.addSpacing(Space.SMALL)
        for number, action in enumerate(actions_for(info)):
            first = number == 0 and action.name in ("chat", "locate")
            button = Button(_(action.words), kind="primary" if first else "plain", icon=action.icon)
            button.clicked.connect(lambda _checked=False, name=action.name: self.asked.emit(name))
            column.addWidget(button)

    def _table(self, info: ModelInfo, fit: facts.Fit, *, loaded: bool) -> QGridLayout:
        table = QGridLayout()
        table.setHorizontalSpacing(Space.MEDIUM)
        table.setVerticalSpacing(Space.TINY)
        table.setColumnStretch(1, 1)
        rows = [
            (_("State"), _("loaded") if loaded else "", "good"),
            (_("Family"), facts.family(info), ""),
            (_("Type"), one_line(info.quantization, limit=40), ""),
            (_("Size"), data_size(info.size_bytes) if info.size_bytes else "", ""),
            (_("Context"), facts.context_words(info) if not facts.is_missing(info) else "", ""),
            (_("Memory"), facts.fit_words(info.memory_bytes, fit) if info.runnable else "", fit.value),
            (_("Engine"), facts.engine_words(info) if info.runnable else "", ""),
            (_("Place"), facts.place(info), ""),
            (_("Path"), one_line(shown_path(info.path), limit=600), "quiet"),
        ]
        for number, (title, text, tone) in enumerate(row for row in rows if row[1]):
            label = Words(title, tone="quiet", wrap=False)
            label.setFont(current_theme().quiet_font)
            table.addWidget(label, number, 0, Qt.AlignmentFlag.AlignTop)
            value = Words(_breakable(text), tone=tone)
            value.setAccessibleName(text)
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            value.setFont(current_theme().quiet_font)
            table.addWidget(value, number, 1)
        return table


def _breakable(text: str) -> str:
    """Lets a long path wrap at its folders."""
    return text.replace("/", "/\u200b").replace("\\", "\\\u200b").replace("_", "_\u200b").replace("-", "-\u200b")
