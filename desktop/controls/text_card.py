"""A text over the window, to read and to copy, such as the diagnostics. Reads nothing itself."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from desktop import fonts
from desktop.background import Background
from desktop.controls.buttons import Button, IconButton, Words
from desktop.theme import Space
from runtime.errors import ErrorInfo
from runtime.text import _, sentences


class TextCard(QFrame):
    """Shows what `work` returns, which runs in a thread. `most` is its size where there is room for it."""

    def __init__(
        self, title: str, note: str, work: Callable[[], str], parent: QWidget, *, most: tuple[int, int],
        search: QWidget | None = None, more: Button | None = None,
    ) -> None:  # fmt: skip
        """`note` stands at the foot, `search` beside the title with the focus first, and `more` beside Copy."""
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("kind", "popup")
        self.setAccessibleName(title)
        self._most = most
        self._background = Background(self)
        self.text = QPlainTextEdit(_("Looking…"), readOnly=True)
        self.copy = Button(_("Copy"), kind="primary", icon="copy")
        self._note, self._said = note, Words(note, tone="quiet")
        self._first = search or self.copy
        self._lay_out(title, search, more)
        self.copy.clicked.connect(self._copy)
        self._background.run(work, self.text.setPlainText, failed=self._fail)

    def _lay_out(self, title: str, search: QWidget | None, more: Button | None) -> None:
        head = Words(title, wrap=False)
        head.setFont(fonts.strong())
        close = IconButton("close", _("Close"))
        close.clicked.connect(self.close)
        self.text.setProperty("kind", "field")
        self.text.setAccessibleName(title)
        top, foot = QHBoxLayout(), QHBoxLayout()
        top.addWidget(head, 0 if search else 1)
        if search is not None:
            top.addWidget(search, 1)
        top.addWidget(close)
        foot.addWidget(self._said, 1)
        if more is not None:
            foot.addWidget(more)
        foot.addWidget(self.copy)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.LARGE, Space.MEDIUM, Space.LARGE, Space.LARGE)
        column.setSpacing(Space.MEDIUM)
        column.addLayout(top)
        column.addWidget(self.text, 1)
        column.addLayout(foot)

    def open_over(self, window: QWidget) -> None:
        """Shows itself in the middle of a window, as large as there is room."""
        room = (window.width() - 2 * Space.WIDE, window.height() - 2 * Space.WIDE)
        self.resize(min(self._most[0], room[0]), min(self._most[1], room[1]))
        self.move(window.mapToGlobal(window.rect().center()) - QPoint(self.width() // 2, self.height() // 2))
        self.show()
        self._first.setFocus()

    def _copy(self) -> None:
        QApplication.clipboard().setText(self.text.toPlainText())
        self._said.setText(sentences(_("Copied."), self._note))

    def _fail(self, error: ErrorInfo) -> None:
        self.text.setPlainText(sentences(error.title, error.message, error.hint))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)
