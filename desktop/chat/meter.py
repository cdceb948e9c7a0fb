"""The line under the composer: how much of the context the conversation takes. Counts nothing itself."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from desktop.controls.buttons import Words
from desktop.human import whole_number
from desktop.theme import Space, current_theme
from runtime.text import _

_NEARLY_FULL = 0.9


class Bar(QWidget):
    """A part of a whole, as a thin bar."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fraction, self._tone = 0.0, "accent"
        self.setFixedSize(QSize(96, Space.SMALL))

    def show_fraction(self, fraction: float, tone: str) -> None:
        """Fills the bar from 0 to 1 in the colour that `tone` names."""
        self._fraction, self._tone = min(max(fraction, 0.0), 1.0), tone
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        groove = QRectF(0, self.height() / 2 - 2, self.width(), 4)
        painter.setBrush(theme.border)
        painter.drawRoundedRect(groove, 2, 2)
        if self._fraction > 0:
            groove.setWidth(max(4.0, groove.width() * self._fraction))
            painter.setBrush(getattr(theme, self._tone))
            painter.drawRoundedRect(groove, 2, 2)


class ContextMeter(QWidget):
    """“1,024 of 4,096 tokens” with a bar, or a sentence in its place. Keeps its height when it has nothing to say."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bar, self._words = Bar(), Words("", tone="quiet", wrap=False)
        self._words.setFont(current_theme().quiet_font)
        row = QHBoxLayout(self)
        row.setContentsMargins(Space.LARGE, 0, Space.LARGE, 0)
        row.setSpacing(Space.SMALL)
        row.addWidget(self._words)
        row.addWidget(self._bar)
        row.addStretch(1)
        self.setFixedHeight(self._words.fontMetrics().height() + Space.TINY)
        self.show_tokens(0, 0)

    def show_tokens(self, used: int, room: int) -> None:
        """Shows how many tokens of the context are used; nothing where no model is loaded (`room` 0)."""
        self._bar.setVisible(room > 0)
        if not room:
            self._words.setText("")
            return
        tone = "bad" if used > room else "caution" if used > room * _NEARLY_FULL else "quiet"
        self._bar.show_fraction(used / room, "accent" if tone == "quiet" else tone)
        self._words.set_tone(tone)
        sentence = _("{used} of {room} tokens")
        if used > room:
            sentence = _("{used} of {room} tokens: more than the model can see")
        self._words.setText(sentence.format(used=whole_number(used), room=whole_number(room)))

    def say(self, sentence: str) -> None:
        """Shows a sentence until the next count."""
        self._bar.hide()
        self._words.set_tone("caution")
        self._words.setText(sentence)
