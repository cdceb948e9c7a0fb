"""Draws the program's own icon as Windows and macOS want it: `icon_files.py TARGET` writes quern.ico and quern.icns.

A script for the build's own environment, which has Qt.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QBuffer
from PySide6.QtSvg import QSvgRenderer

from draw_icons import LINUX, draw
from icon_containers import ICNS_SIZES, ICO_SIZES, icns, ico


def main(target: Path) -> None:
    """Writes both files into the folder `target`."""
    target.mkdir(parents=True, exist_ok=True)
    drawing = LINUX / "quern.svg"
    (target / "quern.ico").write_bytes(ico(pictures(drawing, ICO_SIZES)))
    (target / "quern.icns").write_bytes(icns(pictures(drawing, ICNS_SIZES)))


def pictures(drawing: Path, sides: Sequence[int]) -> dict[int, bytes]:
    """Returns the drawing as PNGs by their edge in pixels."""
    renderer = QSvgRenderer(str(drawing))
    return {side: _png(renderer, side) for side in sides}


def _png(renderer: QSvgRenderer, side: int) -> bytes:
    buffer = QBuffer()
    buffer.open(QBuffer.OpenModeFlag.WriteOnly)
    draw(renderer, side).save(buffer, "PNG")  # type: ignore[call-overload]
    return bytes(buffer.data().data())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
