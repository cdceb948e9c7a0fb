"""Where the packages' font comes from, and that it is the one that was tried."""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import font
from console import Console, SetUpError

FONT = b"glyphs"


class Apt(Console):
    """Stands for apt-get and dpkg-deb: unpacking brings a font with this content."""

    def __init__(self, log: Path, content: bytes) -> None:
        super().__init__(log, io.StringIO())
        self._content = content
        self.ran: list[str] = []

    def run(self, command: Sequence[str], *, failure: str, cwd: Path | None = None, **_more: object) -> None:
        self.ran.append(command[0])
        if command[0] == "apt-get":
            assert cwd is not None
            (cwd / "fonts.deb").touch()
            return
        for place, content in ((font._PLACE, self._content), (font._NOTICE, b"Apache-2.0")):
            file = Path(command[3], place)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


@pytest.fixture(autouse=True)
def _known_font(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(font, "SHA256", hashlib.sha256(FONT).hexdigest())
    monkeypatch.setattr(sys, "platform", "linux")


def test_the_font_is_fetched_once_and_comes_with_its_notice(tmp_path: Path) -> None:
    apt = Apt(tmp_path / "log", FONT)
    for target in ("one", "two"):
        file = font.provide(tmp_path / target, cache=tmp_path, console=apt)
        assert file is not None
        assert file.read_bytes() == FONT
        assert (tmp_path / target / "copyright").read_bytes() == b"Apache-2.0"
    assert apt.ran == ["apt-get", "dpkg-deb"]


def test_another_font_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(SetUpError, match="another"):
        font.provide(tmp_path / "fonts", cache=tmp_path, console=Apt(tmp_path / "log", b"other glyphs"))
    assert not (tmp_path / "fonts").exists()


def test_other_systems_bring_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert font.provide(tmp_path / "fonts", cache=tmp_path, console=Apt(tmp_path / "log", FONT)) is None
