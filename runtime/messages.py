"""What a conversation is made of. Knows nothing about tokens, templates or storage."""

from __future__ import annotations

import enum

import msgspec


class Role(enum.StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn. `content` is plain text: what a person types never becomes a control token."""

    role: Role
    content: str


Conversation = tuple[Message, ...]
