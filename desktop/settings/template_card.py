"""Which chat template a model is talked to with, to choose from a list, and what it makes of a conversation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from desktop.background import Background
from desktop.controls.buttons import LINK_INSET, Button, Choice, Words
from desktop.settings.live import LiveSettings
from desktop.settings.rows import ResetDot
from desktop.settings.template_preview import Templates, preview, templates_of
from desktop.theme import Space, current_theme
from runtime.errors import ErrorInfo
from runtime.params import SamplingParams
from runtime.text import _, sentences

if TYPE_CHECKING:
    from desktop.models import Models

_SETTINGS = ("template", "template_vars")
_REST_MS, _LINES = 120, 9


class TemplateCard(QWidget):
    """Over the model in use and `LiveSettings`. Templates are read and rendered in threads and a child."""

    def __init__(self, live: LiveSettings, models: Models, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._live, self._models = live, models
        self._background = Background(self)
        self._templates = Templates({}, ())
        self._path, self._asked = "", 0
        self.dot, self.choice = ResetDot(), Choice()
        self._state = Words("", tone="quiet")
        self._state.setFont(current_theme().quiet_font)
        self._fold = Button(_("Preview"), kind="link")
        self.text = QPlainTextEdit(readOnly=True)
        self._later = QTimer(self, singleShot=True, interval=_REST_MS)
        self._lay_out()
        self._later.timeout.connect(self._render)
        self.dot.clicked.connect(lambda: live.reset(SamplingParams, "template"))
        self.choice.activated.connect(self._take)
        self._fold.clicked.connect(self._toggle)
        live.changed.connect(self._follow_setting)
        models.status_changed.connect(self._follow_model)
        self._fill()
        self._follow_model()

    def _lay_out(self) -> None:
        self.dot.describe(_("Chat template"), _("the model’s own"))
        self.choice.setAccessibleName(_("Chat template"))
        self.choice.setSizeAdjustPolicy(Choice.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.text.setProperty("kind", "field")
        self.text.setAccessibleName(_("What the model reads"))
        self.text.setFont(current_theme().code_font)
        self.text.setFixedHeight(_LINES * self.text.fontMetrics().lineSpacing())
        self.text.hide()
        title = QHBoxLayout()
        title.setSpacing(0)
        title.addWidget(self.dot)
        title.addWidget(Words(_("Written for the model by")), 1)
        folding = QHBoxLayout()
        folding.setContentsMargins(Space.WIDE - LINK_INSET, 0, 0, 0)
        folding.addWidget(self._fold)
        folding.addStretch(1)
        self._state.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(Space.SMALL)
        column.addLayout(title)
        column.addLayout(_indented(self.choice, self._state))
        column.addLayout(folding)
        column.addLayout(_indented(self.text))

    # --- the list --------------------------------------------------------------------------------------------------

    def _follow_model(self, _status: object = None) -> None:
        if self._models.path and self._models.path != self._path:
            path = self._path = self._models.path
            self._background.run(lambda: templates_of(Path(path)), lambda found: self._take_templates(path, found),
                                 failed=self._tell)  # fmt: skip

    def _take_templates(self, path: str, found: Templates) -> None:
        if path == self._path:
            self._templates = found
            self._fill()

    def _fill(self) -> None:
        chosen = self._live.sampling.template
        self.choice.clear()
        own = _("The model’s own") if self._templates.own else _("The model has none")
        self.choice.addItem(own, "")
        names = [name for name in self._templates.own if len(self._templates.own) > 1]
        for name in (*names, *self._templates.built_in):
            words = _("{name} (its vocabulary was made for it)") if name == self._templates.guess else "{name}"
            self.choice.addItem(words.format(name=name), name)
        if self.choice.findData(chosen) < 0:
            self.choice.addItem(chosen, chosen)  # a file, or a name that another model has
        self._show()

    def _show(self) -> None:
        chosen = self._live.sampling.template
        if self.choice.findData(chosen) < 0:
            self.choice.addItem(chosen, chosen)
        self.choice.setCurrentIndex(self.choice.findData(chosen))
        self.dot.setVisible(self._live.is_changed(SamplingParams, "template"))
        if not self.text.isHidden():
            self._later.start()

    def _take(self, row: int) -> None:
        self._live.set_values(SamplingParams, template=str(self.choice.itemData(row)))

    def _follow_setting(self, group: type, name: str) -> None:
        if group is SamplingParams and name in _SETTINGS:
            self._show()

    # --- the preview -----------------------------------------------------------------------------------------------

    def _toggle(self) -> None:
        self.text.setVisible(self.text.isHidden())
        if not self.text.isHidden():
            self._render()

    def _render(self) -> None:
        self._asked += 1
        number, templates, sampling = self._asked, self._templates, self._live.sampling
        self._background.run(
            lambda: preview(templates, sampling), lambda text: self._show_text(number, text), failed=self._tell
        )

    def _show_text(self, number: int, text: str) -> None:
        if number == self._asked:
            self._state.hide()
            self.text.setPlainText(text)

    def _tell(self, error: ErrorInfo) -> None:
        self.text.setPlainText("")
        self._state.setText(sentences(error.title, error.message, error.hint))
        self._state.show()


def _indented(*widgets: QWidget) -> QVBoxLayout:
    inner = QVBoxLayout()
    inner.setContentsMargins(Space.WIDE, 0, 0, 0)
    inner.setSpacing(Space.SMALL)
    for widget in widgets:
        inner.addWidget(widget)
    return inner
