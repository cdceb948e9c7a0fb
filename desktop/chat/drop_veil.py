"""What lies over the window while files are dragged across it. Knows which ones may be dropped, and reads none."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from desktop import fonts, icons
from desktop.chat.plain_text import one_line
from desktop.chat.text_files import MOST_FILES
from desktop.theme import Corner, Size, Space, current_theme
from runtime.text import _, ngettext


class DropVeil(QWidget):
    """A frame with a sentence over everything else; the mouse passes through it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._covered = parent
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._words = ""
        self.hide()

    def show_for(self, words: str) -> None:
        """Covers the parent and says what dropping does."""
        self._words = words
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
        shown = painter.fontMetrics().elidedText(self._words, Qt.TextElideMode.ElideMiddle, line.width())
        painter.drawText(line, Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop, shown)


def dropped_model(data: QMimeData) -> Path | None:
    """Returns the one model file or folder that is dragged; None for anything else."""
    paths = [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
    if len(paths) == 1 and (paths[0].suffix.lower() == ".gguf" or paths[0].is_dir()):
        return paths[0]
    return None


def dropped_texts(data: QMimeData) -> list[Path]:
    """Returns the files that are dragged and may be texts: any but models; nothing where there are too many."""
    paths = [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]
    return paths if len(paths) <= MOST_FILES and all(path.suffix.lower() != ".gguf" for path in paths) else []


def offer_of(data: QMimeData) -> str:
    """Returns what dropping would do, in words; nothing where it would do nothing."""
    if (model := dropped_model(data)) is not None:
        return _("Drop to load {name}").format(name=one_line(model.name, limit=80))
    texts = dropped_texts(data)
    if len(texts) == 1:
        return _("Drop to add the text of {name}").format(name=one_line(texts[0].name, limit=80))
    return ngettext("Drop to add the text of {n} file", "Drop to add the texts of {n} files", len(texts)).format(
        n=len(texts)
    ) if texts else ""  # fmt: skip
