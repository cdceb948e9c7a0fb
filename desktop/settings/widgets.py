"""The kinds of widgets that settings are shown with, in a registry. Know one declared setting each, and no panel.

Every kind has `changed(value)`, `set_value(value)` and `show_error(wrong)`; a value is checked before it leaves.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetrics, QKeyEvent, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QLineEdit, QPlainTextEdit, QSizePolicy, QSlider, QWidget

from desktop.controls.buttons import Choice, repolish
from desktop.settings.path_lists import AdapterListField, PathListField
from desktop.settings.processor_code import ProcessorCodeField
from desktop.theme import Space, current_theme
from runtime.settings import BadSetting, SettingField
from runtime.text import _

# How far a slider reaches; the field beside it takes every declared value. Without an entry the bounds are the reach,
# and a setting that spans more than `_TOO_FINE` steps has a field alone.
_REACH: dict[str, float] = {
    "max_tokens": 4096, "temperature": 2, "top_k": 200, "repeat_penalty": 2, "presence_penalty": 2,
    "frequency_penalty": 2, "penalty_window": 1024, "dry_multiplier": 2, "dry_base": 4, "dry_allowed_length": 20,
    "dry_window": 1024, "top_n_sigma": 5, "dynatemp_range": 2, "dynatemp_exponent": 4, "mirostat_tau": 10,
    "context_length": 32_768, "threads": os.cpu_count() or 1, "prompt_threads": os.cpu_count() or 1,
    "batch": 4096, "micro_batch": 2048, "gpu_layers": 100, "experts_on_cpu": 100, "rope_factor": 32,
    "draft_tokens": 64,
    "yarn_original_context": 131_072, "yarn_beta_fast": 64, "yarn_beta_slow": 16,
}  # fmt: skip
_TOO_FINE = 2000
_FIELD_WIDTH = 72
_BESIDE_WIDTH = 140


class Switch(QAbstractButton):
    """On or off."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(40, 24)

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        track = QRectF(self.rect()).adjusted(2, 3, -2, -3)
        painter.setPen(QPen(theme.accent if self.isChecked() else theme.strong_border, 1))
        painter.setBrush(theme.accent if self.isChecked() else theme.raised)
        painter.drawRoundedRect(track, track.height() / 2, track.height() / 2)
        self._draw_knob(painter, track)
        if self.hasFocus():
            painter.setPen(QPen(theme.accent, 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            ring = QRectF(self.rect()).adjusted(0.75, 0.75, -0.75, -0.75)
            painter.drawRoundedRect(ring, ring.height() / 2, ring.height() / 2)

    def _draw_knob(self, painter: QPainter, track: QRectF) -> None:
        theme, side = current_theme(), track.height() - 6
        left = track.right() - side - 3 if self.isChecked() else track.left() + 3
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.on_accent if self.isChecked() else theme.quiet)
        painter.drawEllipse(QRectF(left, track.top() + 3, side, side))


class BoolField(QWidget):
    """A switch."""

    changed = Signal(object)

    def __init__(self, declared: SettingField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.beside_title = True
        self._switch = Switch()
        self._switch.setAccessibleName(_(declared.setting.title))
        self._switch.clicked.connect(lambda on: self.changed.emit(on))
        self.setFocusProxy(self._switch)
        _alone(self, self._switch)

    def set_value(self, value: bool) -> None:
        self._switch.setChecked(value)

    def show_error(self, _wrong: bool) -> None:
        """A switch has no wrong value of its own."""


class ChoiceField(QWidget):
    """A drop-down with the choices' labels."""

    changed = Signal(object)

    def __init__(self, declared: SettingField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.beside_title = True
        self._box = Choice()
        self._box.setAccessibleName(_(declared.setting.title))
        for choice in declared.choices:
            self._box.addItem(_(declared.setting.labels.get(choice, choice)), choice)
        self._box.activated.connect(lambda row: self.changed.emit(self._box.itemData(row)))
        self.setFocusProxy(self._box)
        _alone(self, self._box)

    def set_value(self, value: str) -> None:
        self._box.setCurrentIndex(self._box.findData(value))

    def show_error(self, _wrong: bool) -> None:
        """A drop-down offers allowed values only."""


class NumberEdit(QLineEdit):
    """A number, or the word that stands for a special one; the bare number while it is edited."""

    typed = Signal(str)
    stepped = Signal(int)

    def __init__(self, declared: SettingField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._declared = declared
        self._value: float = declared.default
        self._spread = False
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.editingFinished.connect(self._finish)

    def set_value(self, value: float) -> None:
        self._value = value
        self._show(self._bare() if self.hasFocus() else shown_value(self._declared, value))

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._show(self._bare())
        self.selectAll()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        if not self.property("wrong"):
            self._show(shown_value(self._declared, self._value))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1, Qt.Key.Key_PageUp: 10, Qt.Key.Key_PageDown: -10}
        if event.key() in steps:
            self.stepped.emit(steps[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)

    def _finish(self) -> None:
        if self.isModified():
            self.setModified(False)
            self.typed.emit(self.text())

    def _bare(self) -> str:
        return f"{self._value:g}" if isinstance(self._value, float) else str(self._value)

    def _show(self, text: str) -> None:
        self.setText(text)
        self.setCursorPosition(0)
        if not self._spread:
            self._fit(text)

    def spread(self) -> None:
        """Takes the whole line, for settings whose special values have long names."""
        self._spread = True
        self.setAlignment(Qt.AlignmentFlag.AlignLeft)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def _fit(self, text: str) -> None:
        width = QFontMetrics(self.font()).horizontalAdvance(text) + 2 * Space.SMALL + Space.LARGE
        self.setFixedWidth(max(_FIELD_WIDTH, min(width, 2 * _FIELD_WIDTH)))


class Reach:
    """Where values lie on a slider: special values outside the bounds first, then step by step as far as it reaches."""

    def __init__(self, declared: SettingField) -> None:
        setting = declared.setting
        self._whole = declared.kind == "int"
        self._step = setting.step or (1 if self._whole else 0.01)
        self._low = self._first_value(declared)
        self._high = float(min(_REACH.get(declared.name, math.inf), _or(setting.maximum, math.inf)))
        self._before = sorted(value for value in setting.special if value < self._low)
        self._stops = self._all_stops()

    @property
    def usable(self) -> bool:
        """False where a slider would be too fine to hit a value."""
        return 1 < len(self._stops) <= _TOO_FINE

    @property
    def last(self) -> int:
        """The slider's last position."""
        return len(self._stops) - 1

    def value(self, position: int) -> float:
        """Returns the value at a position."""
        return self._stops[position]

    def position(self, value: float) -> int:
        """Returns the position nearest to a value."""
        return min(range(len(self._stops)), key=lambda at: abs(self._stops[at] - value))

    def _first_value(self, declared: SettingField) -> float:
        low = _or(declared.setting.minimum, 0)
        if declared.name in _REACH and low < -_REACH[declared.name]:
            low = -_REACH[declared.name]
        return low + self._step if declared.setting.exclusive_minimum else low

    def _all_stops(self) -> list[float]:
        if not math.isfinite(self._high):
            return []
        count = math.floor((self._high - self._low) / self._step + 1e-9)
        if count > _TOO_FINE:
            return []
        first = [self._low] if self._low % self._step and self._low < self._step else []
        base = math.ceil(self._low / self._step - 1e-9)
        last = math.floor(self._high / self._step + 1e-9)
        grid = [self._rounded(number * self._step) for number in range(base, last + 1)]
        return [*self._before, *(self._rounded(value) for value in first), *grid]

    def _rounded(self, value: float) -> float:
        return round(value) if self._whole else round(value, 6)


class QuietSlider(QSlider):
    """A slider that leaves the wheel to the panel around it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()


class NumberField(QWidget):
    """A field beside the title and, where the range allows one, a slider below it."""

    changed = Signal(object)
    refused = Signal(object)  # BadSetting

    def __init__(self, declared: SettingField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._declared, self._reach = declared, Reach(declared)
        self.beside_title = self._words_are_short()
        self._value: float = declared.default
        self.edit = NumberEdit(declared)
        self.edit.setAccessibleName(_(declared.setting.title))
        if not self.beside_title:
            self.edit.spread()
        self.edit.typed.connect(self._take_typed)
        self.edit.stepped.connect(self._step)
        self.slider = self._make_slider() if self._reach.usable else None
        self.setFocusProxy(self.edit)
        _alone(self, self.edit)

    @property
    def below(self) -> QWidget | None:
        """What stands on a line of its own under the title."""
        return self.slider

    def set_value(self, value: float) -> None:
        self._value = value
        self.edit.set_value(value)
        if self.slider is not None:
            self.slider.blockSignals(True)
            self.slider.setValue(self._reach.position(value))
            self.slider.blockSignals(False)

    def show_error(self, wrong: bool) -> None:
        self.edit.setProperty("wrong", "true" if wrong else None)
        repolish(self.edit)

    def _words_are_short(self) -> bool:
        metrics = QFontMetrics(self.font())
        labels = (_(label) for label in self._declared.setting.special.values())
        return all(metrics.horizontalAdvance(label) <= _BESIDE_WIDTH for label in labels)

    def _make_slider(self) -> QuietSlider:
        slider = QuietSlider()
        slider.setAccessibleName(_(self._declared.setting.title))
        slider.setRange(0, self._reach.last)
        slider.setPageStep(max(1, self._reach.last // 10))
        slider.valueChanged.connect(lambda at: self._offer(self._reach.value(at)))
        return slider

    def _step(self, steps: int) -> None:
        at = self._reach.position(self._value) if self._reach.usable else 0
        if self._reach.usable:
            self._offer(self._reach.value(min(max(at + steps, 0), self._reach.last)))
        else:
            self._offer(self._value + steps * (self._declared.setting.step or 1))

    def _take_typed(self, text: str) -> None:
        try:
            self._offer(self._declared.parse(_special_named(self._declared, text)))
        except BadSetting as error:
            self.refused.emit(error)

    def _offer(self, value: float) -> None:
        try:
            self._declared.check(value)
        except BadSetting:
            return
        self.changed.emit(float(value) if self._declared.kind == "float" else value)


class TextField(QWidget):
    """One line of text."""

    changed = Signal(object)

    def __init__(self, declared: SettingField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.beside_title = False
        self._edit = QLineEdit()
        self._edit.setAccessibleName(_(declared.setting.title))
        self._edit.editingFinished.connect(lambda: self.changed.emit(self._edit.text().strip() or declared.default))
        self.setFocusProxy(self._edit)
        _alone(self, self._edit)

    def set_value(self, value: str) -> None:
        if value != self._edit.text():
            self._edit.setText(value)

    def show_error(self, wrong: bool) -> None:
        self._edit.setProperty("wrong", "true" if wrong else None)
        repolish(self._edit)


class LinesEdit(QPlainTextEdit):
    """Several lines; leaving it finishes the change."""

    left = Signal()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.left.emit()


class ListField(QWidget):
    """Texts, one a line; a line break inside one is written as \\n."""

    changed = Signal(object)

    def __init__(self, declared: SettingField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.beside_title = False
        self._edit = LinesEdit()
        self._edit.setProperty("kind", "field")
        self._edit.setTabChangesFocus(True)
        self._edit.setAccessibleName(_(declared.setting.title))
        self._verbatim = declared.setting.paths
        if not self._verbatim:
            self._edit.setToolTip(_("One text a line; \\n stands for a line break and \\t for a tab."))
        self._edit.setFont(current_theme().code_font)
        self._edit.setFixedHeight(4 * self._edit.fontMetrics().lineSpacing())
        self._edit.left.connect(lambda: self.changed.emit(self.value()))
        self.setFocusProxy(self._edit)
        _alone(self, self._edit)

    def value(self) -> tuple[str, ...]:
        """Returns the texts that are written."""
        lines = (line for line in self._edit.toPlainText().split("\n") if line)
        return tuple(line if self._verbatim else _unescaped(line) for line in lines)

    def set_value(self, value: tuple[str, ...]) -> None:
        if value != self.value():
            self._edit.setPlainText("\n".join(item if self._verbatim else _escaped(item) for item in value))

    def show_error(self, wrong: bool) -> None:
        self._edit.setProperty("wrong", "true" if wrong else None)
        repolish(self._edit)


class LongTextField(QWidget):
    """One text of several lines, such as a grammar."""

    changed = Signal(object)

    def __init__(self, declared: SettingField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.beside_title = False
        self._edit = LinesEdit()
        self._edit.setProperty("kind", "field")
        self._edit.setTabChangesFocus(True)
        self._edit.setAccessibleName(_(declared.setting.title))
        self._edit.setFont(current_theme().code_font)
        self._edit.setFixedHeight(6 * self._edit.fontMetrics().lineSpacing())
        self._edit.left.connect(lambda: self.changed.emit(self.value()))
        self.setFocusProxy(self._edit)
        _alone(self, self._edit)

    def value(self) -> str:
        """Returns the text that is written; blanks alone count as none."""
        text = self._edit.toPlainText()
        return text if text.strip() else ""

    def set_value(self, value: str) -> None:
        if value != self.value():
            self._edit.setPlainText(value)

    def show_error(self, wrong: bool) -> None:
        self._edit.setProperty("wrong", "true" if wrong else None)
        repolish(self._edit)


FieldWidget = (
    BoolField | ChoiceField | NumberField | TextField | ListField | LongTextField | PathListField | ProcessorCodeField
)
KINDS: dict[str, Callable[[SettingField], FieldWidget]] = {
    "bool": BoolField, "choice": ChoiceField, "int": NumberField, "float": NumberField, "str": TextField,
    "list": ListField, "lines": LongTextField, "folders": PathListField, "adapters": AdapterListField,
    "processor_code": ProcessorCodeField,
}  # fmt: skip


def widget_for(declared: SettingField) -> FieldWidget:
    """Returns a new widget for a setting: of the kind it names, else of its type's."""
    return KINDS[declared.setting.widget or declared.kind](declared)


def shown_value(declared: SettingField, value: Any) -> str:
    """Returns a value in words: the label of a special number or a choice, else the number as it is written."""
    if declared.kind == "bool":
        return _("on") if value else _("off")
    if declared.kind == "choice":
        return _(declared.setting.labels.get(value, value))
    if declared.kind == "list":
        return ", ".join(_escaped(item) for item in value) or _("none")
    if declared.kind in ("int", "float") and value in declared.setting.special:
        return _(declared.setting.special[value])
    return f"{value:,}" if declared.kind == "int" else f"{value:g}" if declared.kind == "float" else value or _("none")


def _special_named(declared: SettingField, text: str) -> str:
    """Lets people type the word of a special value, and numbers with their thousands set apart."""
    for value, label in declared.setting.special.items():
        if text.strip().lower() == _(label).lower():
            return str(value)
    return text.replace(",", "").replace(" ", "") if declared.kind == "int" else text


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def _unescaped(line: str) -> str:
    pairs = {"\\\\": "\\", "\\n": "\n", "\\t": "\t"}
    parts, at = [], 0
    while at < len(line):
        pair = line[at : at + 2]
        parts.append(pairs.get(pair, line[at]))
        at += 2 if pair in pairs else 1
    return "".join(parts)


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _alone(parent: QWidget, child: QWidget) -> None:
    row = QHBoxLayout(parent)
    row.setContentsMargins(0, 0, 0, 0)
    row.addWidget(child)
