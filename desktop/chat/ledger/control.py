"""Joins the context's measures, the chat and the view with the panel, which is made when it is first shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from desktop.chat.composing import ComposingArea
from desktop.chat.ledger.entries import Ledger
from desktop.chat.session import ChatSession
from desktop.chat.view.conversation_view import ConversationView
from desktop.remedies import words_for
from runtime.errors import ErrorInfo
from runtime.text import _, ngettext

if TYPE_CHECKING:
    from desktop.chat.ledger.panel import LedgerPanel


class LedgerControl(QObject):
    """Pins, shows and measures for one window."""

    visible_requested = Signal(bool)  # the panel shall be shown or hidden
    policy_requested = Signal()
    remedy_requested = Signal(str)  # code of the error that the next message would meet

    def __init__(
        self, session: ChatSession, view: ConversationView, composing: ComposingArea, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._session, self._view, self._composing = session, view, composing
        self.panel: LedgerPanel | None = None
        composing.context.changed.connect(self._show)
        composing.context.failed.connect(self._fail)
        composing.meter.clicked.connect(self._toggle)
        view.pin_requested.connect(self.pin)
        view.undo_requested.connect(self.undo)
        view.ledger_requested.connect(self._open)
        session.chat_changed.connect(self._forget_undo)  # bound methods: Qt forgets them with the window

    @property
    def is_open(self) -> bool:
        """Whether the panel shows."""
        return self.panel is not None and not self.panel.isHidden()

    def made_panel(self) -> LedgerPanel:
        """Returns the panel, with what is known of the context in it."""
        if self.panel is None:
            from desktop.chat.ledger.panel import LedgerPanel

            panel = self.panel = LedgerPanel()
            panel.close_requested.connect(lambda: self.visible_requested.emit(False))
            panel.policy_requested.connect(self.policy_requested)
            panel.remedy_requested.connect(self.remedy_requested)
            panel.message_chosen.connect(self._go_to)
            panel.pin_requested.connect(self.pin)
        self._show(self._composing.context.ledger or Ledger())
        self._composing.context.soon()
        return self.panel

    def pin(self, id: str, pinned: bool) -> None:
        """Pins a message or lets it go, and offers to undo that."""
        self._pin((id,), pinned)

    def unpin_all(self) -> None:
        """Lets every message of the chat go."""
        self._pin(self._session.pinned, False)

    def undo(self) -> None:
        """Takes the last pin back, as long as that is offered."""
        if not self._composing.undo_bar.isHidden():
            self._composing.undo_bar.button.click()

    def _pin(self, ids: tuple[str, ...], pinned: bool) -> None:
        changed = self._session.pin(ids, pinned)
        if changed:
            words = _("Pinned: it stays in every prompt of this chat.")
            if not pinned:
                words = ngettext("No longer pinned.", "{n} messages are no longer pinned.", len(changed))
            self._composing.undo_bar.offer(
                words.format(n=len(changed)), lambda: self._session.pin(changed, not pinned)
            )

    def _open(self, _id: str) -> None:
        self.visible_requested.emit(True)

    def _forget_undo(self, _chat_id: str) -> None:
        """What would be undone belongs to the chat that was left."""
        self._composing.undo_bar.forget()

    def _toggle(self) -> None:
        self.visible_requested.emit(not self.is_open)

    def _show(self, ledger: Ledger) -> None:
        if self.panel is not None:
            self.panel.show_ledger(ledger, remedy=words_for(ledger.error.code) if ledger.error is not None else "")

    def _fail(self, error: ErrorInfo) -> None:
        if self.panel is not None:
            self.panel.show_failure(error)

    def _go_to(self, id: str) -> None:
        if any(record.id == id for record in self._session.branch):
            self._view.show_message(id)
