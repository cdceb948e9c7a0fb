"""Messages written while an answer runs: they wait, in order, and are sent when it ends. Knows no widget.

A chat's waiting messages are sent in that chat, shown or not. Where an answer fails, they go back to where the person
writes; until they are sent they are also part of the chat's stored draft, so that the end of the process loses none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from PySide6.QtCore import QObject, Signal, SignalInstance

from desktop.store.records import MessageState


class Session(Protocol):
    """The chat session, as far as waiting messages need it."""

    answer_ended: SignalInstance  # chat's id, MessageState

    @property
    def chat_id(self) -> str: ...
    def send_next(self, chat_id: str) -> None: ...


class WaitingMessages(QObject):
    """What waits in every chat."""

    changed = Signal(str)  # chat's id
    given_back = Signal(str, str)  # chat's id, the text: the answer they waited for failed

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._texts: dict[str, list[str]] = {}
        session.answer_ended.connect(self._go_on)

    def of(self, chat_id: str) -> tuple[str, ...]:
        """Returns what waits in a chat, the next one first."""
        return tuple(self._texts.get(chat_id, ()))

    def add(self, chat_id: str, text: str) -> None:
        """Lets a message wait behind the others of its chat."""
        self._texts.setdefault(chat_id, []).append(text)
        self.changed.emit(chat_id)

    def take(self, chat_id: str, number: int) -> str:
        """Takes a message back before it is sent. Raises IndexError where it no longer waits."""
        text = self._texts.get(chat_id, []).pop(number)
        self.changed.emit(chat_id)
        return text

    def sent(self, chat_id: str) -> None:
        """Notes that the next message of a chat is on its way."""
        self.take(chat_id, 0)

    def forget(self, chat_id: str) -> None:
        """Drops what waits in a chat that is gone."""
        self._texts.pop(chat_id, None)

    def forget_all(self) -> None:
        """Drops what waits anywhere."""
        self._texts.clear()

    def draft_with(self, chat_id: str, written: str) -> str:
        """Returns what is stored as a chat's draft: what waits, and what is written after it."""
        return joined([*self.of(chat_id), written])

    def written_in(self, chat_id: str, draft: str) -> str:
        """Returns what of a stored draft is not waiting: the counterpart of `draft_with`."""
        return draft.removeprefix(joined(self.of(chat_id))).lstrip("\n") if self.of(chat_id) else draft

    def _go_on(self, chat_id: str, state: MessageState) -> None:
        texts = self._texts.get(chat_id)
        if not texts:
            return
        if state is MessageState.FAILED:
            del self._texts[chat_id]
            self.given_back.emit(chat_id, joined(texts))
            self.changed.emit(chat_id)
        else:
            self._session.send_next(chat_id)


def joined(texts: Sequence[str]) -> str:
    """Returns messages as one text."""
    return "\n\n".join(text for text in texts if text.strip())
