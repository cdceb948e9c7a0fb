"""A scroll area over a conversation's layout that follows the end only while the reader is there.

What is read stays in place when text grows, when estimates are corrected, and when the width or the theme changes.
Knows no model and paints nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from desktop.chat.view.formulas import FormulaBook
from desktop.chat.view.highlight import Highlighter
from desktop.chat.view.layout import Anchor, ConversationLayout
from desktop.chat.view.marks import Marks
from desktop.chat.view.newest_button import NewestButton
from desktop.chat.view.style import TextStyle
from desktop.theme import Size, Space, Theme

PAD = int(Space.LARGE)
_TURN_MS = 1  # a timer of 0 fires in the turn in which it was started
_TURNS = 2  # and one of 1 where that turn lasts and others fire in it


class FollowingScrollArea(QAbstractScrollArea):
    """Owns the layout and the place in it that is shown."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._highlighter = Highlighter(self)
        self._formulas = FormulaBook(self)
        self._theme, self._zoom = theme, 1.0
        self._layout = ConversationLayout(self._style(), self._highlighter)
        self._follow = True
        self._anchor: Anchor | None = None
        self._placing = False
        self._newest = NewestButton(theme, self.viewport())
        self._newest.clicked.connect(self.follow_newest)
        self.marks = Marks(self, self._layout)
        self._ahead_timer = self._timer(self._look_ahead)
        self._settle_timer = self._timer(self._settle_when_due)
        self._turns_left = 0
        self._highlighter.ready.connect(self._recolour)
        self._formulas.ready.connect(self._redraw_formulas)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)

    def _timer(self, slot: Callable[[], None]) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.timeout.connect(slot)
        return timer

    @property
    def following(self) -> bool:
        """True while new text keeps the end in sight."""
        return self._follow

    @property
    def layout_of_items(self) -> ConversationLayout:
        """Where everything stands; for tests and for finding text."""
        return self._layout

    def _style(self) -> TextStyle:
        return TextStyle(self._theme, formulas=self._formulas, ratio=self.devicePixelRatioF(), zoom=self._zoom)

    def set_zoom(self, percent: int) -> None:
        """Makes the text larger or smaller, and keeps what is read in place."""
        if percent / 100 != self._zoom:
            self._zoom = percent / 100
            self.set_theme(self._theme)

    def set_theme(self, theme: Theme) -> None:
        """Takes the colours and fonts of a theme, and keeps what is read in place."""
        self._theme = theme
        self._layout.set_style(self._style())
        self._newest.set_theme(theme)
        self._settle()

    def follow_newest(self) -> None:
        """Goes to the end and stays there while text arrives."""
        self._follow = True
        self._settle()

    @property
    def first_visible_row(self) -> int:
        """The row of the message at the upper edge; 0 in an empty conversation."""
        return max(self._layout.row_at(self._top()), 0)

    def show_place(self, anchor: Anchor, *, inside: tuple[int, int]) -> None:
        """Brings the reader to a range of a segment, unless it is in sight; `anchor.offset` says how far below it."""
        if not self._in_sight(anchor, inside):
            self._follow, self._anchor = False, anchor
            self._settle()
            self._anchor = replace(anchor, offset=anchor.offset + self._y_inside(anchor, inside))
        self._settle()

    def _in_sight(self, anchor: Anchor, inside: tuple[int, int]) -> bool:
        item = self._layout.items[anchor.row]
        y = self._layout.top_of(anchor.row) + item.top_of(anchor.segment) + self._y_inside(anchor, inside)
        top, bottom = self._top() + 2 * PAD, self._top() + self.viewport().height() - 4 * PAD
        return item.segments[anchor.segment].laid and top < y < bottom

    def _y_inside(self, anchor: Anchor, inside: tuple[int, int]) -> float:
        """Returns how far below its segment's top a range stands; 0 where the segment was not laid out."""
        runs = self._layout.items[anchor.row].segments[anchor.segment].runs
        return next((rect.y() for run in runs for rect in run.rects(*inside)), 0.0)

    def _recolour(self, language: str, text: str) -> None:
        self._layout.recolour(language, text)
        self._settle()

    def _redraw_formulas(self) -> None:
        self._layout.redraw_formulas()
        self._settle()

    def event(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.DevicePixelRatioChange:
            self.set_theme(self._theme)  # drawings of formulas are made for one ratio
        return super().event(event)

    def _column_left(self) -> int:
        """In the middle of the widget, scroll bar or not: the text stands over the composer and does not move."""
        return (self.width() - int(self._layout.width)) // 2

    def _top(self) -> float:
        """The conversation's height at the viewport's top edge."""
        return self.verticalScrollBar().value() - PAD

    def _span(self) -> float:
        return self._layout.height + 2 * PAD

    def _wanted_top(self) -> float:
        end = self._span() - self.viewport().height() - PAD
        if self._follow or self._anchor is None:
            return max(end, -PAD)
        anchored = self._layout.y_of(self._anchor)
        return max(min(self._top(), end), -PAD) if anchored is None else anchored

    def _settle_soon(self) -> None:
        """Settles in a turn of its own; until then, what is on the screen stays there."""
        self._place(round(self._wanted_top() + PAD))
        self.viewport().setUpdatesEnabled(False)
        self._turns_left = _TURNS
        self._settle_timer.start(_TURN_MS)

    def _settle_when_due(self) -> None:
        self._turns_left -= 1
        if self._turns_left:
            self._settle_timer.start(_TURN_MS)
        else:
            self._settle()

    def _settle(self) -> None:
        """Lays out what will be visible, and scrolls so that what is read stays where it is."""
        self._settle_timer.stop()
        self.viewport().setUpdatesEnabled(True)
        height = self.viewport().height()
        for _attempt in range(8):  # a corrected estimate brings other text into sight
            top = self._wanted_top()
            if not self._layout.lay_between(top, top + height):
                break
        self._place(round(self._wanted_top() + PAD))
        self._layout.forget_far()
        self._ahead_timer.start(0)
        self.viewport().update()

    def _place(self, value: int) -> None:
        bar = self.verticalScrollBar()
        self._placing = True
        bar.setRange(0, max(0, round(self._span()) - self.viewport().height()))
        bar.setPageStep(self.viewport().height())
        bar.setSingleStep(round(self._layout.style.pitch * 2))
        bar.setValue(value)
        self._placing = False
        if not self._follow and (self._anchor is None or self._anchor.segment < 0):  # its text is known by now
            self._anchor = self._layout.anchor_at(self._top())
        self._newest.setVisible(not self._follow and bar.value() < bar.maximum())

    def _scrolled(self, value: int) -> None:
        if self._placing:
            return
        self._follow = value >= self.verticalScrollBar().maximum()
        self._anchor = self._layout.anchor_at(self._top())
        self._settle()

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        self.viewport().update()

    def _look_ahead(self) -> None:
        """Lays out a page before and after what is visible, and reads on in long messages, in turns of their own."""
        top, height = self._top(), self.viewport().height()
        rows = self._layout.rows_between(top, top + height)
        unread = next((row for row in rows if self._layout.items[row].unread), None)
        if unread is not None:
            self._layout.read_more(unread)
            self._settle()
        elif self._layout.lay_between(top - height, top) or self._layout.lay_between(top + height, top + 2 * height):
            self._settle()

    def resizeEvent(self, event: QResizeEvent) -> None:
        room = self.width() - 2 * int(Space.WIDE)
        self._layout.set_width(float(max(160, min(Size.COLUMN, room))))
        self._newest.move(
            (self.width() - self._newest.width()) // 2,
            self.viewport().height() - self._newest.height() - int(Space.MEDIUM),
        )
        if not self._settle_timer.isActive():  # the scroll bar of a long chat appears before its text
            self._settle()
