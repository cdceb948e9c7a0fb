"""What an empty conversation shows: the model that is ready, questions to begin with, and other ways in."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from desktop import icons
from desktop.chat.header import ModelStatus, Standing
from desktop.chat.plain_text import one_line
from desktop.controls.buttons import Button, Words
from desktop.theme import Space, current_theme
from runtime.text import N_, _

# Tried with a model of 135 million parameters, which answers these well.
EXAMPLES = (
    N_("What is the capital city of France? Answer in one sentence."),
    N_("Write a short poem about the sea."),
    N_("Explain in simple words why the sky is blue."),
)
_WIDTH, _PICTURE = 520, 56


class ExampleButton(Button):
    """A question that is sent when it is pressed; it wraps where the window is narrow."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__("", parent, kind="example")
        self.prompt = text
        self.setAccessibleName(text)
        words = Words(text)
        words.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(Space.LARGE, Space.MEDIUM, Space.LARGE, Space.MEDIUM)
        self._row.addWidget(words)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)

    def sizeHint(self) -> QSize:
        return self._row.sizeHint()

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._row.heightForWidth(width)


class EmptyState(QScrollArea):
    """Teaches instead of being blank."""

    prompt_chosen = Signal(str)
    library_requested = Signal()
    file_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._picture = QLabel(alignment=Qt.AlignmentFlag.AlignCenter)
        self._title, self._subtitle = Words(), Words(tone="quiet")
        self._title.setFont(current_theme().title_font)
        for words in (self._title, self._subtitle):
            words.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.examples = [ExampleButton(_(text)) for text in EXAMPLES]
        self._library = Button(_("Choose a model"), kind="link")
        self._file = Button(_("Open a file"), kind="link")
        self._lay_out()
        self._connect()
        self._tint()
        self.show_status(ModelStatus())

    def _lay_out(self) -> None:
        inner = QWidget()
        inner.setMaximumWidth(_WIDTH)
        column = QVBoxLayout(inner)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(Space.SMALL)
        column.addWidget(self._picture)
        column.addSpacing(Space.SMALL)
        column.addWidget(self._title)
        column.addWidget(self._subtitle)
        column.addSpacing(Space.LARGE)
        for example in self.examples:
            column.addWidget(example)
        column.addSpacing(Space.LARGE)
        column.addLayout(self._ways_in())
        page = QWidget()
        page.setObjectName("emptyPage")
        self.setWidget(page)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        outer = QVBoxLayout(page)
        outer.setContentsMargins(Space.WIDE, Space.WIDE, Space.WIDE, Space.WIDE)
        outer.addStretch(2)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(inner, 100)
        row.addStretch(1)
        outer.addLayout(row)
        outer.addStretch(3)

    def _ways_in(self) -> QHBoxLayout:
        drop = Words(_("Drop a .gguf file anywhere in this window."), tone="quiet", wrap=False)
        row = QHBoxLayout()
        row.setSpacing(Space.TINY)
        row.addStretch(1)
        row.addWidget(self._library)
        row.addWidget(self._file)
        row.addStretch(1)
        column = QVBoxLayout()
        column.addWidget(drop, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addLayout(row)
        outer = QHBoxLayout()
        outer.addLayout(column)
        return outer

    def _connect(self) -> None:
        for example in self.examples:
            example.clicked.connect(lambda _checked=False, text=example.prompt: self.prompt_chosen.emit(text))
        self._library.clicked.connect(self.library_requested)
        self._file.clicked.connect(self.file_requested)

    def show_status(self, status: ModelStatus) -> None:
        """Words the heading for the model's state."""
        name = one_line(status.name)
        loaded = status.standing in (Standing.READY, Standing.READING, Standing.WRITING)
        if loaded:
            self._title.setText(_("{name} is ready").format(name=name))
            self._subtitle.setText(_("It runs on this computer; nothing you write leaves it."))
        elif status.standing is Standing.LOADING:
            self._title.setText(_("Loading {name}").format(name=name))
            self._subtitle.setText(_("You can write already; the answer comes when the model is loaded."))
        elif status.standing is Standing.FAILED:
            self._title.setText(_("{name} is not loaded").format(name=name) if name else _("No model yet"))
            self._subtitle.setText(_("Choose one that is on this computer."))
        elif name:
            self._title.setText(_("{name} is not loaded").format(name=name))
            self._subtitle.setText(_("It is loaded when you send the first message."))
        else:
            self._title.setText(_("No model yet"))
            self._subtitle.setText(_("Choose one that is on this computer."))
        for example in self.examples:
            example.setVisible(bool(name))

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and hasattr(self, "_picture"):
            self._tint()

    def _tint(self) -> None:
        ratio = icons.screen_ratio()
        picture = icons.pixmap("quern", current_theme().accent, size=_PICTURE, ratio=ratio)
        self._picture.setPixmap(picture)
