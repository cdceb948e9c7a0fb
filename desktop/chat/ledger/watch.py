"""Keeps asking the engine what the conversation takes of the context, a moment after anything changes. Knows no widget.

One question is under way at a time. Counting is the engine's work, which remembers the messages' lengths; here only the
last answer for each chat is kept, so that a panel that opens need not be empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, QTimer, Signal

from desktop.chat.conversation import Asked
from desktop.chat.ledger.entries import Ledger, ledger_of
from desktop.chat.session import ChatSession
from desktop.engine_client import EngineClient
from desktop.store.records import MessageRecord
from runtime.errors import ErrorInfo
from runtime.messages import Message, Role
from runtime.protocol import ContextMeasured, GenerationRequest

_WAIT_MS = 400
_CHATS_KEPT = 20


@dataclass(frozen=True, slots=True)
class _Question:
    """What was asked for, as it stood then."""

    chat_id: str
    asked: Asked
    branch: tuple[MessageRecord, ...]
    policy: str
    drafted: bool


class ContextWatch(QObject):
    """Over the session's chat; `draft` says what is written and not sent yet."""

    changed = Signal(object)  # Ledger
    failed = Signal(object)  # ErrorInfo: it could not be measured

    def __init__(
        self, session: ChatSession, client: EngineClient, draft: Callable[[], str], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._client, self._draft = session, client, draft
        self._known: dict[str, Ledger] = {}
        self._id, self._question, self._again = 0, _NOTHING, False
        self._later = QTimer(self, singleShot=True, interval=_WAIT_MS)
        self._later.timeout.connect(self._ask)
        client.measured.connect(self._take)
        client.failed.connect(self._fail)
        client.loaded.connect(self._forget)
        for happening in (
            client.loaded, client.state_changed, client.finished, session.pins_changed, session.system_prompt_changed,
            session.settings_changed,
        ):  # fmt: skip
            happening.connect(self.soon)
        session.chat_changed.connect(self._show_known)

    @property
    def ledger(self) -> Ledger | None:
        """What was measured last of the chat that is shown; None where that is nothing, or no model is loaded."""
        return self._known.get(self._session.chat_id) if self._client.info is not None else None

    def soon(self, *_what: object) -> None:
        """Measures again after a short rest."""
        self._later.start()

    def _show_known(self, _chat_id: str) -> None:
        self.changed.emit(self.ledger or Ledger())
        self.soon()

    def _forget(self, _info: object) -> None:
        """Another model has other tokens."""
        self._known.clear()

    def _ask(self) -> None:
        if self._client.info is None:
            self.changed.emit(Ledger())
            return
        if self._id:
            self._again = True
            return
        sampling = self._session.sampling
        asked, written = self._session.asked, self._draft().strip()
        question = with_draft(asked, written, joins=not self._session.busy)
        self._question = _Question(
            self._session.chat_id, question, self._session.branch, sampling.context_policy, bool(written)
        )
        request = GenerationRequest(messages=question.messages, pinned=question.pinned, sampling=sampling)
        self._id = self._client.measure(request)

    def _take(self, id: int, measured: ContextMeasured) -> None:
        if id != self._id:
            return
        question = self._end()
        ledger = ledger_of(
            measured, question.asked, question.branch, policy=question.policy, drafted=question.drafted
        )
        self._known.pop(question.chat_id, None)
        self._known[question.chat_id] = ledger
        while len(self._known) > _CHATS_KEPT:
            del self._known[next(iter(self._known))]
        if question.chat_id == self._session.chat_id:
            self.changed.emit(ledger)

    def _fail(self, id: int, error: ErrorInfo) -> None:
        if id == self._id:
            self._end()
            if self._client.info is not None:
                self.failed.emit(error)

    def _end(self) -> _Question:
        question, self._question = self._question, _NOTHING
        self._id = 0
        if self._again:
            self._again = False
            self.soon()
        return question


def with_draft(asked: Asked, written: str, *, joins: bool = False) -> Asked:
    """Returns what would be asked if this were sent now; where it `joins`, as part of a question without an answer."""
    if not written:
        return asked
    last = asked.messages[-1] if asked.messages else None
    if joins and last is not None and last.role is Role.USER:
        joined = Message(Role.USER, f"{last.content}\n\n{written}")
        return replace(asked, messages=(*asked.messages[:-1], joined))
    return replace(
        asked, messages=(*asked.messages, Message(Role.USER, written)), sources=(*asked.sources, ())
    )


_NOTHING = _Question("", Asked((), ()), (), "", False)
