"""Draws the icons of the application and of its file type in every size of the hicolor theme, from their SVG files.

A script for the build's own environment: `draw_icons.py TARGET` fills TARGET/48x48/apps/quern.png and the like.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

LINUX = Path(__file__).parent / "linux"
ICONS = {"quern": "apps", "application-x-gguf": "mimetypes"}
SIDES = (16, 22, 24, 32, 48, 64, 96, 128, 256, 512)


def main(target: Path) -> None:
    """Draws every icon below `target`, and copies the drawings themselves."""
    for name, kind in ICONS.items():
        drawing = LINUX / f"{name}.svg"
        renderer = QSvgRenderer(str(drawing))
        for side in SIDES:
            file = target / f"{side}x{side}" / kind / f"{name}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            if not draw(renderer, side).save(str(file)):
                raise OSError(f"{file} could not be written")
        scalable = target / "scalable" / kind
        scalable.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(drawing, scalable / drawing.name)


def draw(renderer: QSvgRenderer, side: int) -> QImage:
    """Returns the drawing as a square picture of `side` pixels, transparent around it."""
    image = QImage(side, side, QImage.Format.Format_ARGB32)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    renderer.render(painter, QRectF(0, 0, side, side))
    painter.end()
    return image


if __name__ == "__main__":
    main(Path(sys.argv[1]))
