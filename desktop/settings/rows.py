"""One setting as a person reads it: its name, its value, a line of help, and a dot that resets it."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from desktop import icons
from desktop.controls.buttons import Words
from desktop.settings.live import LiveSettings
from desktop.settings.widgets import ListField, LongTextField, NumberField, shown_value, widget_for
from desktop.theme import Space, current_theme
from runtime.settings import Applies, BadSetting, SettingField
from runtime.text import N_, _

_WHEN = {
    Applies.NEXT_MESSAGE: ("chat", N_("Takes effect with the next message.")),
    Applies.RELOAD: ("reload", N_("Takes effect when the model is loaded again.")),
}
_TAG_SIDE = 14


class ResetDot(QAbstractButton):
    """A dot that stands beside a changed setting; pressing it brings the default back. Keeps its room when hidden."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(QSize(Space.WIDE, Space.LARGE))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        policy = self.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.setSizePolicy(policy)

    def describe(self, title: str, default: str) -> None:
        """Says what pressing it does."""
        self.setAccessibleName(_("Reset “{title}”").format(title=title))
        self.setToolTip(_("Changed. Reset to: {default}").format(default=default))

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        radius = 5.0 if self.underMouse() else 4.0
        centre = QRectF(self.rect()).center()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.accent)
        painter.drawEllipse(centre, radius, radius)
        if self.hasFocus():
            painter.setPen(QPen(theme.accent, 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(centre, 7, 7)

    def enterEvent(self, event: Any) -> None:
        super().enterEvent(event)
        self.update()

    def leaveEvent(self, event: Any) -> None:
        super().leaveEvent(event)
        self.update()


class WhenTag(QLabel):
    """A small drawing that says when a change takes effect."""

    def __init__(self, applies: Applies, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._drawing, sentence = _WHEN[applies]
        self.setToolTip(_(sentence))
        self.setAccessibleName(_(sentence))
        self.setFixedSize(_TAG_SIDE, _TAG_SIDE)

    def paintEvent(self, _event: QPaintEvent) -> None:
        picture = icons.pixmap(
            self._drawing, current_theme().quiet, size=_TAG_SIDE, ratio=self.devicePixelRatioF()
        )
        QPainter(self).drawPixmap(0, 0, picture)


class SettingRow(QWidget):
    """A declared setting, joined to its live value in both directions."""

    def __init__(self, declared: SettingField, live: LiveSettings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.declared, self._live = declared, live
        self.dot = ResetDot()
        self.dot.describe(_(declared.setting.title), shown_value(declared, declared.default))
        self.field = widget_for(declared)
        self._help = Words(_(declared.setting.help), tone="quiet")
        self._help.setFont(current_theme().quiet_font)
        self._lay_out()
        self._connect()
        self.refresh()

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(Space.TINY)
        column.addLayout(self._title_row())
        if not self.field.beside_title:
            column.addLayout(_indented(self.field))
        below = self.field.below if isinstance(self.field, NumberField) else None
        if below is not None:
            column.addLayout(_indented(below))
        column.addLayout(_indented(self._help))

    def _title_row(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(0)
        row.addWidget(self.dot)
        title = Words(_(self.declared.setting.title), wrap=False)
        title.setBuddy(self.field)
        row.addWidget(title)
        if self.declared.setting.applies in _WHEN:
            row.addSpacing(Space.SMALL)
            row.addWidget(WhenTag(self.declared.setting.applies))
        row.addStretch(1)
        if self.field.beside_title:
            row.addWidget(self.field)
        return row

    def _connect(self) -> None:
        self.field.changed.connect(self._take)
        if isinstance(self.field, NumberField):
            self.field.refused.connect(self._refuse)
        self.dot.clicked.connect(self._reset)
        self._live.changed.connect(self._follow)

    def refresh(self) -> None:
        """Shows the live value."""
        group, name = self.declared.group, self.declared.name
        self.field.set_value(self._live.value(group, name))
        self.field.show_error(False)
        self.dot.setVisible(self._live.is_changed(group, name))
        self._say(_(self.declared.setting.help), "quiet")

    def _take(self, value: Any) -> None:
        try:
            self._live.set_values(self.declared.group, **{self.declared.name: value})
        except BadSetting as error:
            if not isinstance(self.field, ListField | LongTextField):  # a text stays, to be put right
                self.field.set_value(self._live.value(self.declared.group, self.declared.name))
            self._refuse(error)
        else:
            self.refresh()

    def _reset(self) -> None:
        self._take(self.declared.default)
        self.field.setFocus()

    def _refuse(self, error: BadSetting) -> None:
        self.field.show_error(True)
        self._say(f"{error.info.title} {error.info.message}", "bad")

    def _follow(self, group: type, name: str) -> None:
        if group is self.declared.group and name == self.declared.name:
            self.refresh()

    def _say(self, text: str, tone: str) -> None:
        self._help.setText(text)
        self._help.set_tone(tone)


def _indented(widget: QWidget) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setContentsMargins(Space.WIDE, 0, 0, 0)
    row.addWidget(widget)
    return row
