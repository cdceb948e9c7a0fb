"""The memory that a model takes, live: a bar of weights, cache and buffers against what is free. Measures nothing."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QVBoxLayout, QWidget

from desktop.controls.buttons import Words
from desktop.human import data_size, whole_number
from desktop.library import facts
from desktop.settings.memory_gauge import MemoryGauge, Need
from desktop.theme import Space, current_theme
from runtime.text import N_, _

_PARTS = (("weights", N_("Weights"), "accent"), ("cache", N_("Cache"), "good"), ("buffers", N_("Buffers"), "quiet"),
          ("draft", N_("Draft model"), "caution"))  # fmt: skip
_HEIGHT = 8


class MemoryBar(QWidget):
    """Parts of a whole; a line marks what is free, where the parts go beyond it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._need: Need | None = None
        self.setFixedHeight(_HEIGHT + 4)

    def show_need(self, need: Need | None) -> None:
        """Takes other numbers."""
        self._need = need
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, _HEIGHT + 4)

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        track = QRectF(0, 2, self.width(), _HEIGHT)
        shape = QPainterPath()
        shape.addRoundedRect(track, _HEIGHT / 2, _HEIGHT / 2)
        painter.setClipPath(shape)
        painter.fillRect(track, theme.border)
        if self._need is None:
            return
        # Twice the need is enough to see that there is room; a small model would be a dot against all memory.
        scale = track.width() / max(min(self._need.free, 2 * self._need.total), self._need.total, 1)
        left = 0.0
        for name, _words, tone in _PARTS:
            width = getattr(self._need, name) * scale
            painter.fillRect(QRectF(left, track.top(), width, _HEIGHT), QColor(getattr(theme, tone)))
            left += width
        if self._need.total > self._need.free:
            painter.fillRect(QRectF(self._need.free * scale - 1, track.top(), 2, _HEIGHT), theme.text)


class MemoryCard(QWidget):
    """The bar with its numbers."""

    def __init__(self, gauge: MemoryGauge, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._gauge = gauge
        self._head, self._foot = Words(), Words(tone="quiet")
        self.bar = MemoryBar()
        self._foot.setFont(current_theme().quiet_font)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(Space.MEDIUM)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(1, 1)
        self._numbers: dict[str, Words] = {}
        self._labels: dict[str, list[QWidget]] = {}
        for row, (name, words, tone) in enumerate(_PARTS):
            self._add_row(row, name, _(words), tone)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.WIDE, 0, 0, 0)
        column.setSpacing(Space.SMALL)
        for widget in (self._head, self.bar):
            column.addWidget(widget)
        column.addLayout(self._grid)
        column.addWidget(self._foot)
        gauge.measured.connect(self.show_need)
        self.show_need(gauge.need)  # the panel is built in steps: it may be known already

    def _add_row(self, row: int, name: str, words: str, tone: str) -> None:
        label, number = Words(words, tone="quiet", wrap=False), Words("", wrap=False)
        swatch = _Swatch(tone)
        for widget in (label, number):
            widget.setFont(current_theme().quiet_font)
        self._grid.addWidget(swatch, row, 0)
        self._grid.addWidget(label, row, 1)
        self._grid.addWidget(number, row, 2, Qt.AlignmentFlag.AlignTrailing)
        self._numbers[name], self._labels[name] = number, [swatch, label, number]

    def show_need(self, need: Need | None) -> None:
        """Shows an estimate; without one, why there is none."""
        self.bar.show_need(need)
        self.bar.setVisible(need is not None)
        for name, _words, _tone in _PARTS:
            value = getattr(need, name) if need is not None else 0
            for widget in self._labels[name]:
                widget.setVisible(bool(value))
            self._numbers[name].setText(data_size(value) if value else "")
        self._foot.setVisible(need is not None)
        if need is None:
            self._head.setText(_("Choose a model to see what it takes."))
            self._head.set_tone("quiet")
        else:
            self._word(need)
        self.setAccessibleName(self._head.text())

    def _word(self, need: Need) -> None:
        fit = facts.fit(need.total, free=need.free, total=need.total_memory)
        words = _("About {size} at {n} tokens of context")
        self._head.setText(words.format(size=data_size(need.total), n=whole_number(need.context_length)))
        self._head.set_tone("" if fit is facts.Fit.FITS else fit.value)
        foot = _("{free} are free of {total}.").format(free=data_size(need.free), total=data_size(need.total_memory))
        if need.trained_context and need.context_length > need.trained_context:
            beyond = _("The model was made for {n} tokens.").format(n=whole_number(need.trained_context))
            foot = f"{foot} {beyond}"
        self._foot.setText(foot)


class _Swatch(QWidget):
    """A dot in the colour of a part."""

    def __init__(self, tone: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tone = tone
        self.setFixedSize(_HEIGHT, _HEIGHT)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(getattr(current_theme(), self._tone))
        painter.drawEllipse(self.rect())
