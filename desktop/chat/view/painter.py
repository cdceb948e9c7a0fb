"""Paints messages from their layout. Knows nothing about scrolling, events or where text comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPen

from desktop import icons
from desktop.chat.view.item_layout import FOOTER, TOP_PAD
from desktop.chat.view.layout import ConversationLayout, Place
from desktop.chat.view.message_model import ItemState
from desktop.chat.view.segments import Canvas, Mark
from desktop.chat.view.selection import Selection
from desktop.chat.view.targets import (
    ACTION,
    Target,
    action_targets,
    code_targets,
    version_text,
)  # fmt: skip
from desktop.theme import Corner, Space

_ICON = 18
_PIN = 14
_CARET = 2


@dataclass(frozen=True, slots=True)
class Shown:
    """What the reader has selected and points at."""

    selection: Selection | None
    hovered: Target | None = None
    done: Target | None = None  # just copied: its drawing is a tick for a moment
    active: frozenset[int] = frozenset()  # rows that show their actions
    focused: int = -1  # row with the keyboard's ring
    marks: Callable[[int], Mapping[int, Sequence[Mark]]] = lambda _row: {}  # what was found in a row, by block


def paint_items(painter: QPainter, layout: ConversationLayout, *, top: float, bottom: float, shown: Shown) -> None:
    """Paints what meets a strip, in the column's coordinates."""
    canvas = Canvas(painter, layout.style, QRectF(-10_000, top, 20_000, bottom - top))
    for row in layout.rows_between(top, bottom):
        _paint_item(canvas, layout, row, shown)


def _paint_item(canvas: Canvas, layout: ConversationLayout, row: int, shown: Shown) -> None:
    item, y = layout.items[row], layout.top_of(row)
    painter, style = canvas.painter, layout.style
    if row == shown.focused:
        ring = QRectF(-12, y + 0.5, layout.width + 24, item.height - 9)
        painter.setPen(QPen(style.theme.accent, 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(ring, Corner.CARD, Corner.CARD)
    name = QFontMetricsF(style.name_font).elidedText(item.item.author, Qt.TextElideMode.ElideRight, layout.width)
    painter.setFont(style.name_font)
    painter.setPen(style.theme.text)
    line = QRectF(0, y + TOP_PAD, layout.width, style.quiet_pitch + 2)
    painter.drawText(line, Qt.AlignmentFlag.AlignVCenter, name)
    if item.item.pinned:
        _paint_pin(canvas, line, QFontMetricsF(style.name_font).horizontalAdvance(name))
    if item.plain:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(style.theme.raised)
        painter.drawRoundedRect(item.card(layout.width).translated(0, y), Corner.CARD, Corner.CARD)
        painter.setBrush(Qt.BrushStyle.NoBrush)
    if item.reasoning is not None:
        pointed = shown.hovered is not None and shown.hovered.row == row and shown.hovered.name.endswith("thought")
        item.reasoning.hovered = pointed
    canvas.marks = shown.marks(row)
    places = layout.places(row, canvas.clip.top(), canvas.clip.bottom())
    for place in places:
        _paint_segment(canvas, place, shown.selection)
    if item.item.state is ItemState.STREAMING:
        _paint_caret(canvas, layout, row)
    hovered = shown.hovered.name if shown.hovered is not None and shown.hovered.row == row else ""
    item.notice.paint(painter, QPointF(0, y + item.notice_top), style, hovered=hovered)
    for target in code_targets(layout, row, canvas.clip.top(), canvas.clip.bottom()):
        _paint_icon(canvas, target, shown)
    _paint_footer(canvas, layout, row, shown)


def _paint_pin(canvas: Canvas, line: QRectF, name_width: float) -> None:
    """The mark of a pinned message, behind its author's name."""
    ratio = canvas.painter.device().devicePixelRatio()
    picture = icons.pixmap("pin", canvas.style.theme.accent, size=_PIN, ratio=ratio)
    left = min(name_width + Space.TINY, line.width() - _PIN)
    canvas.painter.drawPixmap(QPointF(round(left), round(line.center().y() - _PIN / 2)), picture)


def _paint_segment(canvas: Canvas, place: Place, selection: Selection | None) -> None:
    if not place.segment.laid:
        return
    chosen = selection.within(place.row, place.segment.index) if selection is not None else (0, 0)
    place.segment.paint(canvas, place.rect.topLeft(), chosen)


def _paint_caret(canvas: Canvas, layout: ConversationLayout, row: int) -> None:
    item = layout.items[row]
    top = QPointF(item.text_left, layout.top_of(row))
    if item.segments:
        last = len(item.segments) - 1
        place = item.segments[last].caret()
        if place.isEmpty():
            return
        place = place.translated(top + QPointF(0, item.top_of(last)))
    else:
        place = QRectF(0, 0, _CARET, layout.style.pitch).translated(top + QPointF(0, item.text_top))
    bar = QRectF(place.x() + 2, place.y() + 3, _CARET, place.height() - 6)
    canvas.painter.fillRect(bar, layout.style.theme.accent)


def _paint_footer(canvas: Canvas, layout: ConversationLayout, row: int, shown: Shown) -> None:
    item, style = layout.items[row].item, layout.style
    targets = action_targets(layout, row)
    active = row in shown.active
    for target in targets:
        if active or target.name in ("previous", "next"):
            _paint_icon(canvas, target, shown)
    y = layout.top_of(row) + layout.items[row].footer_top + FOOTER - ACTION
    canvas.painter.setFont(style.quiet_font)
    canvas.painter.setPen(style.theme.quiet)
    if item.versions > 1:
        left, right = targets[-2].rect.right(), targets[-1].rect.left()
        canvas.painter.drawText(
            QRectF(left, y, right - left, ACTION), Qt.AlignmentFlag.AlignCenter, version_text(item)
        )
    streaming = item.state is ItemState.STREAMING
    if item.usage and (active or streaming):
        left = 0.0 if streaming and not active else (targets[-1].rect.right() if targets else 0.0)
        room = QRectF(left + (0 if left == 0 else Space.SMALL), y, layout.width - left, ACTION)
        canvas.painter.drawText(
            room, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, "  ·  ".join(item.usage)
        )


def _paint_icon(canvas: Canvas, target: Target, shown: Shown) -> None:
    painter, theme = canvas.painter, canvas.style.theme
    if target.same(shown.hovered) and target.enabled:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.raised)
        painter.drawRoundedRect(target.rect, Corner.CONTROL, Corner.CONTROL)
        painter.setBrush(Qt.BrushStyle.NoBrush)
    done = target.same(shown.done)
    colour = theme.good if done else theme.quiet if target.enabled else theme.border
    if target.same(shown.hovered) and target.enabled and not done:
        colour = theme.text
    ratio = painter.device().devicePixelRatio()
    picture = icons.pixmap("check" if done else target.icon, colour, size=_ICON, ratio=ratio)
    corner = target.rect.center() - QPointF(_ICON / 2, _ICON / 2)
    painter.drawPixmap(QPointF(round(corner.x()), round(corner.y())), picture)
