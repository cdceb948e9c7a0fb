"""Icons for Windows and macOS: what is written is read back by Qt's own readers."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QBuffer, QSize
from PySide6.QtGui import QColor, QImage, QImageReader

import icon_containers


def picture(size: int) -> bytes:
    image = QImage(size, size, QImage.Format.Format_ARGB32)
    image.fill(QColor(size % 256, 80, 0))
    buffer = QBuffer()
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]
    return bytes(buffer.data().data())


def test_every_size_is_in_the_windows_icon(tmp_path: Path) -> None:
    file = tmp_path / "quern.ico"
    file.write_bytes(icon_containers.ico({size: picture(size) for size in icon_containers.ICO_SIZES}))

    reader = QImageReader(str(file))
    seen = {}
    for number in range(reader.imageCount()):
        assert reader.jumpToImage(number)
        image = reader.read()
        seen[image.width()] = image.pixelColor(0, 0).red()

    assert seen == {size: size % 256 for size in icon_containers.ICO_SIZES}


def test_the_macos_icon_holds_what_its_head_promises() -> None:
    pictures = {size: picture(size) for size in icon_containers.ICNS_SIZES}

    data = icon_containers.icns(pictures)

    assert data[:4] == b"icns"
    assert int.from_bytes(data[4:8], "big") == len(data)
    entries, at = {}, 8
    while at < len(data):
        length = int.from_bytes(data[at + 4 : at + 8], "big")
        entries[data[at : at + 4]] = data[at + 8 : at + length]
        at += length
    assert entries == {name: pictures[size] for name, size in icon_containers.ICNS_TYPES}


@pytest.mark.parametrize("size", [16, 256, 1024])
def test_pictures_of_the_macos_icon_have_the_size_of_their_type(size: int) -> None:
    data = icon_containers.icns({size: picture(size)})

    image = QImage.fromData(data[16 : 16 + int.from_bytes(data[12:16], "big") - 8])

    assert image.size() == QSize(size, size)
