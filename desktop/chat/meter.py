"""The line under the composer: how much of the context the conversation takes. Counts nothing itself."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from desktop.controls.buttons import Words
from desktop.human import whole_number
from desktop.theme import Space, current_theme
from runtime.text import _, ngettext

_NEARLY_FULL = 0.9
_MARKS = 16  # tokens that a template may put around the last message


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


class ContextMeter(QPushButton):
    """“1,024 of 4,096 tokens” with a bar, or a sentence in its place. Keeps its height when it has nothing to say.

    Pressing it asks what fills the context.
    """

    def __init__(self, parent: QWidget | None = None, *, leads: bool = False) -> None:
        """Unless it `leads` somewhere, pressing it is of no use."""
        super().__init__(parent)
        self.setProperty("kind", "meter")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus if leads else Qt.FocusPolicy.NoFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents, not leads)
        if leads:
            self.setCursor(Qt.CursorShape.PointingHandCursor)
            self.setToolTip(_("What fills the context"))
        self._bar, self._words = Bar(), Words("", tone="quiet", wrap=False)
        self._words.setFont(current_theme().quiet_font)
        row = QHBoxLayout(self)
        row.setContentsMargins(Space.LARGE, 0, Space.LARGE, 0)
        row.setSpacing(Space.SMALL)
        row.addWidget(self._words)
        row.addWidget(self._bar)
        row.addStretch(1)
        for part in (self._words, self._bar):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFixedHeight(self._words.fontMetrics().height() + Space.TINY)
        self.show_tokens(0, 0)

    def show_tokens(self, used: int, room: int, *, left_out: int = 0) -> None:
        """Shows how many tokens of the context are used, and how many messages are left out of it.

        Nothing is shown where no model is loaded (`room` 0).
        """
        if room < used <= room + _MARKS:
            used = room  # an answer filled the context: the marks that would close it are not in it
        self._bar.setVisible(room > 0)
        if not room:
            self._put("")
            return
        tone = "bad" if used > room else "caution" if used > room * _NEARLY_FULL else "quiet"
        self._bar.show_fraction(used / room, "accent" if tone == "quiet" else tone)
        self._words.set_tone(tone)
        sentence = _("{used} of {room} tokens")
        if used > room:
            sentence = _("{used} of {room} tokens: more than the model can see")
        words = sentence.format(used=whole_number(used), room=whole_number(room))
        if left_out:
            left = ngettext("{n} message left out", "{n} messages left out", left_out)
            words = f"{words}  ·  {left.format(n=whole_number(left_out))}"
        self._put(words)

    def say(self, sentence: str) -> None:
        """Shows a sentence until the next count."""
        self._bar.hide()
        self._words.set_tone("caution")
        self._put(sentence)

    def _put(self, words: str) -> None:
        self._words.setText(words)
        self.setAccessibleName(words or _("Context"))
