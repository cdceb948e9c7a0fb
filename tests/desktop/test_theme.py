"""The tokens: every text can be read on everything it stands on, and nothing else names a colour."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import desktop
import resources
from desktop import icons
from desktop.look import dress, palette, stylesheet
from desktop.theme import DARK, LIGHT, Theme, ThemeSource, current_theme

THEMES = (LIGHT, DARK)
GROUNDS = ("window", "surface", "raised", "code_background")
PAIRS = [
    *((text, ground) for text in ("text", "quiet", "accent", "good", "caution", "bad") for ground in GROUNDS),
    *(("text", ground) for ground in ("pressed", "selection", "found", "found_now")),
    *((text, ground) for text in ("quiet", "accent") for ground in ("found", "found_now")),
    ("on_accent", "accent"),
    ("on_accent", "accent_hover"),
]


def luminance(colour: QColor) -> float:
    """Relative luminance as WCAG 2.1 defines it."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.getRgbF()[:3]]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: QColor, other: QColor) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_of_black_on_white_is_the_known_value() -> None:
    assert contrast(QColor("#000000"), QColor("#ffffff")) == pytest.approx(21)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_can_be_read(theme: Theme, text: str, ground: str) -> None:
    assert contrast(getattr(theme, text), getattr(theme, ground)) >= 4.5


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
@pytest.mark.parametrize("ground", ["window", "surface", "raised"])
def test_disabled_text_and_control_outlines_can_be_seen(theme: Theme, ground: str) -> None:
    assert contrast(theme.disabled, getattr(theme, ground)) >= 3
    assert contrast(theme.strong_border, getattr(theme, ground)) >= 3


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_palette_text_can_be_read_on_its_ground(qapp: QApplication, theme: Theme) -> None:
    made = palette(theme)
    role = QPalette.ColorRole
    pairs = [
        (role.WindowText, role.Window), (role.Text, role.Base), (role.ButtonText, role.Button),
        (role.PlaceholderText, role.Base), (role.HighlightedText, role.Highlight), (role.ToolTipText, role.ToolTipBase),
        (role.Link, role.Base), (role.Text, role.AlternateBase),
    ]  # fmt: skip
    for text, ground in pairs:
        assert contrast(made.color(text), made.color(ground)) >= 4.5, (text, ground)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_stylesheet_uses_only_colours_of_the_theme(theme: Theme) -> None:
    tokens = {getattr(theme, field.name).name() for field in fields(theme) if field.name != "name"}
    used = set(re.findall(r"#[0-9a-f]{6}\b", stylesheet(theme)))
    assert used
    assert used <= tokens
    assert "$" not in stylesheet(theme)


def test_no_other_file_names_a_colour() -> None:
    root = Path(desktop.__file__).parent
    named = re.compile(r"""["']#[0-9a-fA-F]{3,8}["']|QColor\(\s*\d""")
    guilty = [path for path in root.rglob("*.py") if path.name != "theme.py" and named.search(path.read_text("utf-8"))]
    assert guilty == []


@pytest.mark.parametrize("path", sorted(resources.path("icons").glob("*.svg")), ids=lambda path: path.stem)
def test_icons_take_the_colour_they_are_given(qapp: QApplication, path: Path) -> None:
    drawn = icons.pixmap(path.stem, LIGHT.bad, size=20, ratio=1.5).toImage()
    assert (drawn.width(), drawn.devicePixelRatio()) == (30, 1.5)
    solid = [colour for x in range(30) for y in range(30) if (colour := drawn.pixelColor(x, y)).alpha() == 255]
    assert solid
    wanted = LIGHT.bad.getRgb()
    assert all(abs(colour.getRgb()[part] - wanted[part]) <= 2 for colour in solid for part in range(3))


def test_theme_setting_is_followed_and_announced(qapp: QApplication, qtbot: QtBot) -> None:
    source = ThemeSource(qapp)
    try:
        source.choose("light")
        with qtbot.waitSignal(source.changed) as change:
            source.choose("dark")
        assert change.args == [DARK]
        assert current_theme() is DARK
    finally:
        source.setParent(None)


def test_system_theme_is_followed_while_running(qapp: QApplication) -> None:
    source = ThemeSource(qapp)
    try:
        dark = QGuiApplication.styleHints().colorScheme().name == "Dark"
        assert source.theme is (DARK if dark else LIGHT)
    finally:
        source.setParent(None)


def test_fonts_keep_their_size_under_the_stylesheet(qapp: QApplication, qtbot: QtBot) -> None:
    from desktop.controls.buttons import Words

    dress(qapp, LIGHT)
    words = Words("A title")
    words.setFont(LIGHT.title_font)
    qtbot.addWidget(words)
    words.show()
    words.set_tone("bad")
    dress(qapp, DARK)
    assert words.font().pixelSize() == LIGHT.title_font.pixelSize() > LIGHT.body_font.pixelSize()
    dress(qapp, LIGHT)
