"""The context as one bar: what fills it, side by side, and a line under what is read already. Counts nothing."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from desktop.chat.ledger.colours import colour_of
from desktop.chat.ledger.entries import KIND_WORDS, Kind, Ledger, reuse_sentence, usage_sentence
from desktop.controls.buttons import Words
from desktop.human import whole_number
from desktop.theme import Corner, Space, current_theme
from runtime.text import _, sentences

_BAR, _LINE, _SWATCH = 14, 3, 10
_ALIGNED = (Qt.AlignmentFlag.AlignCenter, Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight)


class StackedBar(QWidget):
    """A ledger's sums, in the order in which the model reads them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._ledger = Ledger()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(_BAR + Space.TINY + _LINE)

    def sizeHint(self) -> QSize:
        return QSize(200, self.height())

    def show_ledger(self, ledger: Ledger) -> None:
        """Shows what fills the context now."""
        self._ledger = ledger
        self.setAccessibleName(sentences(usage_sentence(ledger), reuse_sentence(ledger)))
        self.update()

    def parts(self) -> list[tuple[Kind, QRectF]]:
        """Returns what is painted where; a prompt that is too long fills the whole bar."""
        sums = [(kind, tokens) for kind, tokens in self._ledger.sums]
        whole = max(sum(tokens for _kind, tokens in sums), self._ledger.context_length, 1)
        found, left = [], 0.0
        for kind, tokens in sums:
            width = self.width() * tokens / whole
            found.append((kind, QRectF(left, 0, width, _BAR)))
            left += width
        return found

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        outline = QPainterPath()
        outline.addRoundedRect(QRectF(0, 0, self.width(), _BAR), Corner.CONTROL / 2, Corner.CONTROL / 2)
        painter.setClipPath(outline)
        painter.fillRect(self.rect(), theme.surface)
        for kind, place in self.parts():
            pattern = Qt.BrushStyle.BDiagPattern if kind is Kind.RESERVE else Qt.BrushStyle.SolidPattern
            painter.fillRect(place, QBrush(colour_of(kind, theme), pattern))
            painter.fillRect(QRectF(place.right() - 0.5, 0, 1, _BAR), theme.window)
        painter.setClipping(False)
        self._paint_read(painter)

    def _paint_read(self, painter: QPainter) -> None:
        whole = max(self._ledger.context_length, self._ledger.total, 1)
        width = self.width() * min(self._ledger.cached / whole, 1.0)
        if width > 0:
            painter.setBrush(current_theme().good)
            painter.drawRoundedRect(QRectF(0, _BAR + Space.TINY, max(width, _LINE), _LINE), _LINE / 2, _LINE / 2)


class Swatch(QWidget):
    """A small square in the colour of a kind."""

    def __init__(self, kind: Kind, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kind = kind
        self.setFixedSize(_SWATCH, _SWATCH)

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        pattern = Qt.BrushStyle.BDiagPattern if self._kind is Kind.RESERVE else Qt.BrushStyle.SolidPattern
        painter.setPen(theme.strong_border if self._kind in (Kind.RESERVE, Kind.FREE) else Qt.PenStyle.NoPen)
        painter.setBrush(QBrush(colour_of(self._kind, theme), pattern))
        painter.setBrushOrigin(QPointF(0, 0))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 2, 2)


class Legend(QWidget):
    """A line for each kind that there is: its colour, its name, its tokens."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: dict[Kind, tuple[Swatch, Words, Words]] = {}
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(Space.SMALL)
        grid.setVerticalSpacing(2)
        grid.setColumnStretch(1, 1)
        for number, kind in enumerate(Kind):
            row = Swatch(kind), Words(_(KIND_WORDS[kind]), tone="quiet", wrap=False), Words("", wrap=False)
            for column, widget in enumerate(row):
                widget.setFont(current_theme().quiet_font)
                grid.addWidget(widget, number, column, _ALIGNED[column])
                widget.hide()
            self._rows[kind] = row

    def show_ledger(self, ledger: Ledger) -> None:
        """Shows the sums of a ledger."""
        sums = dict(ledger.sums)
        for kind, (swatch, name, tokens) in self._rows.items():
            tokens.setText(whole_number(sums.get(kind, 0)))
            for widget in (swatch, name, tokens):
                widget.setVisible(kind in sums)
