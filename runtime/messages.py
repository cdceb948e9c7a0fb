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
    """One turn. `content` is plain text: what a person types never becomes a control token.

    `reasoning` is what a model thought before it said `content`; its chat template decides whether it is shown again.
    """

    role: Role
    content: str
    reasoning: str = ""


Conversation = tuple[Message, ...]
