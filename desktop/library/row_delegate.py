"""Paints one model of the library: its name, what it is, and on the right its size and whether it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from desktop import fonts
from desktop.chat.model_names import shown_name
from desktop.chat.plain_text import one_line
from desktop.human import data_size
from desktop.library import facts
from desktop.library.model_rows import InfoRole, LibraryRows
from desktop.theme import Corner, Space, current_theme
from runtime.text import _

if TYPE_CHECKING:
    from runtime.library import ModelInfo

_Index = QModelIndex | QPersistentModelIndex
_RIGHT = 148  # pixels of the column with size and fit


class LibraryDelegate(QStyledItemDelegate):
    """Two lines a model."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: _Index) -> QSize:
        theme = current_theme()
        lines = QFontMetrics(theme.body_font).height() + QFontMetrics(theme.quiet_font).height()
        return QSize(0, lines + Space.WIDE)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        info: ModelInfo = index.data(InfoRole)
        rows = index.model()
        assert isinstance(rows, LibraryRows)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        _paint_ground(painter, option)
        inner = option.rect.adjusted(Space.MEDIUM, Space.SMALL, -Space.MEDIUM, -Space.SMALL)
        right = QRect(inner.right() - _RIGHT, inner.top(), _RIGHT, inner.height())
        left = inner.adjusted(0, 0, -_RIGHT - Space.MEDIUM, 0)
        self._paint_name(painter, left, info, loaded=rows.is_loaded(info))
        self._paint_facts(painter, left, info)
        self._paint_right(painter, right, info, rows.fit(info))
        painter.restore()

    def _paint_name(self, painter: QPainter, rect: QRect, info: ModelInfo, *, loaded: bool) -> None:
        theme = current_theme()
        badge = one_line(info.quantization, limit=16)
        metrics, small = QFontMetrics(fonts.strong()), QFontMetrics(theme.quiet_font)
        badge_width = small.horizontalAdvance(badge) + Space.SMALL + 2 if badge else 0
        mark = _("loaded") if loaded else ""
        mark_width = small.horizontalAdvance(mark) + Space.SMALL if mark else 0
        room = rect.width() - badge_width - mark_width - Space.SMALL
        name = metrics.elidedText(shown_name(info), Qt.TextElideMode.ElideMiddle, room)
        _text(painter, rect, name, fonts.strong(), theme.text if info.runnable else theme.quiet, top=True)
        x = rect.left() + metrics.horizontalAdvance(name) + Space.SMALL
        if badge:
            box = QRectF(x, rect.top() + 1, badge_width, metrics.height() - 2)
            painter.setPen(QPen(theme.border, 1))
            painter.setBrush(theme.raised)
            painter.drawRoundedRect(box, Space.TINY, Space.TINY)
            painter.setFont(theme.quiet_font)
            painter.setPen(theme.quiet)
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, badge)
            x += badge_width + Space.SMALL
        if mark:
            where = QRect(int(x), rect.top(), mark_width + Space.SMALL, metrics.height())
            painter.setFont(theme.quiet_font)
            painter.setPen(theme.good)
            painter.drawText(where, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeading, mark)

    def _paint_facts(self, painter: QPainter, rect: QRect, info: ModelInfo) -> None:
        theme = current_theme()
        if not info.runnable:
            line, colour = one_line(info.reason) or _("It cannot run here."), theme.caution
        else:
            parts = (facts.family(info), facts.context_words(info) if info.context_length else "", facts.place(info))
            line, colour = "  ·  ".join(filter(None, parts)), theme.quiet
        shown = QFontMetrics(theme.quiet_font).elidedText(line, Qt.TextElideMode.ElideRight, rect.width())
        _text(painter, rect, shown, theme.quiet_font, colour)

    def _paint_right(self, painter: QPainter, rect: QRect, info: ModelInfo, fit: facts.Fit) -> None:
        theme = current_theme()
        size = data_size(info.size_bytes) if info.size_bytes else ""
        _text(painter, rect, size, theme.body_font, theme.text, top=True, right=True)
        if info.runnable:
            words = facts.fit_words(info.memory_bytes, fit)
            _text(painter, rect, words, theme.quiet_font, getattr(theme, fit.value), right=True)


def _text(
    painter: QPainter, rect: QRect, text: str, font: QFont, colour: QColor, *, top: bool = False, right: bool = False
) -> None:
    vertical = Qt.AlignmentFlag.AlignTop if top else Qt.AlignmentFlag.AlignBottom
    across = Qt.AlignmentFlag.AlignTrailing if right else Qt.AlignmentFlag.AlignLeading
    painter.setFont(font)
    painter.setPen(colour)
    painter.drawText(rect, vertical | across, text)


def _paint_ground(painter: QPainter, option: QStyleOptionViewItem) -> None:
    theme, state = current_theme(), option.state
    selected = bool(state & QStyle.StateFlag.State_Selected)
    if selected or state & QStyle.StateFlag.State_MouseOver:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.pressed if selected else theme.raised)
        painter.drawRoundedRect(option.rect.adjusted(1, 1, -1, -1), Corner.CONTROL, Corner.CONTROL)
    if selected and state & QStyle.StateFlag.State_HasFocus:
        painter.setPen(QPen(theme.accent, 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(option.rect.adjusted(2, 2, -2, -2), Corner.CONTROL - 1, Corner.CONTROL - 1)
