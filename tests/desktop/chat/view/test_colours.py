"""Every kind of text in the conversation can be read on the ground it stands on, in both themes."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor

from desktop.theme import DARK, LIGHT, Theme


def luminance(colour: QColor) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.getRgbF()[:3]]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: QColor, other: QColor) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


PAIRS = [
    ("text", "window"), ("text", "raised"), ("text", "code_background"), ("text", "selection"), ("quiet", "window"),
    ("quiet", "surface"), ("bad", "surface"), ("text", "surface"), ("accent", "window"), ("accent", "raised"),
    *((name, "code_background") for name in ("quiet", "accent", "good", "bad", "caution")),
]  # fmt: skip


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_stands_out(theme: Theme, text: str, ground: str) -> None:
    assert contrast(getattr(theme, text), getattr(theme, ground)) >= 4.5
