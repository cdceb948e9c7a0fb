"""The conversation as a person reads it: one scroll area that paints what is visible. Knows no engine and no storage.

It follows the newest text only while the reader is at the end, and never moves what is being read. What a person asks
for leaves as signals with the message's id.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import islice

from PySide6.QtCore import QEvent, QModelIndex, QPoint, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFocusEvent,
    QFontMetricsF,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QWheelEvent,
)  # fmt: skip
from PySide6.QtWidgets import QMenu, QToolTip, QWidget

from desktop.chat.view.accessible import MessageNode, announce, offer_to_readers
from desktop.chat.view.blocks import displayable
from desktop.chat.view.following import PAD, FollowingScrollArea
from desktop.chat.view.layout import Anchor, ConversationLayout
from desktop.chat.view.links import links_in
from desktop.chat.view.message_model import ItemState, MessageListModel
from desktop.chat.view.painter import Shown, paint_items
from desktop.chat.view.pointer import Granularity, Pointer
from desktop.chat.view.selection import END, Position, Selection, shown_of, source_of
from desktop.chat.view.targets import (
    Target,
    action_targets,
    action_text,
    code_targets,
    copied_text,
    menu_targets,
    notice_targets,
    thought_targets,
)  # fmt: skip
from desktop.theme import Theme, current_theme
from runtime.messages import Role
from runtime.text import _, sentences

_FRAME_MS = 33  # at most this often new text is shown
_REST = 3  # showing new text may take one part in four of the time
_MANY = 200  # messages; a chat of more is opened in two turns of the event loop
_PAGE_KEPT = 40  # pixels of the old page that a new page still shows
PLAIN_COPY = "Ctrl+Shift+C"
_TICK_MS = 1500  # how long a tick stands for "copied"
_NOTCH = 120  # of a mouse wheel, in eighths of a degree
_LINK_WIDTH = 420.0
_LINKS = 12  # in a message's menu
_TOGGLES = {
    "details": ConversationLayout.fold, "raw": ConversationLayout.toggle_raw, "meaning": ConversationLayout.toggle_raw,
    "thought": ConversationLayout.toggle_thought, "hide_thought": ConversationLayout.toggle_thought,
}  # fmt: skip


class ConversationView(FollowingScrollArea):
    """Shows a `MessageListModel`."""

    regenerate_requested = Signal(str)
    edit_requested = Signal(str)
    version_requested = Signal(str, int)  # id, -1 or 1
    retry_requested = Signal(str)
    continue_requested = Signal(str)
    pin_requested = Signal(str, bool)  # id, whether it shall be pinned
    undo_requested = Signal()
    remedy_requested = Signal(str)  # id of the answer that failed
    ledger_requested = Signal(str)  # id of the answer that filled the context
    link_activated = Signal(object)  # Link, http or https only
    zoom_requested = Signal(int)  # 1 for larger, -1 for smaller

    def __init__(self, model: MessageListModel, parent: QWidget | None = None, *, theme: Theme | None = None) -> None:
        super().__init__(theme or current_theme(), parent)
        self._model = model
        self._pointer = Pointer(self._layout)
        self._dirty: set[int] = set()
        self._pause_ms = _FRAME_MS
        self._hovered: Target | None = None
        self._pressed: Target | None = None
        self._done: Target | None = None
        self._hover_row = -1
        self._current = -1
        self._wheeled = 0
        self._nodes: dict[int, MessageNode] = {}
        self._flush_timer = self._timer(self._flush)
        self._tick_timer = self._timer(self._forget_tick)
        self._drag_timer = self._timer(self._drag_on)
        self._set_up()

    def _set_up(self) -> None:
        offer_to_readers()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setAccessibleName(_("Conversation"))
        self._model.modelReset.connect(self._reset)
        self._model.rowsInserted.connect(self._inserted)
        self._model.rowsRemoved.connect(self._removed)
        self._model.dataChanged.connect(self._changed)
        self._model.text_appended.connect(self._grown)
        self.marks.unfolded.connect(self._pointer.forget_from)
        self._reset()

    # what others may ask

    def retranslate(self) -> None:
        """Takes its words in the current language."""
        self.setAccessibleName(_("Conversation"))
        self._newest.retranslate()
        self.set_theme(self._layout.style.theme)

    def take_over(self, older: ConversationView) -> None:
        """Shows the place that the view before showed, and unfolds what was unfolded in it."""
        self._layout.thoughts_shown |= older._layout.thoughts_shown
        self._layout.raw |= older._layout.raw
        if self._layout.thoughts_shown or self._layout.raw:
            self._layout.reset(self._model.items())
        if older.following or not older._layout.items:
            self.follow_newest()
        else:
            self._follow, self._anchor = False, older._layout.anchor_at(older._top())
            self._settle()

    def selected_text(self, *, plain: bool = False) -> str:
        """Returns the source text of the selection, or with `plain` what is shown; empty where there is none."""
        selection = self._pointer.selection
        if selection is None or selection.empty:
            return ""
        rows = range(selection.start.row, selection.end.row + 1)
        items = [(self._layout.items[row].item, self._layout.items[row].blocks) for row in rows]
        return shown_of(selection, items) if plain else source_of(selection, items)

    def copy(self, *, plain: bool = False) -> None:
        """Puts the source text of the selection on the clipboard, or with `plain` what is shown."""
        if text := self.selected_text(plain=plain):
            QGuiApplication.clipboard().setText(text)

    def show_message(self, item_id: str) -> None:
        """Brings the reader to the beginning of a message and gives it the keyboard. Raises KeyError for another id."""
        row = self._model.row_of(item_id)
        self._follow, self._anchor = False, Anchor(row, item_id, -1, 0.0, -float(PAD))
        self._current = row
        self._settle()
        self.setFocus(Qt.FocusReason.OtherFocusReason)
        self._name_current(row)

    def select_all(self) -> None:
        """Selects the whole conversation."""
        if self._layout.items:
            last = Position(len(self._layout.items) - 1, END, END)
            self._pointer.selection = Selection(Position(0, 0, 0), last)
            self.viewport().update()

    # for screen readers

    @property
    def current_row(self) -> int:
        """The row of the message that has the keyboard; -1 where none has."""
        return self._current

    def node(self, row: int) -> MessageNode:
        """Returns the object that stands for a message."""
        if row not in self._nodes:
            self._nodes[row] = MessageNode(self, row)
        return self._nodes[row]

    def rect_of_row(self, row: int) -> QRect:
        """Returns where a message is on the screen, in sight or not."""
        if not 0 <= row < len(self._layout.items):
            return QRect()
        top = round(self._layout.top_of(row) - self._top())
        corner = self.viewport().mapToGlobal(QPoint(self._column_left(), top))
        return QRect(corner, QSize(round(self._layout.width), round(self._layout.items[row].height)))

    def screen_rect(self) -> QRect:
        """Returns where the part that is in sight is on the screen."""
        return QRect(self.viewport().mapToGlobal(QPoint(0, 0)), self.viewport().size())

    def _forget_nodes(self, first: int) -> None:
        for row in [row for row in self._nodes if row >= first]:
            self._nodes.pop(row).deleteLater()

    # the model changed

    def _reset(self) -> None:
        self._layout.reset(self._model.items())
        self._pointer.selection = None
        self._hovered = self._pressed = self._done = None
        self._dirty.clear()
        self._hover_row = self._current = -1
        self._forget_nodes(0)
        self._follow, self._anchor = True, None
        if self._model.rowCount() > _MANY:
            self._settle_soon()
        else:
            self._settle()

    def _inserted(self, parent: QModelIndex, first: int, last: int) -> None:
        for row in range(first, last + 1):
            item = self._model.item(row)
            self._layout.insert(row, item)
            if item.role is Role.USER:
                self._follow = True  # the person just said something
        self._settle()

    def _removed(self, parent: QModelIndex, first: int, last: int) -> None:
        self._layout.remove_from(first)
        self._forget_nodes(first)
        self._dirty = {row for row in self._dirty if row < first}
        self._pointer.forget_from(first)
        self._hovered = self._pressed = None
        self._hover_row = -1
        self._current = min(self._current, first - 1)
        self._settle()
        bar = self.verticalScrollBar()
        self._follow = self._follow or bar.value() == bar.maximum()  # what was read is gone: the reader is at the end

    def _changed(self, top: QModelIndex, bottom: QModelIndex) -> None:
        for row in range(top.row(), bottom.row() + 1):
            item = self._model.item(row)
            if self._layout.items[row].item.state is ItemState.STREAMING and item.state is not ItemState.STREAMING:
                announce(self, item)
            if not item.text.startswith(self._layout.items[row].item.text):
                self._pointer.forget_from(row)
            self._layout.change(row, item)
            self._dirty.discard(row)
        self._settle()

    def _grown(self, row: int) -> None:
        self._dirty.add(row)
        if not self._flush_timer.isActive():
            self._flush_timer.start(self._pause_ms)

    def _flush(self) -> None:
        started = time.perf_counter()
        rows, self._dirty = self._dirty, set()
        for row in rows:
            self._layout.change(row, self._model.item(row))
        self._settle()
        spent_ms = 1000 * (time.perf_counter() - started)
        self._pause_ms = max(_FRAME_MS, int(_REST * spent_ms))  # a slow machine rests before the next batch

    # painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = event.rect()
        painter.fillRect(area.adjusted(-1, -1, 1, 1), self._layout.style.theme.window)
        top = self._top()
        painter.translate(self._column_left(), -top)
        paint_items(painter, self._layout, top=top + area.top(), bottom=top + area.bottom() + 1, shown=self._shown())
        painter.end()

    def _shown(self) -> Shown:
        focused = self._current if self.hasFocus() else -1
        active = frozenset({self._hover_row, focused, len(self._layout.items) - 1})
        return Shown(self._pointer.selection, self._hovered, self._done, active, focused, self.marks.of)

    # the mouse

    def _point(self, point: QPoint | QPointF) -> QPointF:
        """Returns a point of the viewport in the column's coordinates."""
        return QPointF(point) + QPointF(-self._column_left(), self._top())

    def _targets(self, row: int) -> list[Target]:
        top = self._top()
        return [
            *action_targets(self._layout, row), *notice_targets(self._layout, row), *thought_targets(self._layout, row),
            *code_targets(self._layout, row, top, top + self.viewport().height()),
        ]  # fmt: skip

    def target_at(self, point: QPointF) -> Target | None:
        """Returns what can be clicked at a point of the viewport."""
        row = self._layout.row_at(self._point(point).y())
        targets = self._targets(row) if row >= 0 else []
        return next((target for target in targets if target.rect.contains(self._point(point))), None)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton and self._pressed is None:
            self._pointer.extend(self._point(event.position()))
            outside = not self.viewport().rect().contains(event.position().toPoint())
            if outside and not self._drag_timer.isActive():
                self._drag_timer.start(30)
            self._release()
            self.viewport().update()
        else:
            self._hover(event.position())

    def _release(self) -> None:
        """Stops following: the reader holds on to a place."""
        if self._follow and self._pointer.selecting:
            self._follow = False
            self._anchor = self._layout.anchor_at(self._top())

    def _drag_on(self) -> None:
        """Scrolls while the mouse is held above or below the viewport."""
        where = self.viewport().mapFromGlobal(self.cursor().pos())
        beyond = where.y() if where.y() < 0 else max(0, where.y() - self.viewport().height())
        if beyond and QGuiApplication.mouseButtons() & Qt.MouseButton.LeftButton:
            self.verticalScrollBar().setValue(self.verticalScrollBar().value() + beyond // 2)
            self._pointer.extend(self._point(where))
            self._drag_timer.start(30)

    def _hover(self, point: QPointF) -> None:
        at = self._point(point)
        before = self._hovered, self._hover_row
        self._hovered = self.target_at(point)
        inside = 0 <= at.y() < self._layout.height
        self._hover_row = self._layout.row_at(at.y()) if inside else -1
        if before != (self._hovered, self._hover_row):
            self.viewport().update()
        hand = (self._hovered is not None and self._hovered.enabled) or self._pointer.link_at(at)
        shape = Qt.CursorShape.IBeamCursor if self._pointer.over_text(at) else Qt.CursorShape.ArrowCursor
        self.viewport().setCursor(Qt.CursorShape.PointingHandCursor if hand else shape)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._zoom_by_wheel(event)
            return
        super().wheelEvent(event)
        self._hover(event.position())  # other text is under the mouse now

    def _zoom_by_wheel(self, event: QWheelEvent) -> None:
        """One size for each notch; a touchpad's small movements add up to one."""
        self._wheeled += event.angleDelta().y()
        if abs(self._wheeled) >= _NOTCH:
            self.zoom_requested.emit(1 if self._wheeled > 0 else -1)
            self._wheeled = 0
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is not Qt.MouseButton.LeftButton:
            return
        self._pressed = self.target_at(event.position())
        if self._pressed is None:
            extend = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self._pointer.press(self._point(event.position()), extend=extend)
        self._current = -1
        self.viewport().update()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton and self.target_at(event.position()) is None:
            self._pointer.select(self._point(event.position()), Granularity.WORD)
            self.viewport().update()
        else:
            self.mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, self._pressed = self._pressed, None
        if event.button() is not Qt.MouseButton.LeftButton:
            return
        if pressed is not None:
            if pressed.same(self.target_at(event.position())):
                self._trigger(pressed)
        elif not self._pointer.selecting and (link := self._pointer.link_at(self._point(event.position()))):
            self.link_activated.emit(link)
        self._hover(event.position())

    def leaveEvent(self, event: QEvent) -> None:
        self._hovered, self._hover_row = None, -1
        self.viewport().update()
        super().leaveEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            target = self.target_at(QPointF(event.pos()))
            link = self._pointer.link_at(self._point(event.pos()))
            text = target.text if target and target.icon else link.address if link else ""
            QToolTip.showText(event.globalPos(), displayable(text), self.viewport())
            return True
        if event.type() is QEvent.Type.Leave:
            self.leaveEvent(event)
        return super().viewportEvent(event)

    # actions

    def _trigger(self, target: Target) -> None:
        item_id = self._layout.items[target.row].item.id
        if not target.enabled:
            return
        if target.name == "copy":
            self._copied(target, copied_text(self._layout.items[target.row].item))
        elif target.name == "code":
            self._copied(target, self._layout.items[target.row].blocks[target.block].text)
        elif target.name == "copy_all":
            QGuiApplication.clipboard().setText(self._layout.items[target.row].item.text)
        elif target.name in _TOGGLES:
            self._keep_in_place(target.row)
            _TOGGLES[target.name](self._layout, target.row)
            self._pointer.forget_from(target.row)
            self._settle()
            self._follow = self.verticalScrollBar().value() == self.verticalScrollBar().maximum()
        elif target.name in ("pin", "unpin"):
            self.pin_requested.emit(item_id, target.name == "pin")
        elif target.name in ("previous", "next"):
            self.version_requested.emit(item_id, -1 if target.name == "previous" else 1)
        else:
            self._signal(target.name, item_id)

    def _keep_in_place(self, row: int) -> None:
        """Holds on to a message's top while what is under it unfolds."""
        self._follow = False
        self._anchor = Anchor(row, self._layout.items[row].item.id, -1, 0.0, self._top() - self._layout.top_of(row))

    def _signal(self, name: str, item_id: str) -> None:
        signals = {
            "again": self.regenerate_requested, "edit": self.edit_requested,
            "retry": self.retry_requested, "continue": self.continue_requested, "remedy": self.remedy_requested,
            "ledger": self.ledger_requested,
        }  # fmt: skip
        signals[name].emit(item_id)

    def _copied(self, target: Target, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self._done = target
        self._tick_timer.start(_TICK_MS)
        self.viewport().update()

    def _forget_tick(self) -> None:
        self._done = None
        self.viewport().update()

    def message_menu(self, item_id: str) -> QMenu:
        """Returns the menu of what can be done with a message. Raises KeyError where the id is unknown."""
        row = self._model.row_of(item_id)
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for target in [*action_targets(self._layout, row), *menu_targets(self._layout, row),
                       *notice_targets(self._layout, row)]:  # fmt: skip
            entry = menu.addAction(target.text)
            entry.setEnabled(target.enabled)
            entry.triggered.connect(lambda _checked=False, target=target: self._trigger(target))
        if menu.isEmpty():
            menu.addAction(action_text("copy")).setEnabled(False)
        self._add_links(menu, row)
        return menu

    def _add_links(self, menu: QMenu, row: int) -> None:
        links = list(islice(dict.fromkeys(links_in(self._layout.items[row].blocks)), _LINKS))
        if links:
            submenu = menu.addMenu(_("Open a link"))
            for link in links:
                words = QFontMetricsF(self.font()).elidedText(
                    displayable(link.address), Qt.TextElideMode.ElideMiddle, _LINK_WIDTH
                )
                submenu.addAction(words.replace("&", "&&"), partial(self.link_activated.emit, link))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        row = self._current
        if event.reason() is QContextMenuEvent.Reason.Mouse:
            row = self._layout.row_at(self._point(event.pos()).y())
        if row < 0:
            return
        menu = self.message_menu(self._layout.items[row].item.id)
        menu.addSeparator()
        if link := self._pointer.link_at(self._point(event.pos())):
            menu.addAction(_("Copy link address"), lambda: QGuiApplication.clipboard().setText(link.address))
        for words, keys, plain in ((_("Copy selection"), "Ctrl+C", False), (_("Copy as plain text"), PLAIN_COPY, True)):
            chosen = menu.addAction(words, partial(self.copy, plain=plain))
            chosen.setShortcut(QKeySequence(keys))
            chosen.setEnabled(self._pointer.selecting)
        menu.addAction(_("Select all"), self.select_all).setShortcut(QKeySequence.StandardKey.SelectAll)
        menu.popup(event.globalPos())

    # the keyboard

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar = self.verticalScrollBar()
        page = bar.pageStep() - _PAGE_KEPT
        steps = {
            Qt.Key.Key_Up: -bar.singleStep(), Qt.Key.Key_Down: bar.singleStep(),
            Qt.Key.Key_PageUp: -page, Qt.Key.Key_PageDown: page,
        }  # fmt: skip
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif QKeySequence(event.keyCombination()) == QKeySequence(PLAIN_COPY):
            self.copy(plain=True)
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all()
        elif event.matches(QKeySequence.StandardKey.Undo):
            self.undo_requested.emit()
        elif event.key() == Qt.Key.Key_P and not event.modifiers() and self._current >= 0:
            self._toggle_pin()
        elif event.key() in steps:
            bar.setValue(bar.value() + steps[Qt.Key(event.key())])
        elif event.key() == Qt.Key.Key_Home:
            bar.setValue(0)
        elif event.key() == Qt.Key.Key_End:
            self.follow_newest()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._current >= 0:
            self._open_actions()
        elif event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right) and self._current >= 0:
            self._unfold(event.key() == Qt.Key.Key_Right)
        elif event.key() == Qt.Key.Key_Escape and self._pointer.selection is not None:
            self._pointer.selection = None
            self.viewport().update()
        else:
            super().keyPressEvent(event)

    def _toggle_pin(self) -> None:
        """Pins the message that has the keyboard, or unpins it."""
        item = self._layout.items[self._current].item
        if item.pinned or item.text:
            self.pin_requested.emit(item.id, not item.pinned)

    def _unfold(self, shown: bool) -> None:
        """Shows or hides the reasoning of the message that has the keyboard."""
        wanted = "thought" if shown else "hide_thought"
        for target in thought_targets(self._layout, self._current):
            if target.name == wanted:
                self._trigger(target)

    def _open_actions(self) -> None:
        item = self._layout.items[self._current]
        y = self._layout.top_of(self._current) + item.footer_top - self._top()
        inside = min(max(0.0, y), self.viewport().height() - 30.0)
        self.message_menu(item.item.id).popup(self.viewport().mapToGlobal(QPoint(self._column_left(), int(inside))))

    def focusNextPrevChild(self, forward: bool) -> bool:
        wanted = self._current + (1 if forward else -1)
        if self._current < 0 or not 0 <= wanted < len(self._layout.items):
            return super().focusNextPrevChild(forward)
        self._make_current(wanted)
        return True

    def focusInEvent(self, event: QFocusEvent) -> None:
        if event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason):
            rows = self._layout.rows_between(self._top(), self._top() + self.viewport().height())
            if rows:
                self._make_current(rows[0] if event.reason() is Qt.FocusReason.TabFocusReason else rows[-1])
        self.viewport().update()
        super().focusInEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.viewport().update()
        super().focusOutEvent(event)

    def _make_current(self, row: int) -> None:
        self._current = row
        item = self._layout.items[row]
        top, height = self._layout.top_of(row), self.viewport().height()
        if top < self._top() or top + min(item.height, height) > self._top() + height:
            hidden_below = item.height - height if top > self._top() else 0.0
            self.verticalScrollBar().setValue(round(top + min(0.0, hidden_below) + PAD))
        self._name_current(row)
        self.viewport().update()

    def _name_current(self, row: int) -> None:
        item = self._layout.items[row]
        place = _("Message {number} of {count}, {author}").format(
            number=row + 1, count=len(self._layout.items), author=item.item.author
        )
        if item.item.pinned:
            place = sentences(place, _("Pinned."))
        self.setAccessibleName(place)
        self.setAccessibleDescription("\n".join(part for part in (item.item.answer, item.notice.text()) if part))
