"""How Qt draws in our colours: the palette and the stylesheet made from a theme. Names no colour or length itself."""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import fields

from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

import resources
from desktop import fonts
from desktop.theme import Corner, Space, Theme

_STYLED = "quern_styled"
_Group = QPalette.ColorGroup
_Role = QPalette.ColorRole


def dress(application: QApplication, theme: Theme) -> None:
    """Gives the application its style, font, palette and stylesheet; once more when the theme changes."""
    if application.property(_STYLED) is None:  # once there is a stylesheet, the style no longer tells its name
        application.setStyle("Fusion")
        application.setProperty(_STYLED, True)
    if application.font() != fonts.body():
        application.setFont(fonts.body())
    for _step in dressing(application, theme):
        pass


def dressing(application: QApplication, theme: Theme) -> Iterator[None]:
    """Brings another theme's colours in two steps; what is painted between them has no style."""
    if application.styleSheet() != (sheet := stylesheet(theme)):
        application.setStyleSheet("")  # four times as quick as going from one sheet to the next
        application.setPalette(palette(theme))
        yield
        application.setStyleSheet(sheet)


def palette(theme: Theme) -> QPalette:
    """Returns the palette that Qt's own drawing, dialogs and rich text use."""
    made = QPalette()
    for role, colour in _roles(theme).items():
        made.setColor(role, colour)
    for role in (_Role.WindowText, _Role.Text, _Role.ButtonText, _Role.HighlightedText):
        made.setColor(_Group.Disabled, role, theme.disabled)
    return made


def _roles(theme: Theme) -> dict[QPalette.ColorRole, QColor]:
    return {
        _Role.Window: theme.window, _Role.WindowText: theme.text,
        _Role.Base: theme.surface, _Role.AlternateBase: theme.raised, _Role.Text: theme.text,
        _Role.PlaceholderText: theme.quiet,
        _Role.Button: theme.surface, _Role.ButtonText: theme.text, _Role.BrightText: theme.bad,
        _Role.Highlight: theme.selection, _Role.HighlightedText: theme.text, _Role.Accent: theme.accent,
        _Role.Link: theme.accent, _Role.LinkVisited: theme.accent,
        _Role.ToolTipBase: theme.surface, _Role.ToolTipText: theme.text,
        _Role.Light: theme.surface, _Role.Midlight: theme.raised, _Role.Mid: theme.border,
        _Role.Dark: theme.strong_border, _Role.Shadow: theme.border,
    }  # fmt: skip


def stylesheet(theme: Theme) -> str:
    """Returns the application's stylesheet, with the tokens filled in."""
    names = {field.name: getattr(theme, field.name) for field in fields(theme) if field.name != "name"}
    colours = {name: colour.name() for name, colour in names.items()}
    sizes = {"control": Corner.CONTROL, "card": Corner.CARD, "tiny": Space.TINY, "small": Space.SMALL,
             "medium": Space.MEDIUM, "large": Space.LARGE}  # fmt: skip
    lengths = {name: f"{length}px" for name, length in sizes.items()}
    return string.Template(resources.read_text("themes", "window.qss")).substitute(colours | lengths)
