"""Every colour, space and corner of the window, light and dark, in one place. `look.py` brings them to Qt."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QGuiApplication

from desktop import fonts


class Space:
    """Distances in device-independent pixels; nothing uses another one."""

    TINY = 4
    SMALL = 8
    MEDIUM = 12
    LARGE = 16
    WIDE = 24
    HUGE = 32


class Corner:
    """Radii in device-independent pixels."""

    CONTROL = 8
    CARD = 12


class Size:
    """Lengths in device-independent pixels that more than one widget agrees on."""

    ICON = 20
    BUTTON = 32
    COLUMN = 760
    SIDEBAR = (240, 264, 320)  # least, first, most
    PANEL = (300, 328, 360)


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of one appearance. Text colours reach 4.5:1 on every background they are used on, disabled 3:1."""

    name: str
    window: QColor
    surface: QColor
    raised: QColor
    pressed: QColor
    border: QColor
    strong_border: QColor
    text: QColor
    quiet: QColor
    disabled: QColor
    accent: QColor
    accent_hover: QColor
    on_accent: QColor
    selection: QColor
    found: QColor
    found_now: QColor
    code_background: QColor
    good: QColor
    caution: QColor
    bad: QColor

    @property
    def dark(self) -> bool:
        """True for light text on a dark ground."""
        return self.name == "dark"

    @property
    def body_font(self) -> QFont:
        """Controls and lists, 13 px."""
        return fonts.body()

    @property
    def chat_font(self) -> QFont:
        """The conversation and the composer, 15 px."""
        return fonts.chat()

    @property
    def code_font(self) -> QFont:
        """Code, 13 px monospace."""
        return fonts.code()

    @property
    def quiet_font(self) -> QFont:
        """Help lines and numbers, 12 px."""
        return fonts.quiet()

    @property
    def title_font(self) -> QFont:
        """Headings of whole views, 20 px."""
        return fonts.title()


def _theme(name: str, **colours: str) -> Theme:
    return Theme(name=name, **{key: QColor(value) for key, value in colours.items()})


LIGHT = _theme(
    "light",
    window="#FAF8F5", surface="#FFFFFF", raised="#F2EEE8", pressed="#E8E2D9",
    border="#E3DED6", strong_border="#8F877B",
    text="#1F1E1B", quiet="#66615A", disabled="#8A847B",
    accent="#8F5208", accent_hover="#7A4506", on_accent="#FFFFFF", selection="#F0DCBE",
    found="#FBEBB4", found_now="#F9DF95",
    code_background="#F3F0EA", good="#2F6B3A", caution="#8A5A00", bad="#A3281E",
)  # fmt: skip
DARK = _theme(
    "dark",
    window="#1B1A18", surface="#242320", raised="#2E2C29", pressed="#38352F",
    border="#3A3733", strong_border="#7D766C",
    text="#ECE8E1", quiet="#A8A297", disabled="#817B72",
    accent="#E3AC5E", accent_hover="#EDBE7C", on_accent="#1F1A12", selection="#57452B",
    found="#3A3218", found_now="#46360C",
    code_background="#201F1C", good="#7CC08A", caution="#E0B45A", bad="#EF8A7E",
)  # fmt: skip


class ThemeSource(QObject):
    """Says which theme is current, following the setting and, for "system", the desktop's own light or dark."""

    changed = Signal(object)  # Theme

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._wanted = "system"
        self._theme = LIGHT
        hints = QGuiApplication.styleHints()
        self._theme = self._resolved()
        hints.colorSchemeChanged.connect(self._follow)

    @property
    def theme(self) -> Theme:
        """The theme in use."""
        return self._theme

    def choose(self, wanted: str) -> None:
        """Takes "system", "light" or "dark" and tells everybody when the theme differs from before."""
        self._wanted = wanted
        self._follow()

    def _follow(self) -> None:
        theme = self._resolved()
        if theme is not self._theme:
            self._theme = theme
            self.changed.emit(theme)

    def _resolved(self) -> Theme:
        if self._wanted in ("light", "dark"):
            return DARK if self._wanted == "dark" else LIGHT
        return DARK if QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT


def current_theme() -> Theme:
    """Returns the application's theme; the light one where no `ThemeSource` lives under the application yet."""
    application = QGuiApplication.instance()
    source = application.findChild(ThemeSource) if application is not None else None
    return source.theme if source is not None else LIGHT
