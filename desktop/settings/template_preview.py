"""The chat templates of a model and what one makes of a short conversation; for threads. Knows no widget.

Templates come from files of strangers: they are rendered in a child of their own, which is gone afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runtime.messages import Message, Role
from runtime.params import SamplingParams
from runtime.text import _

_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class Templates:
    """What can be chosen for a model: its own by name, ours, and which of ours its vocabulary was made for."""

    own: dict[str, str]
    built_in: tuple[str, ...]
    guess: str = ""


def templates_of(path: Path) -> Templates:
    """Reads a model's templates from its header. Raises what `read_header` raises."""
    from desktop.library.template_guess import template_guess
    from runtime.chat_formats import RAW, built_in_names
    from runtime.gguf_header import read_header

    header = read_header(path)
    return Templates(dict(header.chat_templates), (*built_in_names(), RAW), template_guess(header))


def preview(templates: Templates, sampling: SamplingParams) -> str:
    """Returns what the model would read of a short conversation. Raises `UserError`."""
    from runtime.chat_formats import ChatFormats
    from runtime.render import TemplateRenderer

    messages = (
        Message(Role.SYSTEM, _("Answer briefly.")), Message(Role.USER, _("What is a quern?")),
        Message(Role.ASSISTANT, _("A stone mill for grain.")), Message(Role.USER, _("Who used it?")),
    )  # fmt: skip
    chosen = ChatFormats(templates.own, lambda _text: True).chosen(sampling)
    if not chosen.source:
        return "\n\n".join(message.content for message in messages)
    renderer = TemplateRenderer()
    try:
        return renderer.render(chosen.source, messages, variables=chosen.variables).text[:_LONGEST]
    finally:
        renderer.close()
