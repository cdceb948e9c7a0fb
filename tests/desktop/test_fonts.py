"""Which typefaces the window uses, on systems that have few."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QApplication

import resources
from desktop import fonts

_CACHES = (fonts._installed, fonts._text_font, fonts._code_font)


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    for cached in _CACHES:
        cached.cache_clear()
    yield
    for cached in _CACHES:
        cached.cache_clear()


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Lets a package bring a font, and returns what Qt was told to load."""
    (tmp_path / "fonts").mkdir()
    (tmp_path / "fonts" / "wqy-microhei.ttc").touch()
    (tmp_path / "fonts" / "copyright").touch()
    monkeypatch.setattr(resources, "path", lambda *parts: tmp_path.joinpath(*parts))
    loaded: list[str] = []
    monkeypatch.setattr(QFontDatabase, "addApplicationFont", lambda path: loaded.append(Path(path).name))
    return loaded


def test_the_packages_font_is_loaded_where_the_system_has_none(
    qapp: QApplication, added: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        QFontDatabase, "families", lambda: ["DejaVu Sans", *(["WenQuanYi Micro Hei"] if added else [])]
    )
    assert "WenQuanYi Micro Hei" in fonts.chat().families()
    assert added == ["wqy-microhei.ttc"]


def test_a_system_with_such_a_font_keeps_to_it(
    qapp: QApplication, added: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QFontDatabase, "families", lambda: ["DejaVu Sans", "Noto Sans CJK JP"])
    fonts.chat()
    assert added == []
