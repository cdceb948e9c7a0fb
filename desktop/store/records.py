"""What the chat store takes and gives. Knows neither SQL nor Qt. All times are seconds since 1970 in UTC."""

from __future__ import annotations

import re
import time
import uuid
from enum import StrEnum
from typing import Any

import msgspec

from runtime.errors import ErrorInfo
from runtime.messages import Role

_SURROGATES = re.compile("[\ud800-\udfff]")


class MessageState(StrEnum):
    """How far a message got."""

    DONE = "done"
    WRITING = "writing"  # the answer is being streamed
    STOPPED = "stopped"  # the person pressed Stop
    CUT_LENGTH = "cut_length"  # the longest answer allowed was reached
    CUT_CONTEXT = "cut_context"  # the context was full
    INTERRUPTED = "interrupted"  # the application ended while it was written
    FAILED = "failed"  # `error` says why


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an answer was made: why it ended, what it cost, and with what it can be made again.

    `usage` and `sampling` are plain JSON objects (`runtime.protocol.Usage`, changed `SamplingParams`), so that a
    receipt from another version stays readable.
    """

    reason: str = ""
    usage: dict[str, Any] = {}
    seed: int = 0
    sampling: dict[str, Any] = {}
    engine: str = ""
    build: str = ""
    model_path: str = ""
    dropped: int = 0  # messages left out of the prompt because they no longer fitted
    left_out: tuple[tuple[int, int], ...] = ()  # which: ranges of positions in the branch above the answer


class MessageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One stored message. `version` of `versions` counts its siblings under the same parent, from 1."""

    id: str
    chat_id: str
    parent_id: str | None
    role: Role
    content: str
    created: float
    state: MessageState = MessageState.DONE
    model: str = ""
    receipt: Receipt | None = None
    error: ErrorInfo | None = None
    version: int = 1
    versions: int = 1
    pinned: bool = False  # never left out of a prompt


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message of a chat that is being written anew and was not sent; without an id, none is."""

    message_id: str = ""
    text: str = ""


NO_EDIT = Edit()


class ChatRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One chat without its messages. `leaf` is the last message of the branch that is shown.

    `settings` are the sampling settings that are its own, plain JSON as a settings file holds them.
    """

    id: str
    title: str = ""
    created: float = 0.0
    updated: float = 0.0
    system_prompt: str = ""
    draft: str = ""
    edit: Edit = NO_EDIT
    leaf: str | None = None
    pinned: bool = False
    folder: str = ""
    settings: dict[str, Any] = {}


class OpenChat(msgspec.Struct, frozen=True, kw_only=True):
    """A chat and the messages of the branch that is shown, oldest first."""

    chat: ChatRecord
    messages: tuple[MessageRecord, ...] = ()


class ChatSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the chat list. `snippet` is the start of the last message shown."""

    id: str
    title: str
    updated: float
    snippet: str
    pinned: bool = False
    folder: str = ""


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """Where a search matched: a message, the chat's title where `message_id` is None, or a notebook."""

    chat_id: str
    title: str
    message_id: str | None
    snippet: str
    updated: float
    notebook_id: str = ""  # where there is one, there is no chat


class NotebookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A text that a model goes on with. An empty title means its first line.

    `mark` is where the part stands that the model wrote last, from and to, in UTF-16 units as Qt counts; equal where
    there is none.
    """

    id: str
    title: str = ""
    text: str = ""
    mark: tuple[int, int] = (0, 0)
    created: float = 0.0
    updated: float = 0.0


class NotebookSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list of notebooks."""

    id: str
    title: str
    updated: float


def new_id() -> str:
    """Returns a fresh id for a chat or a message. Ids are made by the caller, so that nobody waits for the disk."""
    return uuid.uuid4().hex


def now() -> float:
    """Returns the time that is stored, in seconds since 1970, UTC."""
    return time.time()


def clean_text(text: str) -> str:
    """Returns text that UTF-8 can hold: a lone surrogate (from a paste or a file name) becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("�", text)
    return text
