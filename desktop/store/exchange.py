"""Chats as files: Markdown to read, JSON to keep and to take elsewhere. Knows no disk and no window.

JSON holds every branch; `read_chats` takes it back under new ids. It also takes a bare list of messages with role and
content, as other programs write them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from desktop.store.records import NO_EDIT, ChatRecord, Edit, MessageRecord, MessageState, OpenChat, new_id, now
from runtime.errors import UserError
from runtime.messages import Role
from runtime.small_files import as_utf8
from runtime.text import _

FORMAT = 1
_MOST_MESSAGES = 100_000


class NotAChat(UserError):
    """A file that holds no chat."""

    code = "not_a_chat"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            _("“{name}” holds no chat that can be read.").format(name=name), reason,
            _("Choose a JSON file that Quern exported, or a list of messages with “role” and “content”."),
        )  # fmt: skip


def as_markdown(found: OpenChat) -> str:
    """Returns the branch that is shown, as a document: a heading for each turn, the texts as they are."""
    title = " ".join(found.chat.title.split()) or _("Chat")
    parts = [f"# {title}"]
    if found.chat.system_prompt.strip():
        parts.append(f"## {_('System prompt')}\n\n{found.chat.system_prompt.strip()}")
    for message in branch_of(found):
        who = _("You") if message.role is Role.USER else message.model or _("Model")
        parts.append(f"## {who}\n\n{message.content.strip()}")
    return "\n\n".join(parts) + "\n"


def as_json(chats: Iterable[OpenChat]) -> bytes:
    """Returns chats with all their branches and settings."""
    document = {"quern_chats": FORMAT, "chats": [msgspec.to_builtins(chat) for chat in chats]}
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def read_chats(data: bytes, *, name: str) -> list[OpenChat]:
    """Returns the chats of a file, under ids of their own. Raises `NotAChat`."""
    try:
        document: Any = msgspec.json.decode(as_utf8(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAChat(name, _("It is no JSON: {error}").format(error=error)) from error
    if isinstance(document, dict) and isinstance(document.get("chats"), list):
        return [_renumbered(_chat(item, name)) for item in document["chats"]]
    messages = document.get("messages") if isinstance(document, dict) else document
    if isinstance(messages, list) and messages:
        title = document.get("title") if isinstance(document, dict) else None
        return [_from_messages(messages, title if isinstance(title, str) else name, name)]
    raise NotAChat(name, _("It has neither chats nor messages."))


def branch_of(found: OpenChat) -> list[MessageRecord]:
    """Returns the messages from the first one to the leaf."""
    by_id = {message.id: message for message in found.messages}
    at = by_id.get(found.chat.leaf or "") or (found.messages[-1] if found.messages else None)
    branch: dict[str, MessageRecord] = {}
    while at is not None and at.id not in branch:
        branch[at.id] = at
        at = by_id.get(at.parent_id or "")
    return list(branch.values())[::-1]


def _chat(item: Any, name: str) -> OpenChat:
    try:
        return msgspec.convert(item, OpenChat)
    except msgspec.ValidationError as error:
        raise NotAChat(name, str(error)) from error


def _renumbered(found: OpenChat) -> OpenChat:
    """Gives everything new ids: a chat that is imported twice is there twice, and none takes another one's place."""
    chat_id, moment = new_id(), now()
    fresh = [new_id() for _message in found.messages]
    ids: dict[str, str] = {}
    for message, id in zip(found.messages, fresh, strict=True):
        ids.setdefault(message.id, id)  # where one stands twice, others mean the first
    messages = tuple(
        msgspec.structs.replace(
            message, id=id, chat_id=chat_id, parent_id=ids.get(message.parent_id or ""),
            created=_until(moment, message.created),
            state=MessageState.INTERRUPTED if message.state is MessageState.WRITING else message.state,
        )
        for message, id in zip(found.messages, fresh, strict=True)
    )  # fmt: skip
    leaf = ids.get(found.chat.leaf or "") or (messages[-1].id if messages else None)
    edited = ids.get(found.chat.edit.message_id)
    edit = Edit(edited, found.chat.edit.text) if edited else NO_EDIT
    chat = msgspec.structs.replace(
        found.chat, id=chat_id, leaf=leaf, edit=edit, created=_until(moment, found.chat.created),
        updated=_until(moment, found.chat.updated),
    )  # fmt: skip
    return OpenChat(chat=chat, messages=messages)


def _until(moment: float, told: float) -> float:
    """Returns a time that a file tells, as far as it can have been; later ones would stay above all others."""
    return told if 0 <= told <= moment else moment


def _from_messages(items: list[Any], title: str, name: str) -> OpenChat:
    moment, chat_id, system, parent = now(), new_id(), [], None
    messages: list[MessageRecord] = []
    for item in items[:_MOST_MESSAGES]:
        role, text = _turn(item, name)
        if role is Role.SYSTEM:
            system.append(text)
            continue
        record = MessageRecord(
            id=new_id(), chat_id=chat_id, parent_id=parent, role=role, content=text, created=moment
        )
        messages.append(record)
        parent = record.id
    chat = ChatRecord(
        id=chat_id, title=title, created=moment, updated=moment, system_prompt="\n\n".join(system), leaf=parent
    )
    return OpenChat(chat=chat, messages=tuple(messages))


def _turn(item: Any, name: str) -> tuple[Role, str]:
    role = item.get("role") if isinstance(item, dict) else None
    text = item.get("content") if isinstance(item, dict) else None
    if role not in [known.value for known in Role] or not isinstance(text, str):
        raise NotAChat(name, _("A message has no role that is known, or no text."))
    return Role(role), text
