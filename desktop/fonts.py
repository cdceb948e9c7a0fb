"""The typefaces of the window: the system's own, with Chinese, Japanese and Korean behind it. Knows no widget.

Sizes are device-independent pixels. They grow with the system's font where that is set larger than usual.
"""

from __future__ import annotations

from functools import cache

from PySide6.QtCore import QLocale
from PySide6.QtGui import QFont, QFontDatabase, QFontInfo, QGuiApplication

import resources
from runtime.text import language

_BODY, _CHAT, _CODE, _QUIET, _TITLE = 13, 15, 13, 12, 20
_USUAL_PIXELS = 15.0  # desktops set their font to 12-15 px; only a larger one is a wish for larger text
# A bare X server names no font and fontconfig answers with DejaVu, which is wide; these are better where installed.
_RATHER = ("Inter", "Cantarell", "Noto Sans", "Ubuntu", "Open Sans", "Source Sans 3")
_NO_CHOICE = frozenset({"sans serif", "sans", "sans-serif", "dejavu sans", ""})
_CJK = (
    "PingFang {}", "Microsoft YaHei UI", "Noto Sans CJK {}", "Source Han Sans {}", "Noto Sans {}",
    "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback",
)  # fmt: skip
_REGIONS = {"ja": "JP", "ko": "KR"}  # every other reader is shown the simplified forms


def body() -> QFont:
    """Returns the font of controls."""
    return QFont(_text_font(_BODY, language()))


def strong() -> QFont:
    """Returns the font of controls in medium weight, for headings of sections."""
    font = body()
    font.setWeight(QFont.Weight.DemiBold)
    return font


def chat() -> QFont:
    """Returns the font of the conversation."""
    return QFont(_text_font(_CHAT, language()))


def quiet() -> QFont:
    """Returns the font of help lines."""
    return QFont(_text_font(_QUIET, language()))


def title() -> QFont:
    """Returns the font of headings."""
    font = QFont(_text_font(_TITLE, language()))
    font.setWeight(QFont.Weight.DemiBold)
    return font


def code() -> QFont:
    """Returns the font of code."""
    return QFont(_code_font())


@cache
def _text_font(pixels: int, reader: str) -> QFont:
    system = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    installed = _installed()
    font = QFont(system)
    first, behind = _first_family(system, installed), _cjk_families(installed)
    font.setFamilies([first, *(family for family in behind if family != first)])
    font.setPixelSize(round(pixels * _scale(system)))
    if first in behind and not reader.startswith("zh"):
        font.setFeature(QFont.Tag("pwid"), 1)  # such a font draws “ ” as wide as a Chinese character otherwise
    return font


@cache
def _code_font() -> QFont:
    fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    installed = _installed()
    font = QFont(fixed)
    font.setFamilies([QFontInfo(fixed).family(), *_cjk_families(installed)])
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPixelSize(round(_CODE * _scale(QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont))))
    return font


@cache
def _installed() -> frozenset[str]:
    """Returns the families of the system, with the one that packages bring where the system has no such font."""
    families = frozenset(QFontDatabase.families())
    if families & _cjk_names():
        return families
    for file in sorted(resources.path("fonts").glob("*.tt[cf]")):
        QFontDatabase.addApplicationFont(str(file))
    return frozenset(QFontDatabase.families())


def _cjk_names() -> set[str]:
    return {name.format(region) for name in _CJK for region in ("SC", "TC", "HK", "JP", "KR")}


def _first_family(system: QFont, installed: frozenset[str]) -> str:
    if system.family().lower() not in _NO_CHOICE:
        return system.family()
    rather = (*_RATHER, *_cjk_families(installed))  # the Latin letters of Noto Sans CJK are Source Sans
    return next((family for family in rather if family in installed), system.family())


def _cjk_families(installed: frozenset[str]) -> list[str]:
    region = _REGIONS.get(QLocale.system().name().split("_")[0], "SC")
    wanted = (family.format(region) for family in _CJK)
    return [family for family in wanted if family in installed]


def _scale(system: QFont) -> float:
    pixels = QFontInfo(system).pixelSize() if QGuiApplication.instance() else _BODY
    return max(1.0, pixels / _USUAL_PIXELS)
