"""The chat in the window: joins the store, the engine and the list of messages. Knows no widget, no SQL, no process.

An answer belongs to the chat in which it was asked. It goes on when another chat is shown, and is stored where it
belongs: events are matched by the request's id, never by what happens to be on the screen. While a chat is being
answered it takes no second message: `send` then returns False, and `waiting` keeps what is to be sent next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal, Slot

from desktop.chat.conversation import (
    Asked,
    asked,
    costs,
    item_of,
    item_state,
    receipt_of,
    state_of,
    title_from,
)
from desktop.chat.kept_states import KeptStates
from desktop.chat.view.message_model import ChatItem
from desktop.chat.waiting import WaitingMessages
from desktop.engine_client import EngineClient
from desktop.store.chat_store import ChatStore
from desktop.store.records import (
    NO_EDIT,
    ChatRecord,
    Edit,
    MessageRecord,
    MessageState,
    OpenChat,
    Receipt,
    clean_text,
    new_id,
    now,
)
from runtime.errors import ErrorInfo, UserError
from runtime.messages import Role
from runtime.params import SamplingParams
from runtime.protocol import Finished, GenerationRequest, PromptProgress
from runtime.settings import changed
from runtime.text import _

_DRAFT_MS = 500


class ChatGone(UserError):
    """A chat was opened that is not there any more."""

    code = "chat_gone"

    def __init__(self) -> None:
        hint = _("Choose another one, or start a new chat.")
        super().__init__(_("This chat is no longer there."), _("It was deleted."), hint)


class MessageList(Protocol):
    """The list on the screen, as far as the session needs it."""

    def set_items(self, items: Iterable[ChatItem]) -> None: ...
    def add(self, item: ChatItem) -> None: ...
    def append_text(self, item_id: str, text: str) -> None: ...
    def update(self, item_id: str, **changes: Any) -> None: ...
    def remove_from(self, item_id: str) -> None: ...
    def __contains__(self, item_id: object) -> bool: ...


@dataclass(slots=True)
class _Answer:
    """One answer that is being written."""

    chat_id: str
    message_id: str
    sampling: SamplingParams
    asked: Asked
    parts: list[str] = field(default_factory=list)
    dropped: tuple[int, ...] = ()  # positions in the request

    @property
    def text(self) -> str:
        return "".join(self.parts)


class ChatSession(QObject):
    """The chat that is shown, and every answer still being written."""

    chat_changed = Signal(str)  # id of the chat that is shown now
    title_changed = Signal(str)
    draft_changed = Signal(str)  # what belongs into the composer
    system_prompt_changed = Signal(str)
    busy_changed = Signal(bool)  # whether this chat is being answered
    prompt_progress = Signal(object)  # protocol.PromptProgress of this chat's answer
    context_trimmed = Signal(int)  # how many messages of this chat no longer fitted into the prompt
    settings_changed = Signal(object)  # the sampling settings that are this chat's own
    problem = Signal(object)  # ErrorInfo
    pins_changed = Signal(object)  # the ids whose pins were set or taken away, as a tuple
    answer_ended = Signal(str, object)  # chat's id, MessageState; not when everything ends

    def __init__(
        self,
        store: ChatStore,
        engine: EngineClient,
        items: MessageList,
        *,
        sampling: Callable[[], SamplingParams],
        system_prompt: Callable[[], str] = str,
        model_name: Callable[[], str] | None = None,
        states: KeptStates | None = None,
        parent: QObject | None = None,
    ) -> None:
        """`sampling` and `model_name` are asked before each answer, `system_prompt` when a new chat begins.

        Without `model_name`, answers carry the name of the model's file. `states` keeps what the model has read of
        chats that are left.
        """
        super().__init__(parent)
        self._store, self._engine, self._items = store, engine, items
        self._sampling, self._new_system_prompt = sampling, system_prompt
        self._model_name = model_name or self._file_name
        self._states = states
        self._answers: dict[int, _Answer] = {}
        self._chat = ChatRecord(id=new_id())
        self._stored = False
        self._loading = False
        self._shown_id = ""
        # The draft and the edit, where they were changed while their own chat is read again
        self._typed_meanwhile: tuple[str, Edit] | None = None
        self._opening = 0  # counts what was asked of the store, so that only the last answer is shown
        self._branch: list[MessageRecord] = []
        self._was_busy = False
        self._draft_timer = QTimer(self, singleShot=True, interval=_DRAFT_MS)
        self._draft_timer.timeout.connect(self._store_draft)
        engine.text.connect(self._on_text)
        engine.finished.connect(self._on_finished)
        engine.failed.connect(self._on_failed)
        engine.prompt_progress.connect(self._on_prompt_progress)
        engine.text_replaced.connect(self._on_replaced)
        engine.context_trimmed.connect(self._on_trimmed)
        self.waiting = WaitingMessages(self, self)
        self.new_chat()

    # --- what is shown ---------------------------------------------------------------------------------------------

    @property
    def chat_id(self) -> str:
        """The id of the chat that is shown; a new chat has one before it is stored."""
        return self._chat.id

    @property
    def title(self) -> str:
        """The chat's title, empty for a chat without messages."""
        return self._chat.title

    @property
    def system_prompt(self) -> str:
        return self._chat.system_prompt

    @property
    def sampling(self) -> SamplingParams:
        """What the next answer will be drawn with, and which chat template it takes."""
        return self._sampling()

    @property
    def busy(self) -> bool:
        """Whether this chat is being answered."""
        return any(answer.chat_id == self.chat_id for answer in self._answers.values())

    @property
    def queued(self) -> bool:
        """Whether this chat's answer waits until one in another chat is written; the engine takes one at a time."""
        first = next(iter(self._answers.values()), None)
        return self.busy and first is not None and first.chat_id != self.chat_id

    @property
    def answers(self) -> tuple[MessageRecord, ...]:
        """The answers of the branch that is shown, as they were made."""
        return tuple(record for record in self._branch if record.role is Role.ASSISTANT and record.receipt is not None)

    @property
    def unanswered(self) -> str | None:
        """The id of a question at the end that has no answer, for a retry with `regenerate`."""
        if self.busy or self._loading or not self._branch or self._branch[-1].role is not Role.USER:
            return None
        return self._branch[-1].id

    @property
    def branch(self) -> tuple[MessageRecord, ...]:
        """The messages that are shown, as they are stored; an answer being written still without its text."""
        return tuple(self._branch)

    @property
    def asked(self) -> Asked:
        """What the model would be asked if nothing more were said; an answer being written is not part of it."""
        return asked(self.system_prompt, self._branch)

    @property
    def last_failed(self) -> str:
        """The id of the last answer if it failed, else empty."""
        last = self._branch[-1] if self._branch else None
        return last.id if last is not None and last.state is MessageState.FAILED else ""

    # --- choosing a chat -------------------------------------------------------------------------------------------

    def new_chat(self) -> None:
        """Shows an empty chat. It is stored with its first message or draft."""
        self._leave()
        self._opening += 1  # a chat that is still being read is no longer wanted
        self._stored = False
        self._show(OpenChat(chat=ChatRecord(id=new_id(), system_prompt=self._new_system_prompt())))

    def open(self, chat_id: str, *, reveal: str | None = None) -> None:
        """Shows a stored chat; with `reveal`, on the branch that holds that message. Running answers go on."""
        self._leave()
        self._load(chat_id, reveal=reveal)

    def delete_chat(self, chat_id: str) -> None:
        """Takes a chat out of the list (`ChatStore.restore_chat` undoes it) and stops what is written in it."""
        for id, answer in list(self._answers.items()):
            if answer.chat_id == chat_id:
                self._engine.stop(id)
        if self._states is not None:
            self._states.forget(chat_id)  # first: a chat that is left is saved
        if chat_id == self.chat_id:
            self.new_chat()
        self.waiting.forget(chat_id)
        self._store.delete_chat(chat_id)

    def rename_chat(self, chat_id: str, title: str) -> None:
        """Gives a chat a title."""
        title = " ".join(title.split())
        if chat_id == self.chat_id:
            self._set_title(title)
        if chat_id != self.chat_id or self._stored:
            self._store.rename_chat(chat_id, title)

    # --- talking ---------------------------------------------------------------------------------------------------

    def send(self, text: str) -> bool:
        """Sends a message; returns False, and does nothing, while this chat is being answered or text is blank."""
        return self._send(text)

    def _send(self, text: str, *, waited: bool = False) -> bool:
        """Sends; the draft of a message that `waited` is not what was sent, and stays."""
        if not self._free() or not text.strip():
            return False
        parent = self._branch[-1].id if self._branch else None
        self._add_question(clean_text(text), parent=parent, keeps_draft=waited)
        return True

    def send_next(self, chat_id: str) -> None:
        """Sends the message that waits in a chat, shown or not; it waits on where the chat is being answered."""
        texts = self.waiting.of(chat_id)
        if texts and chat_id == self.chat_id and self._send(texts[0], waited=True):
            self.waiting.sent(chat_id)
        elif texts:
            self._store.load_chat(chat_id, self._send_unseen)

    def _send_unseen(self, found: OpenChat | None) -> None:
        if found is None or not self.waiting.of(found.chat.id):
            return
        chat_id, text = found.chat.id, clean_text(self.waiting.of(found.chat.id)[0])
        if chat_id == self.chat_id:  # it was opened meanwhile, or is about to be
            if not self.busy:
                self.send_next(chat_id)
            return
        parent = found.messages[-1].id if found.messages else None
        question = self._record(chat_id, Role.USER, text, parent=parent)
        answer = self._record(
            chat_id, Role.ASSISTANT, "", parent=question.id, state=MessageState.WRITING, model=self._model_name()
        )
        for record in (question, answer):
            self._store.add_message(record)
        self._store.set_draft(chat_id, found.chat.draft.removeprefix(text).lstrip("\n"), found.chat.edit)
        self._ask(found.chat, [*found.messages, question], answer.id)
        self.waiting.sent(chat_id)

    def stop(self) -> None:
        """Ends the answer being written in this chat; what it has so far is kept."""
        for id, answer in list(self._answers.items()):
            if answer.chat_id == self.chat_id:
                self._engine.stop(id)

    def regenerate(self, id: str) -> bool:
        """Answers again, as a new version of the answer `id`, or of the answer to the question `id`."""
        at = self._position(id)
        if not self._free() or at is None:
            return False
        if self._branch[at].role is Role.USER:
            at += 1
        if at == 0:
            return False
        old = self._branch[at] if at < len(self._branch) else None
        self._cut(at)
        if old is None:
            self._add_answer()
        else:
            self._add_answer(versions=old.versions + 1, pinned=old.pinned)
        return True

    def edit_and_resend(self, id: str, text: str) -> bool:
        """Sends a question again with other words, as a new version of it on a branch of its own."""
        at = self._position(id)
        if not self._free() or at is None or self._branch[at].role is not Role.USER or not text.strip():
            return False
        old = self._branch[at]
        self._cut(at)
        self._add_question(
            clean_text(text), parent=old.parent_id, versions=old.versions + 1, pinned=old.pinned, keeps_draft=True
        )
        return True

    def pin(self, ids: Sequence[str], pinned: bool) -> tuple[str, ...]:
        """Keeps messages of this chat in every prompt, or lets them be left out again; returns those it changed."""
        changed_ids = tuple(
            record.id for record in self._branch if record.id in frozenset(ids) and record.pinned is not pinned
        )
        for id in changed_ids:
            at = self._position(id)
            assert at is not None
            self._branch[at] = msgspec.structs.replace(self._branch[at], pinned=pinned)
            self._items.update(id, pinned=pinned)
        if changed_ids:
            self._store.pin_messages(changed_ids, pinned)
            self.pins_changed.emit(changed_ids)
        return changed_ids

    @property
    def pinned(self) -> tuple[str, ...]:
        """The ids of this chat's pinned messages, as far as they are shown."""
        return tuple(record.id for record in self._branch if record.pinned)

    def continue_answer(self, id: str) -> bool:
        """Lets the last answer go on where it ended."""
        if not self._free() or not self._branch or self._branch[-1].id != id:
            return False
        answer = self._branch[-1]
        if answer.role is not Role.ASSISTANT or not answer.content:
            return False
        self._store.resume_answer(id)
        self._branch[-1] = msgspec.structs.replace(answer, state=MessageState.WRITING, error=None)
        self._items.update(id, state=item_state(MessageState.WRITING), error=None)
        self._ask(self._chat, self._branch, id, so_far=[answer.content])
        return True

    def choose_version(self, id: str, step: int) -> None:
        """Shows another version of a message, and what followed it; a running answer goes on meanwhile."""
        if not self._loading and self._position(id) is not None:
            self._store.choose_version(self.chat_id, id, step, self._when_opened())

    def set_system_prompt(self, text: str) -> None:
        """Sets this chat's instructions, from its next answer on."""
        self._chat = msgspec.structs.replace(self._chat, system_prompt=clean_text(text))
        if self._stored:
            self._store.set_system_prompt(self.chat_id, self._chat.system_prompt)
        self.system_prompt_changed.emit(self._chat.system_prompt)

    @property
    def settings(self) -> dict[str, Any]:
        """The sampling settings that are this chat's own."""
        return dict(self._chat.settings)

    def set_settings(self, settings: dict[str, Any]) -> None:
        """Keeps the sampling settings that are this chat's own."""
        self._chat = msgspec.structs.replace(self._chat, settings=settings)
        if self._stored and not self._loading:
            self._store.set_settings(self.chat_id, settings)

    @property
    def edit(self) -> Edit:
        """The message of this chat that is being written anew, and how far that got."""
        return self._chat.edit

    def set_draft(self, text: str, edit: Edit = NO_EDIT) -> None:
        """Keeps what is typed and not sent; to be called with every change, it is stored after a short rest."""
        if self._loading and self.chat_id == self._shown_id:
            self._typed_meanwhile = clean_text(text), edit
        elif self._loading:
            self._keep_left(clean_text(text), edit)
        elif (text, edit) != (self._chat.draft, self._chat.edit):
            self._chat = msgspec.structs.replace(self._chat, draft=clean_text(text), edit=edit)
            self._draft_timer.start()

    def _keep_left(self, text: str, edit: Edit) -> None:
        """Another chat is on its way, and the field still holds what is written in the one that is left."""
        if text.strip():  # which stores it where it was new
            moment, prompt = now(), self._new_system_prompt()
            self._store.create_chat(
                ChatRecord(id=self._shown_id, created=moment, updated=moment, system_prompt=prompt)
            )
        self._store.set_draft(self._shown_id, text, edit)

    def keep_draft(self) -> None:
        """Stores the draft at once where it has changed."""
        self._flush_draft()

    def close(self) -> None:
        """Stores everything as it stands, running answers as stopped; to be called before the store is closed."""
        self._leave()
        for id in list(self._answers):
            self._end_answer(id, MessageState.STOPPED)

    def start_over(self) -> None:
        """Ends every answer where it is and shows an empty chat: all chats are about to be replaced."""
        running = list(self._answers)
        self.close()
        for id in running:
            self._engine.stop(id)
        self.waiting.forget_all()
        self.new_chat()

    # --- loading ---------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        if self._states is not None:
            self._states.left(self.chat_id)
        self._flush_draft()

    def _flush_draft(self) -> None:
        if self._typed_meanwhile is not None:
            (draft, edit), self._typed_meanwhile = self._typed_meanwhile, None
            self._chat = msgspec.structs.replace(self._chat, draft=draft, edit=edit)
            self._draft_timer.start()
        if self._draft_timer.isActive():
            self._draft_timer.stop()
            self._store_draft()

    def _load(self, chat_id: str, *, reveal: str | None = None) -> None:
        self._stored = True
        self._chat = ChatRecord(id=chat_id)
        self._branch = []
        self._store.load_chat(chat_id, self._when_opened(), reveal=reveal)

    def _when_opened(self) -> Callable[[OpenChat | None], None]:
        """Returns what the store calls with the chat that was asked for; its draft is on its way there before."""
        self._flush_draft()
        self._loading = True
        self._opening += 1
        number = self._opening
        return lambda found: self._opened(number, found)

    def _opened(self, number: int, found: OpenChat | None) -> None:
        if number != self._opening:
            return  # another chat was chosen meanwhile
        if found is None:
            self.new_chat()
            self.problem.emit(ChatGone().info)
        elif self._is_stale(found):
            self._store.load_chat(found.chat.id, self._when_opened())
        else:
            self._show(found)

    def _is_stale(self, found: OpenChat) -> bool:
        """Whether an answer in it ended while it was read."""
        running = {answer.message_id for answer in self._answers.values()}
        return any(record.state is MessageState.WRITING and record.id not in running for record in found.messages)

    def _show(self, found: OpenChat) -> None:
        texts = {answer.message_id: answer.text for answer in self._answers.values()}
        self._loading = False
        self._chat = self._with_draft(found.chat)
        self._branch = [
            msgspec.structs.replace(record, content=texts[record.id]) if record.id in texts else record
            for record in found.messages
        ]
        self._items.set_items(item_of(record) for record in self._branch)
        self.chat_changed.emit(self._chat.id)
        self.title_changed.emit(self._chat.title)
        self.system_prompt_changed.emit(self._chat.system_prompt)
        self.settings_changed.emit(self.settings)
        self.draft_changed.emit(self._chat.draft)
        self._show_busy()

    def _with_draft(self, chat: ChatRecord) -> ChatRecord:
        """Returns a chat that was read with the draft that is newer."""
        newer, self._typed_meanwhile = self._typed_meanwhile, None
        if newer is not None and chat.id == self._shown_id and newer != (chat.draft, chat.edit):
            chat = msgspec.structs.replace(chat, draft=newer[0], edit=newer[1])
            self._draft_timer.start()
        self._shown_id = chat.id
        return chat

    # --- asking ----------------------------------------------------------------------------------------------------

    def _free(self) -> bool:
        return not self._loading and not self.busy

    def _position(self, id: str) -> int | None:
        return next((at for at, record in enumerate(self._branch) if record.id == id), None)

    def _cut(self, at: int) -> None:
        """Takes the messages from a position on off the screen; they stay in the store as another version."""
        if at < len(self._branch):
            self._items.remove_from(self._branch[at].id)
            del self._branch[at:]

    def _add_question(
        self, text: str, *, parent: str | None, versions: int = 1, pinned: bool = False, keeps_draft: bool = False
    ) -> None:
        self._ensure_stored()
        if not self.title:
            self.rename_chat(self.chat_id, title_from(text))
        self._add(Role.USER, text, parent=parent, versions=versions, pinned=pinned)
        self._add_answer()
        if self._chat.draft and not keeps_draft:  # only now: a killed window has it twice rather than not at all
            self._draft_timer.stop()
            self._chat = msgspec.structs.replace(self._chat, draft="")
            self._store_draft()

    def _add_answer(self, *, versions: int = 1, pinned: bool = False) -> None:
        self._add(
            Role.ASSISTANT, "", parent=self._branch[-1].id, versions=versions, state=MessageState.WRITING,
            model=self._model_name(), pinned=pinned,
        )  # fmt: skip
        self._ask(self._chat, self._branch, self._branch[-1].id)

    def _add(self, role: Role, text: str, *, parent: str | None, versions: int, **rest: Any) -> None:
        record = self._record(self.chat_id, role, text, parent=parent, version=versions, versions=versions, **rest)
        self._store.add_message(record)
        self._branch.append(record)
        self._items.add(item_of(record))

    def _record(self, chat_id: str, role: Role, text: str, *, parent: str | None, **rest: Any) -> MessageRecord:
        return MessageRecord(
            id=new_id(), chat_id=chat_id, parent_id=parent, role=role, content=text, created=now(), **rest
        )

    def _ask(
        self, chat: ChatRecord, branch: list[MessageRecord], message_id: str, *, so_far: list[str] | None = None
    ) -> None:  # fmt: skip
        sampling = self._sampling()
        question = asked(chat.system_prompt, branch)
        request = GenerationRequest(
            messages=question.messages, pinned=question.pinned, continue_last=so_far is not None, sampling=sampling,
            receipt=True,
        )  # fmt: skip
        answer = _Answer(chat.id, message_id, sampling, question, so_far or [])
        if self._states is not None:
            self._states.before_answer(chat.id)
        self._answers[self._engine.generate(request)] = answer
        self._show_busy()

    def _file_name(self) -> str:
        return Path(self._engine.wanted[0]).stem if self._engine.wanted is not None else ""

    # --- what the engine says --------------------------------------------------------------------------------------

    @Slot(int, str, int)
    def _on_text(self, id: int, text: str, _n_tokens: int) -> None:
        answer = self._answers.get(id)
        if answer is not None:
            answer.parts.append(text)
            self._store.append_answer(answer.message_id, text)
            if answer.message_id in self._items:
                self._items.append_text(answer.message_id, text)

    @Slot(int, int)
    def _on_replaced(self, id: int, count: int) -> None:
        """The answer that is continued was cut inside a character: takes away what stood for it."""
        answer = self._answers.get(id)
        if answer is not None:
            answer.parts = [answer.text[:-count]]
            if answer.message_id in self._items:
                self._items.update(answer.message_id, text=answer.text)

    @Slot(int, object)
    def _on_finished(self, id: int, finished: Finished) -> None:
        answer = self._answers.get(id)
        if answer is not None:
            sampling = changed(answer.sampling)
            receipt = receipt_of(
                finished, self._engine.info, sampling, dropped=len(answer.dropped),
                left_out=answer.asked.places(answer.dropped),
            )  # fmt: skip
            state = state_of(finished.reason)
            self._end_answer(id, state, receipt=receipt)
            if finished.receipt is not None:
                self._store.keep_receipt(answer.message_id, finished.receipt)
            self._keep_state(answer.chat_id, finished.usage.context_used)
            self.answer_ended.emit(answer.chat_id, state)

    def _keep_state(self, chat_id: str, context_used: int) -> None:
        if self._states is not None:
            self._states.answered(chat_id, context_used)
            if chat_id != self.chat_id:
                self._states.left(chat_id)

    @Slot(int, object)
    def _on_failed(self, id: int, error: ErrorInfo) -> None:
        answer = self._answers.get(id)
        if answer is not None:
            self._end_answer(id, MessageState.FAILED, error=error)
            self.answer_ended.emit(answer.chat_id, MessageState.FAILED)

    @Slot(int, object)
    def _on_prompt_progress(self, id: int, progress: PromptProgress) -> None:
        if self._is_shown(id):
            self.prompt_progress.emit(progress)

    @Slot(int, object)
    def _on_trimmed(self, id: int, dropped: tuple[int, ...]) -> None:
        if id in self._answers:
            self._answers[id].dropped = dropped
        if self._is_shown(id):
            self.context_trimmed.emit(len(dropped))

    def _is_shown(self, id: int) -> bool:
        return id in self._answers and self._answers[id].chat_id == self.chat_id

    def _end_answer(
        self, id: int, state: MessageState, *, receipt: Receipt | None = None, error: ErrorInfo | None = None
    ) -> None:
        answer = self._answers.pop(id)
        text = answer.text
        if not text and state is MessageState.STOPPED:
            self._remove_empty(answer.message_id)
        else:
            self._store.finish_answer(answer.message_id, text, state, receipt=receipt, error=error)
            self._show_ended(answer.message_id, content=text, state=state, receipt=receipt, error=error)
        self._show_busy()

    def _remove_empty(self, message_id: str) -> None:
        """An answer stopped before its first word leaves its earlier version, or only the question, to ask again."""
        self._store.remove_message(message_id)
        at = self._position(message_id)
        if at is not None and self._branch[at].versions > 1:
            self._store.load_chat(self.chat_id, self._when_opened())
        elif at is not None:
            self._cut(at)

    def _show_ended(self, message_id: str, **changes: Any) -> None:
        at = self._position(message_id)
        if at is not None:
            record = self._branch[at] = msgspec.structs.replace(self._branch[at], **changes)
            speed, seconds, _thought = costs(record.receipt)
            self._items.update(
                message_id, state=item_state(record.state), error=record.error, speed=speed, seconds=seconds
            )

    # --- small things ----------------------------------------------------------------------------------------------

    def _ensure_stored(self) -> None:
        if not self._stored:
            moment = now()
            self._chat = msgspec.structs.replace(self._chat, created=moment, updated=moment)
            self._store.create_chat(self._chat)
            self._stored = True

    def _set_title(self, title: str) -> None:
        self._chat = msgspec.structs.replace(self._chat, title=clean_text(title))
        self.title_changed.emit(self._chat.title)

    @Slot()
    def _store_draft(self) -> None:
        if self._stored or self._chat.draft.strip():
            self._ensure_stored()
            self._store.set_draft(self.chat_id, self._chat.draft, self._chat.edit)

    def _show_busy(self) -> None:
        if self.busy != self._was_busy:
            self._was_busy = self.busy
            self.busy_changed.emit(self.busy)
