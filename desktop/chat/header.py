"""The line above the conversation: which model, how it stands, and the switches of the panels. Knows no engine."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from desktop import fonts, icons
from desktop.chat.plain_text import one_line
from desktop.controls.buttons import Button, ElidedWords, IconButton
from desktop.human import share, whole_number
from desktop.theme import Size, Space, current_theme
from runtime.text import _


class Standing(enum.Enum):
    """How the model stands."""

    EMPTY = "empty"
    LOADING = "loading"
    READY = "ready"
    READING = "reading"
    WRITING = "writing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What the header says: the model's name and file type, and how far loading or reading is."""

    standing: Standing = Standing.EMPTY
    name: str = ""
    quantization: str = ""
    fraction: float = 0.0
    done: int = 0
    total: int = 0

    @property
    def words(self) -> str:
        """The state in words."""
        match self.standing:
            case Standing.LOADING:
                return _("loading {percent}").format(percent=share(self.fraction))
            case Standing.READING:
                return _("reading {done} of {total} tokens").format(
                    done=whole_number(self.done), total=whole_number(self.total)
                )
            case Standing.READY:
                return _("ready")
            case Standing.WRITING:
                return _("writing")
            case Standing.FAILED:
                return _("not loaded")
        return ""

    @property
    def progress(self) -> float | None:
        """How far it is, from 0 to 1; None where nothing is under way."""
        if self.standing is Standing.LOADING:
            return self.fraction
        if self.standing is Standing.READING and self.total:
            return self.done / self.total
        return None

    @property
    def tone(self) -> str:
        """The colour of the dot before the words."""
        return {Standing.READY: "good", Standing.FAILED: "bad"}.get(self.standing, "accent")


class ModelButton(Button):
    """The model's name, which opens the list of models; a long name is cut, not the window widened."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", parent, kind="model")
        self.setIconSize(QSize(Size.ICON, Size.ICON))
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(120)
        self._name, self._kind = "", ""
        self.show_model("", "")

    def show_model(self, name: str, quantization: str) -> None:
        """Sets what is shown."""
        self._name, self._kind = one_line(name) or _("Choose a model"), one_line(quantization, limit=40)
        self.setAccessibleName(_("Model: {name}").format(name=f"{self._name} {self._kind}".strip()))
        self.setToolTip(f"{self._name} {self._kind}".strip())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        name = QFontMetrics(fonts.strong()).horizontalAdvance(self._name)
        kind = QFontMetrics(current_theme().quiet_font).horizontalAdvance(self._kind)
        return QSize(name + kind + Size.ICON + 5 * Space.SMALL, Size.BUTTON)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        theme, painter = current_theme(), QPainter(self)
        kind = self._kind if self.width() >= self.sizeHint().width() else ""  # the name goes first
        kind_width = QFontMetrics(theme.quiet_font).horizontalAdvance(kind)
        room = self.width() - kind_width - Size.ICON - 4 * Space.SMALL
        painter.setFont(fonts.strong())
        painter.setPen(theme.text)
        shown = painter.fontMetrics().elidedText(self._name, Qt.TextElideMode.ElideMiddle, room)
        area = self.rect().adjusted(Space.MEDIUM, 0, 0, 0)
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, shown)
        area.adjust(painter.fontMetrics().horizontalAdvance(shown) + Space.SMALL, 0, 0, 0)
        painter.setFont(theme.quiet_font)
        painter.setPen(theme.quiet)
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, kind)
        arrow = icons.pixmap("chevron_down", theme.quiet, size=16, ratio=self.devicePixelRatioF())
        painter.drawPixmap(self.width() - 16 - Space.SMALL, (self.height() - 16) // 2, arrow)


class StatusWords(QWidget):
    """A dot and the state in words."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tone = "accent"
        self._words = ElidedWords()
        self._words.setFont(current_theme().quiet_font)
        self._words.setProperty("tone", "quiet")
        self._words.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        row = QHBoxLayout(self)
        row.setContentsMargins(Space.LARGE, 0, 0, 0)
        row.addWidget(self._words)

    def show_status(self, status: ModelStatus) -> None:
        """Shows a state."""
        self._tone = status.tone
        self.setVisible(bool(status.words))
        self._words.set_whole(status.words)
        self._words.updateGeometry()
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(getattr(current_theme(), self._tone))
        painter.drawEllipse(QRectF(2, self.height() / 2 - 4, 8, 8))


