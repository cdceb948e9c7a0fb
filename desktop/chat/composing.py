"""The lower edge of the conversation: the composer, what is being edited in it, and the context meter under it.

Knows the session's calls for sending and the engine's for counting; knows no list of messages but the one it is given.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from desktop.chat.composer import Composer, Draft
from desktop.chat.ledger.entries import Ledger
from desktop.chat.ledger.watch import ContextWatch
from desktop.chat.meter import ContextMeter
from desktop.chat.session import ChatSession
from desktop.chat.view.message_model import MessageListModel
from desktop.chat.waiting_rows import WaitingRows
from desktop.controls.buttons import Button, Words
from desktop.controls.undo import UndoBar
from desktop.engine_client import EngineClient
from desktop.store.records import Edit
from desktop.theme import Space, current_theme
from runtime.messages import Role
from runtime.protocol import Finished
from runtime.text import _


class EditBar(QFrame):
    """Says that the composer holds an earlier message, and lets go of it."""

    cancelled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        sentence = _("You are editing a message. Sending it starts a new branch; the old one is kept.")
        _lay_out(self, sentence, _("Cancel")).clicked.connect(self.cancelled)


class RetryBar(QFrame):
    """Says that the last question has no answer, and asks it again."""

    pressed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        _lay_out(self, _("Your last message has no answer."), _("Ask again")).clicked.connect(self.pressed)


def _lay_out(bar: QFrame, sentence: str, action: str) -> Button:
    """Puts a quiet sentence and a button into a bar, which stays hidden until it is needed; returns the button."""
    words = Words(sentence, tone="quiet")
    words.setFont(current_theme().quiet_font)
    button = Button(action, kind="link")
    row = QHBoxLayout(bar)
    row.setContentsMargins(Space.LARGE, 0, Space.SMALL, 0)
    row.addWidget(words, 1)
    row.addWidget(button)
    bar.hide()
    return button


class ComposingArea(QWidget):
    """Sends, edits, stops; keeps the draft of every chat; counts what the next prompt will take."""

    about_to_send = Signal()

    def __init__(
        self, session: ChatSession, client: EngineClient, items: MessageListModel, parent: QWidget | None = None, *,
        in_charge: bool = True,
    ) -> None:  # fmt: skip
        """One that is not `in_charge` is built while another is still written in, and is handed over what that holds.

        Until then, and once it has handed over itself, it tells the session nothing: its field is not what is written.
        """
        super().__init__(parent)
        self._session, self._client, self._items = session, client, items
        self._in_charge = in_charge
        self.composer, self.meter = Composer(), ContextMeter(leads=True)
        self.edit_bar, self.retry_bar, self.waiting_rows = EditBar(), RetryBar(), WaitingRows()
        self._waiting = session.waiting
        self._editing, self._before_editing = "", Draft()
        self._drafts: dict[str, Draft] = {}
        self._edits: dict[str, tuple[str, Draft]] = {}  # by chat: the message that is edited, and how far
        self._chat_id = session.chat_id
        self.context = ContextWatch(session, client, self._written, self)
        self.undo_bar = UndoBar()
        self._lay_out()
        self._connect()
        self.composer.set_running(session.busy)
        self._show_waiting(self._chat_id)
        self.context.soon()

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(Space.TINY)
        column.addWidget(self.undo_bar)
        column.addWidget(self.retry_bar)
        column.addWidget(self.edit_bar)
        column.addWidget(self.waiting_rows)
        column.addWidget(self.composer)
        column.addWidget(self.meter, 0, Qt.AlignmentFlag.AlignTop)

    def _connect(self) -> None:
        self.composer.send_requested.connect(self._send)
        self.composer.stop_requested.connect(self._session.stop)
        self.composer.edit_last_requested.connect(self.edit_last)
        self.composer.changed.connect(self._note_draft)
        self.edit_bar.cancelled.connect(self.cancel_edit)
        self.retry_bar.pressed.connect(self._ask_again)
        self.waiting_rows.edit_requested.connect(self.edit_waiting)
        self.waiting_rows.remove_requested.connect(self._take_waiting)
        self._waiting.changed.connect(self._show_waiting)
        self._waiting.given_back.connect(self._take_back)
        self._session.busy_changed.connect(self._follow_busy)
        self._session.chat_changed.connect(self._leave_chat)
        self._session.draft_changed.connect(self._show_draft)
        self._client.finished.connect(self._take_usage)
        self.context.changed.connect(self._show_context)
        self.context.failed.connect(self._show_nothing)

    # --- sending ---------------------------------------------------------------------------------------------------

    def send(self, text: str) -> bool:
        """Sends a text as if it had been written here; returns False where that has to wait."""
        self.about_to_send.emit()
        if self._editing:
            return self._session.edit_and_resend(self._editing, text)
        return self._session.send(text)

    def _send(self, text: str) -> None:
        if self.send(text):
            self._finish_edit()
        elif self._session.busy and not self._editing:
            self.composer.clear()
            self._waiting.add(self._chat_id, text)
        elif self._session.busy:
            self.meter.say(_("Another answer is being written. Your text stays here until it can be sent."))
        else:
            self.meter.say(_("This chat is still being opened. Your text stays here."))

    # --- waiting ---------------------------------------------------------------------------------------------------

    def _show_waiting(self, chat_id: str) -> None:
        if chat_id == self._chat_id:
            self.waiting_rows.show_texts(self._waiting.of(chat_id))
        if chat_id == self._chat_id and self._in_charge:
            self._note_draft()
            self._session.keep_draft()  # which holds what waits: it counts as said

    def _take_waiting(self, number: int) -> str:
        text = self._waiting.take(self._chat_id, number)
        self.composer.edit.setFocus()
        return text

    def edit_waiting(self, number: int) -> None:
        """Takes a waiting message back into the composer, before what is written there."""
        self._write_before(self._waiting.of(self._chat_id)[number])  # first, so that it is always somewhere
        self._take_waiting(number)

    def _take_back(self, chat_id: str, text: str) -> None:
        """The answer failed: what waited for it is a draft again."""
        if chat_id == self._chat_id and self._in_charge:
            self._write_before(text)
            self.meter.say(_("The answer failed, so your next message was not sent. It is here again."))

    def _write_before(self, text: str) -> None:
        """Puts a text before what is written; while an earlier message is edited, before what comes back afterwards."""
        if self._editing:
            self._before_editing = _joined(Draft.of(text), self._before_editing)
            self._note_draft()
        else:
            self.composer.set_draft(_joined(Draft.of(text), self.composer.draft))

    def _follow_busy(self, busy: bool) -> None:
        self.composer.set_running(busy)
        self._offer_retry()
        self.context.soon()

    def _offer_retry(self) -> None:
        self.retry_bar.setVisible(self._session.unanswered is not None and not self._editing)

    def _ask_again(self) -> None:
        question = self._session.unanswered
        if question is not None:
            self.about_to_send.emit()
            self._session.regenerate(question)

    # --- editing ---------------------------------------------------------------------------------------------------

    @property
    def editing(self) -> bool:
        """True while the composer holds an earlier message."""
        return bool(self._editing)

    def edit_last(self) -> None:
        """Takes the last message of the person into the composer; one that waits first."""
        if waiting := self._waiting.of(self._chat_id):
            self.edit_waiting(len(waiting) - 1)
            return
        asked = [item for item in self._items.items() if item.role is Role.USER]
        if asked:
            self.edit(asked[-1].id)

    def edit(self, item_id: str) -> None:
        """Takes a message into the composer; what was written there comes back afterwards."""
        if self._session.busy or item_id not in self._items:
            return
        if item_id != self._editing:
            self._let_go()
            self._begin_edit(item_id, Draft.of(self._text_of(item_id)))
        self.composer.edit.setFocus()

    def cancel_edit(self) -> None:
        """Lets go of the message that is edited."""
        if self._editing:
            self._let_go()
            self._finish_edit()

    def _begin_edit(self, item_id: str, written: Draft) -> None:
        if not self._editing:
            self._before_editing = self.composer.draft
        self._editing = item_id
        self.edit_bar.show()
        self.retry_bar.hide()
        self.composer.set_draft(written)

    def _let_go(self) -> None:
        """Offers to bring back what was changed in the message that is edited, and is about to be gone."""
        item_id, written, chat_id = self._editing, self.composer.draft, self._chat_id
        if item_id in self._items and written.message != self._text_of(item_id).strip():
            words = _("What you had changed in the message was let go.")
            self.undo_bar.offer(words, lambda: self._edit_again(chat_id, item_id, written))

    def _edit_again(self, chat_id: str, item_id: str, written: Draft) -> None:
        if chat_id == self._chat_id and item_id in self._items:
            self._begin_edit(item_id, written)
            self.composer.edit.setFocus()

    def _text_of(self, item_id: str) -> str:
        return self._items.item(self._items.row_of(item_id)).text

    def _finish_edit(self) -> None:
        """The edit was sent or let go: what was written before it comes back."""
        before = self._before_editing  # empty but while an earlier message is edited
        if self._editing:
            self._edits.pop(self._chat_id, None)
        self._end_edit()
        self.composer.set_draft(before)

    def _end_edit(self) -> None:
        self._editing, self._before_editing = "", Draft()
        self.edit_bar.hide()
        self._offer_retry()

    def hand_over(self, newer: ComposingArea) -> None:
        """Gives what is written, and the message that is edited, to the area that takes this one's place."""
        self._in_charge, newer._in_charge = False, True
        newer._drafts, newer._edits = self._drafts, self._edits
        newer._editing, newer._before_editing = self._editing, self._before_editing
        newer.edit_bar.setVisible(newer.editing)
        newer.composer.set_draft(self.composer.draft)
        newer._offer_retry()

    # --- drafts ----------------------------------------------------------------------------------------------------

    def _note_draft(self) -> None:
        """What is edited is no draft; what was written before it still is."""
        if not self._in_charge:
            return
        draft = self._before_editing if self._editing else self.composer.draft
        self._drafts[self._chat_id] = draft
        if self._editing:
            self._edits[self._chat_id] = (self._editing, self.composer.draft)
        item_id, written = self._edits.get(self._chat_id, ("", Draft()))
        edit = Edit(item_id, written.message)
        self._session.set_draft(self._waiting.draft_with(self._chat_id, draft.message), edit)
        self.context.soon()

    def _leave_chat(self, chat_id: str) -> None:
        """What is edited there stays known, and goes on when the chat is opened again."""
        self._end_edit()
        self._chat_id = chat_id
        self.waiting_rows.show_texts(self._waiting.of(chat_id))

    def _show_draft(self, stored: str) -> None:
        """The session keeps text; how it was folded is known here, for chats seen since the window opened."""
        self._know_edit(self._session.edit)
        stored = self._waiting.written_in(self._chat_id, stored)
        known = self._drafts.get(self._chat_id)
        self.composer.set_draft(known if known is not None and known.message == stored.strip() else Draft.of(stored))
        self._go_on_editing()
        self.composer.edit.setFocus()
        self._offer_retry()

    def _know_edit(self, stored: Edit) -> None:
        item_id, written = self._edits.pop(self._chat_id, ("", Draft()))
        if stored.message_id:
            known = (item_id, written.message) == (stored.message_id, stored.text)
            self._edits[self._chat_id] = (stored.message_id, written if known else Draft.of(stored.text))

    def _go_on_editing(self) -> None:
        """An edit that was left with its chat, or interrupted by a look at another version, goes on."""
        item_id, written = self._edits.get(self._chat_id, ("", Draft()))
        if item_id in self._items:
            self._begin_edit(item_id, written)

    # --- counting --------------------------------------------------------------------------------------------------

    def _written(self) -> str:
        """What would be sent next, as far as it is new."""
        return "" if self._editing else self.composer.draft.message

    def _show_context(self, ledger: Ledger) -> None:
        if self._session.queued:
            self.meter.say(_("This answer begins when the one in another chat is written."))
        else:
            self.meter.show_tokens(ledger.total, ledger.context_length, left_out=ledger.left_out)

    def _show_nothing(self, _error: object) -> None:
        self.meter.show_tokens(0, 0)

    def _take_usage(self, _number: int, finished: Finished) -> None:
        used, info = finished.usage.context_used, self._client.info
        if used and info is not None and not self._session.busy:
            self.meter.show_tokens(used, info.context_length)


def _joined(first: Draft, second: Draft) -> Draft:
    parts = [part for part in (first.text, second.text) if part.strip()]
    return Draft("\n\n".join(parts), first.pasted + second.pasted)
