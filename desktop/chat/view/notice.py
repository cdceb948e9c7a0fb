"""What stands under a message's text: why it ended, what went wrong, and the one button that helps."""

from __future__ import annotations

from dataclasses import dataclass, field

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetricsF, QPainter, QPen

from desktop.chat.view.message_model import ChatItem, ItemState
from desktop.chat.view.style import TextStyle
from desktop.chat.view.text_run import TextRun
from desktop.remedies import Action, remedy_for
from desktop.theme import Corner, Space
from runtime.text import N_, _

_PAD = float(Space.MEDIUM)
_BUTTON = 28.0
_NOTES = {
    ItemState.STOPPED: N_("You stopped this answer."),
    ItemState.CUT_LENGTH: N_("The answer reached the longest length allowed."),
    ItemState.CUT_CONTEXT: N_("The context is full."),
}


@dataclass(frozen=True, slots=True)
class NoticeButton:
    """A button of a notice: what it does, what it says, and where it is in the notice."""

    name: str
    text: str
    rect: QRectF


@dataclass
class Notice:
    """Lines of text on an optional ground, and buttons below them. Empty (height 0) for a message that simply ended."""

    height: float = 0.0
    runs: list[tuple[TextRun, QColor]] = field(default_factory=list)
    buttons: list[NoticeButton] = field(default_factory=list)
    width: float = 0.0
    failed: bool = False

    def paint(self, painter: QPainter, origin: QPointF, style: TextStyle, *, hovered: str) -> None:
        """Paints the notice with its top left corner at `origin`."""
        if not self.height:
            return
        if self.failed:
            painter.setPen(QPen(style.theme.border, 1))
            painter.setBrush(style.theme.surface)
            ground = QRectF(origin.x() + 0.5, origin.y() + 0.5, self.width - 1, self.height - 1)
            painter.drawRoundedRect(ground, Corner.CARD, Corner.CARD)
        for run, colour in self.runs:
            painter.setPen(colour)
            run.draw(painter, origin, QRectF(), (0, 0), QBrush())
        for button in self.buttons:
            place = button.rect.translated(origin)
            paint_text_button(painter, place, button.text, style, hovered=hovered == button.name)

    def text(self) -> str:
        """Returns what the notice says, for screen readers."""
        return "\n".join(run.text for run, _colour in self.runs)


def notice_for(item: ChatItem, style: TextStyle, width: float, *, unfolded: bool, last: bool) -> Notice:
    """Lays out what an item has to say about its end. Only the `last` answer can be continued."""
    if item.state is ItemState.FAILED:
        return _failed(item, style, width, unfolded=unfolded)
    if item.state not in _NOTES:
        return Notice()
    notice = Notice(width=width)
    _line(notice, _(_NOTES[item.state]), style.quiet_font, style.theme.quiet, 0.0)
    if not item.text:
        _buttons(notice, [NoticeButton("retry", _("Try again"), QRectF())], style, 0.0)
    elif last:
        buttons = [NoticeButton("continue", _("Continue"), QRectF())]
        if item.state is ItemState.CUT_CONTEXT:
            buttons.append(NoticeButton("ledger", _("What fills the context"), QRectF()))
        _buttons(notice, buttons, style, 0.0)
    return notice


def _failed(item: ChatItem, style: TextStyle, width: float, *, unfolded: bool) -> Notice:
    notice = Notice(width=width, height=_PAD, failed=True)
    error = item.error
    bold = QFont(style.chat_font)
    bold.setWeight(QFont.Weight.DemiBold)
    _line(notice, error.title if error else _("The answer failed."), bold, style.theme.bad, _PAD)
    if error:
        _line(notice, error.message, style.chat_font, style.theme.text, _PAD)
        _line(notice, error.hint, style.chat_font, style.theme.quiet, _PAD)
    if error and error.details and unfolded:
        notice.height += Space.SMALL
        _line(notice, error.details, style.code_font, style.theme.quiet, _PAD)
    names = [("retry", _("Try again"))]
    remedy = remedy_for(error.code) if error else None
    if remedy is not None and remedy.action is not Action.RETRY:
        names.insert(0, ("remedy", remedy.words))
    if error and error.details:
        names.append(("details", _("Hide details") if unfolded else _("Details")))
    _buttons(notice, [NoticeButton(name, text, QRectF()) for name, text in names], style, _PAD)
    notice.height += _PAD
    return notice


def _line(notice: Notice, text: str, font: QFont, colour: QColor, pad: float) -> None:
    if not text:
        return
    run = TextRun(text, x=pad, y=notice.height)
    run.lay(width=notice.width - 2 * pad, font=font)
    notice.runs.append((run, colour))
    notice.height += run.height


def _buttons(notice: Notice, buttons: list[NoticeButton], style: TextStyle, x: float) -> None:
    notice.height += Space.SMALL
    metrics = QFontMetricsF(style.body_font)
    for button in buttons:
        rect = QRectF(x, notice.height, metrics.horizontalAdvance(button.text) + 2 * Space.MEDIUM, _BUTTON)
        notice.buttons.append(NoticeButton(button.name, button.text, rect))
        x = rect.right() + Space.SMALL
    notice.height += _BUTTON


def paint_text_button(painter: QPainter, rect: QRectF, text: str, style: TextStyle, *, hovered: bool) -> None:
    """Paints a small button with an outline."""
    painter.setPen(QPen(style.theme.border, 1))
    painter.setBrush(style.theme.raised if hovered else style.theme.surface)
    painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), Corner.CONTROL, Corner.CONTROL)
    painter.setFont(style.body_font)
    painter.setPen(style.theme.text)
    painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, text)
