"""Makes conversations fit templates that cannot take them as they are, and says what was changed.

Some models know no system prompt, others insist that question and answer alternate. Knows nothing of Jinja.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from runtime.chat_template import ChatTemplate, ChatTemplateError, TemplateBroken, TemplateRefused
from runtime.messages import Message, Role
from runtime.text import _


class RenderNote(enum.StrEnum):
    """What was changed in a conversation so that the template takes it."""

    SYSTEM_FOLDED = "system_folded"
    TURNS_JOINED = "turns_joined"

    @property
    def sentence(self) -> str:
        """What to tell the person, translated."""
        return {
            RenderNote.SYSTEM_FOLDED: _(
                "This model's chat template has no place for a system prompt; it was put before the next message."
            ),
            RenderNote.TURNS_JOINED: _(
                "This model's chat template wants question and answer to alternate; neighbouring messages were joined."
            ),
        }[self]


Turns = tuple[tuple[Message, ...], tuple[RenderNote, ...]]


def render_turns(
    template: ChatTemplate, messages: tuple[Message, ...], **options: Any
) -> tuple[str, tuple[RenderNote, ...]]:
    """Returns the rendered conversation and what had to be changed for it. `options` are those of `render`.

    Blank system prompts are left out. Where the template ignores system prompts, or refuses the conversation, it is
    offered with system prompts folded into the next message of the person and then with neighbours joined. Raises
    the template's first error where nothing helps.
    """
    first: ChatTemplateError | None = None
    for turns, notes in _offers(template, messages):
        try:
            return template.render(turns, **options), notes
        except (TemplateRefused, TemplateBroken) as error:
            first = first or error
    assert first is not None
    raise first


def _offers(template: ChatTemplate, messages: tuple[Message, ...]) -> Iterator[Turns]:
    """Yields the conversation as it is, then folded, joined, or both, as far as these differ."""
    whole = _without_blank_system(messages)
    folded = _folded(whole)
    seen = []
    for turns, notes in (
        (whole, ()),
        (folded, (RenderNote.SYSTEM_FOLDED,)),
        (_joined(whole), (RenderNote.TURNS_JOINED,)),
        (_joined(folded), (RenderNote.SYSTEM_FOLDED, RenderNote.TURNS_JOINED)),
    ):
        loses_system = any(turn.role is Role.SYSTEM for turn in turns) and template.ignores_system
        if turns not in seen and not loses_system:
            seen.append(turns)
            yield turns, notes


def _without_blank_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    kept = tuple(turn for turn in messages if turn.role is not Role.SYSTEM or turn.content.strip())
    return kept or messages


def _folded(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Returns the turns with each system prompt at the start of the person's next turn, or as a turn of its own."""
    turns: list[Message] = []
    pending: list[str] = []
    for turn in messages:
        if turn.role is Role.SYSTEM:
            pending.append(turn.content)
            continue
        if pending and turn.role is Role.USER:
            turn = _as_user([*pending, turn.content])
        elif pending:
            turns.append(_as_user(pending))
        turns.append(turn)
        pending = []
    return (*turns, _as_user(pending)) if pending else tuple(turns)


def _as_user(contents: list[str]) -> Message:
    return Message(Role.USER, "\n\n".join(contents))


def _joined(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    turns: list[Message] = []
    for turn in messages:
        if turns and turns[-1].role is turn.role:
            before = turns.pop()
            reasoning = "\n\n".join(filter(None, (before.reasoning, turn.reasoning)))
            turn = Message(turn.role, f"{before.content}\n\n{turn.content}", reasoning)
        turns.append(turn)
    return tuple(turns)
