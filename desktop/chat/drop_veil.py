"""What lies over the window while a model file is dragged across it. Knows which files may be dropped."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from desktop import fonts, icons
from desktop.chat.plain_text import one_line
from desktop.theme import Corner, Size, Space, current_theme
from runtime.text import _


class DropVeil(QWidget):
    """A frame with a sentence over everything else; the mouse passes through it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._covered = parent
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._name = ""
        self.hide()

    def show_for(self, path: Path) -> None:
        """Covers the parent and names the file."""
        self._name = one_line(path.name, limit=80)
        self.setGeometry(self._covered.rect())
        self.raise_()
        self.show()

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, painter = current_theme(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ground = QColor(theme.window)
        ground.setAlphaF(0.92)
        painter.fillRect(self.rect(), ground)
        painter.setPen(QPen(theme.accent, 2, Qt.PenStyle.DashLine))
        frame = QRectF(self.rect()).adjusted(Space.LARGE, Space.LARGE, -Space.LARGE, -Space.LARGE)
        painter.drawRoundedRect(frame, Corner.CARD, Corner.CARD)
        self._draw_words(painter)

    def _draw_words(self, painter: QPainter) -> None:
        theme, centre = current_theme(), self.rect().center()
        side = 2 * Size.ICON
        picture = icons.pixmap("drop", theme.accent, size=side, ratio=self.devicePixelRatioF())
        painter.drawPixmap(centre.x() - side // 2, centre.y() - side, picture)
        painter.setFont(fonts.strong())
        painter.setPen(theme.text)
        line = self.rect().adjusted(Space.HUGE, self.height() // 2 + Space.SMALL, -Space.HUGE, 0)
        words = _("Drop to load {name}").format(name=self._name)
        shown = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideMiddle, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop, shown)


def dropped_model(data: QMimeData) -> Path | None:
    """Returns the one model file or folder that is dragged; None for anything else."""
    paths = [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
    if len(paths) == 1 and (paths[0].suffix.lower() == ".gguf" or paths[0].is_dir()):
        return paths[0]
    return None
