"""The quality card of a converted model: what its quantization cost, as a table and a small chart. Measures nothing.

The figures come from a file's `quern.` keys or from a conversion's last event; both are flattened to names with dots,
so that a card of another version shows what of it is known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QVBoxLayout, QWidget

from desktop import fonts
from desktop.chat.plain_text import one_line
from desktop.controls.buttons import Words
from desktop.human import data_size, share, whole_number
from desktop.theme import Space, current_theme
from runtime.text import N_, _, ngettext

_CHARTED = (("kl.mean", N_("mean")), ("kl.median", N_("median")), ("kl.p99", N_("99th percentile")),
            ("kl.max", N_("largest")))  # fmt: skip
_GOOD_KL, _CAUTION_KL = 0.01, 0.1  # nats of mean divergence: up to here nobody notices, up to there one has to look


def flattened(card: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the figures by the last parts of their names: `kl.mean`, `perplexity.candidate`, `tokens`."""
    found: dict[str, Any] = {}
    for name, value in card.items():
        for prefix in ("quern.", "quality_card.", "quality.", "card."):
            name = name.removeprefix(prefix)
        found |= _flat(name, _opened(value))
    return found


def _opened(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _flat(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {name: value}
    prefix = f"{name}." if name not in ("", "quality", "card", "quality_card") else ""
    return {key: found for inner, item in value.items() for key, found in _flat(f"{prefix}{inner}", item).items()}


class KlChart(QWidget):
    """Bars on a logarithmic scale: how far the predictions stray, from the usual to the worst place."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bars: list[tuple[str, float]] = []
        self._tone = "quiet"
        self.setMinimumWidth(240)

    def show_figures(self, figures: Mapping[str, Any]) -> None:
        """Takes flattened figures; shows nothing where they hold no divergence.

        All bars have the colour of the verdict, which is the mean's: single places always stray more.
        """
        mean = figures.get("kl.mean")
        self._tone = tone_of(float(mean)) if mean is not None and _is_number(mean) else "quiet"
        self._bars = [(_(label), float(figures[name])) for name, label in _CHARTED if _is_number(figures.get(name))]
        self.setVisible(bool(self._bars))
        self.setAccessibleName(", ".join(f"{label} {value:.4g}" for label, value in self._bars))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(320, len(self._bars) * (QFontMetrics(current_theme().quiet_font).height() + Space.SMALL))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(theme.quiet_font)
        metrics = painter.fontMetrics()
        labels = max((metrics.horizontalAdvance(label) for label, _value in self._bars), default=0) + Space.MEDIUM
        numbers = metrics.horizontalAdvance("0.00000") + Space.SMALL
        row = metrics.height() + Space.SMALL
        for number, (label, value) in enumerate(self._bars):
            line = QRectF(0, number * row, self.width(), row)
            painter.setPen(theme.quiet)
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeading, label)
            painter.setPen(theme.text)
            painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignTrailing, f"{value:.3g}")
            room = max(line.width() - labels - numbers, 1)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.raised)
            painter.drawRoundedRect(QRectF(labels, line.top() + row / 2 - 4, room, 8), 4, 4)
            painter.setBrush(getattr(theme, self._tone))
            painter.drawRoundedRect(QRectF(labels, line.top() + row / 2 - 4, room * _reach(value), 8), 4, 4)


class QualityCard(QFrame):
    """The card; hidden where there is nothing to show. Without a frame inside of another card."""

    def __init__(self, parent: QWidget | None = None, *, framed: bool = True) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card" if framed else "plain")
        title = Words(_("What the conversion cost"), wrap=False)
        title.setFont(fonts.strong())
        self._verdict = Words()
        self._about = Words(_("How far its predictions lie from the original's, in nats:"), tone="quiet")
        self._about.setFont(current_theme().quiet_font)
        self._chart = KlChart()
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(Space.WIDE)
        self._grid.setVerticalSpacing(Space.TINY)
        self._grid.setColumnStretch(1, 1)
        column = QVBoxLayout(self)
        sides = Space.LARGE if framed else 0
        column.setContentsMargins(sides, Space.MEDIUM, sides, Space.MEDIUM if framed else 0)
        column.setSpacing(Space.SMALL)
        for widget in (title, self._verdict, self._about, self._chart):
            column.addWidget(widget)
        column.addLayout(self._grid)
        self._worst = Words("", tone="quiet")
        self._worst.setFont(current_theme().quiet_font)
        column.addWidget(self._worst)
        self.hide()

    def show_card(self, card: Mapping[str, Any]) -> bool:
        """Shows a card and returns whether it held any figure."""
        figures = flattened(card)
        rows = rows_of(figures)
        while item := self._grid.takeAt(0):
            widget = item.widget()
            if widget is not None:
                widget.deleteLater()
        for number, (label, text) in enumerate(rows):
            self._grid.addWidget(_quiet(label, "quiet"), number, 0, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(_quiet(text, ""), number, 1)
        found = figures.get("kl.mean")
        mean = float(found) if found is not None and _is_number(found) else None
        self._verdict.setText(verdict(mean) if mean is not None else "")
        self._verdict.set_tone(tone_of(mean) if mean is not None else "")
        self._verdict.setVisible(mean is not None)
        self._about.setVisible(mean is not None)
        self._chart.show_figures(figures)
        self._worst.setText(worst_words(figures.get("worst")))
        self._worst.setVisible(bool(self._worst.text()))
        self.setVisible(bool(rows))
        return bool(rows)


def worst_words(worst: Any) -> str:
    """Returns the places where the predictions stray most, each in a line with the text that leads there."""
    lines = [_("Where it strays most:")]
    for place in worst if isinstance(worst, list) else []:
        if not isinstance(place, Mapping):
            continue
        said = {name: one_line(str(place.get(name, "")), limit=60) for name in ("before", "reference", "candidate")}
        words = _("…{before} → the original goes on with “{reference}”, this one with “{candidate}”")
        lines.append(words.format(**said))
    return "\n".join(lines) if len(lines) > 1 else ""


def tone_of(kl: float) -> str:
    """Returns the colour that a mean divergence in nats deserves."""
    return "good" if kl <= _GOOD_KL else "caution" if kl <= _CAUTION_KL else "bad"


def verdict(kl: float) -> str:
    """Returns a mean divergence in words."""
    return {
        "good": _("Its predictions are practically those of the original."),
        "caution": _("Its predictions stray a little; most answers stay as good."),
        "bad": _("Its predictions stray clearly; expect worse answers."),
    }[tone_of(kl)]


def rows_of(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns what is known of the figures, in words."""
    rows = [
        (_("Perplexity"), _pair(figures, "perplexity.reference", "perplexity.candidate")),
        (_("Mean divergence"), _number(figures.get("kl.mean"), _("{n} nats"))),
        (_("Same likeliest token"), share_of(figures.get("top1_agreement"))),
        (_("Change of probabilities"), share_of(figures.get("probability_rms"))),
        (_("Compared on"), _tokens(figures.get("tokens"))),
        (_("Bits per weight"), _number(figures.get("bits_per_weight"), "{n}")),
        (_("Size"), data_size(int(figures["size_bytes"])) if _is_number(figures.get("size_bytes")) else ""),
        (_("Speed"), _speeds(figures)),
        (_("Compared with"), one_line(str(figures.get("reference", "")), limit=200)),
    ]  # fmt: skip
    return [row for row in rows if row[1]]


def share_of(value: Any) -> str:
    """Returns a fraction of 1 as a percentage with one decimal."""
    if not _is_number(value):
        return ""
    return share(value) if value in (0, 1) else _("{percent} %").format(percent=f"{value * 100:.1f}")


def _speeds(figures: Mapping[str, Any]) -> str:
    reading, writing = figures.get("prompt_tokens_per_second"), figures.get("generation_tokens_per_second")
    if not _is_number(reading) or not _is_number(writing):
        return ""
    words = _("reads {reading}, writes {writing} tokens per second")
    return words.format(reading=f"{reading:.0f}", writing=f"{writing:.0f}")


def _pair(figures: Mapping[str, Any], before: str, after: str) -> str:
    if not _is_number(figures.get(before)) or not _is_number(figures.get(after)):
        return ""
    words = _("{after}, the original has {before}")
    return words.format(after=f"{figures[after]:.3f}", before=f"{figures[before]:.3f}")


def _number(value: Any, words: str) -> str:
    return words.format(n=f"{value:.4g}") if _is_number(value) else ""


def _tokens(value: Any) -> str:
    if not _is_number(value):
        return ""
    return ngettext("{n} token", "{n} tokens", int(value)).format(n=whole_number(int(value)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _reach(value: float) -> float:
    """Returns how long a bar is, from 0 to 1: a ten-thousandth of a nat to ten nats, by powers of ten."""
    return min(max((math.log10(max(value, 1e-9)) + 4) / 5, 0.02), 1.0)


def _quiet(text: str, tone: str) -> Words:
    words = Words(text, tone=tone, wrap=not tone)
    words.setFont(current_theme().quiet_font)
    return words
