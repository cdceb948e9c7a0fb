"""Which colour stands for what in the context: the theme's own, told apart by hue and by strength."""

from __future__ import annotations

from PySide6.QtGui import QColor

from desktop.chat.ledger.entries import Kind
from desktop.theme import Theme

_NAMES = {
    Kind.SYSTEM: ("good", 1.0), Kind.USER: ("accent", 1.0), Kind.ASSISTANT: ("accent", 0.5), Kind.TOOL: ("good", 0.5),
    Kind.DRAFT: ("accent", 0.75), Kind.MARKS: ("strong_border", 1.0), Kind.RESERVE: ("strong_border", 0.45),
    Kind.FREE: ("border", 0.6),
}  # fmt: skip


def colour_of(kind: Kind, theme: Theme, *, faded: bool = False) -> QColor:
    """Returns the colour of a kind; `faded` for what is left out."""
    name, strength = _NAMES[kind]
    colour = QColor(getattr(theme, name))
    colour.setAlphaF(strength * (0.3 if faded else 1.0))
    return colour