class ProgressLine(QWidget):
    """A line along the bottom edge of the header: a plain border, or how far something is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fraction: float | None = None
        self.setFixedHeight(2)

    def show_fraction(self, fraction: float | None) -> None:
        """Fills the line from 0 to 1; None leaves the border alone."""
        if fraction != self._fraction:
            self._fraction = fraction
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme, painter = current_theme(), QPainter(self)
        painter.fillRect(QRectF(0, 1, self.width(), 1), theme.border)
        if self._fraction is not None:
            painter.fillRect(QRectF(0, 0, self.width() * min(max(self._fraction, 0.0), 1.0), 2), theme.accent)


class Header(QWidget):
    """Model, state and switches."""

    picker_requested = Signal()
    load_requested = Signal()
    eject_requested = Signal()
    stop_loading_requested = Signal()
    prompt_toggled = Signal(bool)
    panel_toggled = Signal(bool)
    sidebar_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("header")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._status = ModelStatus()
        self.model_button = ModelButton()
        self.status_words = StatusWords()
        self.sidebar_button = IconButton("sidebar", _("Show the list of chats"))
        self.load_button = IconButton("load", _("Load the model"))
        self.prompt_button = IconButton("prompt", _("System prompt"))
        self.panel_button = IconButton("settings", _("Settings"))
        self.progress = ProgressLine()
        for button in (self.prompt_button, self.panel_button):
            button.setCheckable(True)
        self._lay_out()
        self._connect()
        self.show_status(self._status)

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.setContentsMargins(Space.SMALL, Space.SMALL, Space.SMALL, Space.SMALL - 2)
        row.setSpacing(Space.TINY)
        row.addWidget(self.sidebar_button)
        row.addWidget(self.model_button)
        row.addWidget(self.load_button)
        row.addStretch(1)
        row.addWidget(self.status_words)
        row.addSpacing(Space.SMALL)
        row.addWidget(self.prompt_button)
        row.addWidget(self.panel_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(row)
        column.addWidget(self.progress)

    def _connect(self) -> None:
        self.model_button.clicked.connect(self.picker_requested)
        self.load_button.clicked.connect(self._press_load)
        self.prompt_button.clicked.connect(lambda: self.prompt_toggled.emit(self.prompt_button.isChecked()))
        self.panel_button.clicked.connect(lambda: self.panel_toggled.emit(self.panel_button.isChecked()))
        self.sidebar_button.clicked.connect(self.sidebar_requested)

    @property
    def status(self) -> ModelStatus:
        """What is shown."""
        return self._status

    def follow_page(self, page: str) -> None:
        """Shows what belongs to a page: a notebook has no system prompt."""
        self.prompt_button.setVisible(page != "notebook")

    def show_status(self, status: ModelStatus) -> None:
        """Shows the model and how it stands."""
        self._status = status
        self.model_button.show_model(status.name, status.quantization)
        self.status_words.show_status(status)
        self.progress.show_fraction(status.progress)
        self._word_load()

    def _word_load(self) -> None:
        drawing, label = {
            Standing.EMPTY: ("load", _("Load the model")),
            Standing.FAILED: ("reload", _("Try to load the model again")),
            Standing.LOADING: ("close", _("Cancel loading")),
        }.get(self._status.standing, ("eject", _("Eject the model and free its memory")))
        self.load_button.draw(drawing)
        self.load_button.describe(label)
        self.load_button.setVisible(bool(self._status.name))

    def _press_load(self) -> None:
        if self._status.standing is Standing.LOADING:
            self.stop_loading_requested.emit()
        elif self._status.standing in (Standing.EMPTY, Standing.FAILED):
            self.load_requested.emit()
        else:
            self.eject_requested.emit()
