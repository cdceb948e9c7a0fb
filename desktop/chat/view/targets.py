"""What can be clicked on a message: actions, versions, buttons of a notice, copy buttons of code. Paints nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QFontMetricsF

from desktop.chat.view.code_segment import CodeSegment
from desktop.chat.view.item_layout import FOOTER
from desktop.chat.view.layout import ConversationLayout
from desktop.chat.view.message_model import ChatItem, ItemState
from desktop.chat.view.style import TextStyle
from desktop.theme import Space
from runtime.messages import Role
from runtime.text import N_, _

ACTION = 28.0
_ICONS = {"copy": "copy", "again": "reload", "edit": "edit", "previous": "chevron_left", "next": "chevron_right"}
_TEXTS = {
    "copy": N_("Copy"), "copy_all": N_("Copy with the reasoning"), "raw": N_("Show the source"),
    "meaning": N_("Show it formatted"),
    "thought": N_("Show the reasoning"), "hide_thought": N_("Hide the reasoning"),
    "again": N_("Answer again"), "edit": N_("Edit"),
    "pin": N_("Pin in the context"), "unpin": N_("Unpin from the context"),
    "previous": N_("Previous version"), "next": N_("Next version"), "code": N_("Copy code"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """Something to click, at `rect` in the conversation's coordinates. `block` is set for the code it belongs to."""

    name: str
    row: int
    rect: QRectF
    icon: str = ""
    text: str = ""
    block: int = -1
    enabled: bool = True

    def same(self, other: Target | None) -> bool:
        """True for the same thing, wherever it now stands."""
        return other is not None and (self.name, self.row, self.block) == (other.name, other.row, other.block)


def action_names(item: ChatItem) -> list[str]:
    """Returns what can be done with a message now."""
    names = ["copy"] if copied_text(item) else []
    if item.role is Role.USER:
        names.append("edit")
    if item.role is Role.ASSISTANT and item.state is not ItemState.STREAMING:
        names.append("again")
    return names


def copied_text(item: ChatItem) -> str:
    """Returns what copying a message gives: its source without the reasoning, and what went wrong if something did."""
    error = item.error
    parts = [item.answer] + ([error.title, error.message, error.hint, error.details] if error else [])
    return "\n".join(part for part in parts if part)


def action_text(name: str) -> str:
    """Returns the name of an action for people."""
    return _(_TEXTS[name])


def version_text(item: ChatItem) -> str:
    """Returns the counter between the version arrows."""
    return f"{item.version}/{item.versions}"


def version_width(item: ChatItem, style: TextStyle) -> float:
    """Returns the width of the counter between the version arrows."""
    return QFontMetricsF(style.quiet_font).horizontalAdvance(version_text(item)) + Space.SMALL


def action_targets(layout: ConversationLayout, row: int) -> list[Target]:
    """Returns the actions in the row under a message, from left to right."""
    item = layout.items[row].item
    y = layout.top_of(row) + layout.items[row].footer_top + FOOTER - ACTION
    x = -(ACTION - 18) / 2  # the first drawing stands under the first letter
    found = []
    for name in action_names(item):
        found.append(Target(name, row, QRectF(x, y, ACTION, ACTION), _ICONS[name], action_text(name)))
        x += ACTION + Space.TINY / 2
    return found + version_targets(layout, row, x)


def version_targets(layout: ConversationLayout, row: int, x: float) -> list[Target]:
    """Returns the arrows beside the counter of versions, none where there is one version."""
    item = layout.items[row].item
    if item.versions < 2:
        return []
    y = layout.top_of(row) + layout.items[row].footer_top + FOOTER - ACTION
    right = x + ACTION + version_width(item, layout.style)
    return [
        Target("previous", row, QRectF(x, y, ACTION, ACTION), _ICONS["previous"], action_text("previous"),
               enabled=item.version > 1),
        Target("next", row, QRectF(right, y, ACTION, ACTION), _ICONS["next"], action_text("next"),
               enabled=item.version < item.versions),
    ]  # fmt: skip


def menu_targets(layout: ConversationLayout, row: int) -> list[Target]:
    """Returns what only the menu of a message offers."""
    item = layout.items[row]
    pinning = [Target(name, row, QRectF(), text=action_text(name)) for name in _pin_names(item.item)]
    if item.item.role is not Role.ASSISTANT or not item.item.text:
        return pinning
    names = ["copy_all", "hide_thought" if item.thought_shown else "thought"] if item.item.reasoning else []
    if item.raw:
        names = [name for name in names if name == "copy_all"]
    names.append("meaning" if item.raw else "raw")
    return [*pinning, *(Target(name, row, QRectF(), text=action_text(name)) for name in names)]


def _pin_names(item: ChatItem) -> list[str]:
    if item.pinned:
        return ["unpin"]
    return ["pin"] if item.text and item.state is not ItemState.STREAMING else []


def thought_targets(layout: ConversationLayout, row: int) -> list[Target]:
    """Returns the line that unfolds a message's reasoning, where it has any."""
    item = layout.items[row]
    line = item.reasoning
    if line is None:
        return []
    rect = line.button(layout.style).translated(item.text_left, layout.top_of(row) + item.top_of(0))
    name = "hide_thought" if item.thought_shown else "thought"
    return [Target(name, row, rect, text=action_text(name))]


def notice_targets(layout: ConversationLayout, row: int) -> list[Target]:
    """Returns the buttons of a message's notice."""
    item = layout.items[row]
    top = QPointF(0, layout.top_of(row) + item.notice_top)
    return [Target(button.name, row, button.rect.translated(top), text=button.text) for button in item.notice.buttons]


def code_targets(layout: ConversationLayout, row: int, top: float, bottom: float) -> Iterator[Target]:
    """Yields the copy buttons of the code blocks whose beginning is in a strip."""
    for place in layout.places(row, top, bottom):
        segment = place.segment
        if isinstance(segment, CodeSegment) and segment.laid and not segment.copy_rect.isEmpty():
            rect = segment.copy_rect.translated(place.rect.topLeft())
            yield Target("code", row, rect, "copy", action_text("code"), segment.index)
