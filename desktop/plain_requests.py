"""Makes what is asked of the engine fit for JSON: lone surrogates come with pastes and file names. Knows no process."""

from __future__ import annotations

import msgspec

from desktop.store.records import clean_text
from runtime.messages import Message
from runtime.protocol import GenerationRequest


def plain_messages(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Returns the messages with text that UTF-8 can hold."""
    return tuple(Message(turn.role, clean_text(turn.content), clean_text(turn.reasoning)) for turn in messages)


def plain_request(request: GenerationRequest) -> GenerationRequest:
    """Returns the request with text that UTF-8 can hold."""
    prompt = None if request.prompt is None else clean_text(request.prompt)
    return msgspec.structs.replace(request, messages=plain_messages(request.messages), prompt=prompt)
