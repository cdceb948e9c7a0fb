"""The program's own icon, drawn from its SVG for Windows and macOS."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtGui import QImage, QImageReader

import icon_files


def test_both_files_hold_the_drawing(tmp_path: Path, qapp: object) -> None:
    icon_files.main(tmp_path)

    reader = QImageReader(str(tmp_path / "quern.ico"))
    image: QImage = reader.read()
    dots = [image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height())]
    assert len({dot.name() for dot in dots}) > 2
    assert (tmp_path / "quern.icns").read_bytes()[:4] == b"icns"
