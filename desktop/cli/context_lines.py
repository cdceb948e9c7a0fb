"""What fills the context, as lines for a terminal. Measures nothing itself."""

from __future__ import annotations

from collections.abc import Iterator

from desktop.cli.layout import columns, cut, harmless
from runtime.messages import Role
from runtime.protocol import ContextMeasured, GenerationRequest
from runtime.text import _

_EXCERPT = 400  # characters of a message that may be looked at for its line


def context_lines(request: GenerationRequest, measured: ContextMeasured, *, cells: int) -> list[str]:
    """Returns a line for each message, then the sums, and what would be refused; none wider than `cells`."""
    rows, number = [], 0
    for at, message in enumerate(request.messages):
        number += message.role is not Role.SYSTEM
        numbered = str(number) if message.role is not Role.SYSTEM else ""
        words = " ".join(harmless(message.content[:_EXCERPT]).split())
        tokens = f"{measured.tokens[at]:,}"
        rows.append((numbered, _author(message.role), tokens, _standing(at, request, measured), words))
    return [*(cut(line, cells) for line in columns(rows, right={0, 2})), *_sums(measured)]


def _author(role: Role) -> str:
    return {Role.SYSTEM: _("System"), Role.USER: _("You"), Role.ASSISTANT: _("Model")}.get(role, role.value)


def _standing(at: int, request: GenerationRequest, measured: ContextMeasured) -> str:
    if at in measured.dropped:
        return _("left out")
    if at in request.pinned:
        return _("pinned")
    return _("goes next") if at in measured.next else ""


def _sums(measured: ContextMeasured) -> Iterator[str]:
    used = _("{used} of {room} tokens, with {marks} for the marks of the chat template.")
    yield used.format(
        used=f"{measured.total:,}", room=f"{measured.context_length:,}", marks=f"{measured.marks:,}"
    )
    rest = _("{cached} are read already; {reserve} are kept free for the answer.")
    yield rest.format(cached=f"{measured.cached:,}", reserve=f"{measured.reserve:,}")
    if measured.error is not None:
        yield from filter(None, (measured.error.title, measured.error.message, measured.error.hint))
