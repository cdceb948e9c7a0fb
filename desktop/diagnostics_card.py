"""The diagnostics over the window: logs and facts to search in and to copy. Reads nothing itself."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QKeyEvent, QTextDocument
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from desktop import fonts
from desktop.background import Background
from desktop.controls.buttons import Button, IconButton, SearchField, Words
from desktop.theme import Space, current_theme
from runtime.errors import ErrorInfo
from runtime.text import _, sentences

_MOST = (860, 620)


class DiagnosticsCard(QFrame):
    """Shows what `work` returns, which runs in a thread."""

    def __init__(self, work: Callable[[], str], folder: Callable[[], object], parent: QWidget) -> None:
        """`folder` opens the folder of the logs."""
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("kind", "popup")
        self.setAccessibleName(_("Diagnostics"))
        self._background = Background(self)
        self.text = QPlainTextEdit(_("Looking…"), readOnly=True)
        self.search = SearchField(_("Search"))
        self.copy = Button(_("Copy"), kind="primary", icon="copy")
        self.open_folder = Button(_("Show the logs"), icon="folder")
        self._said = Words(_("Nothing of your chats is in it. Read it before you pass it on."), tone="quiet")
        self._lay_out()
        self.search.returnPressed.connect(self._find)
        self.copy.clicked.connect(self._copy)
        self.open_folder.clicked.connect(lambda: (self.close(), folder()))
        self._background.run(work, self.text.setPlainText, failed=self._fail)

    def _lay_out(self) -> None:
        title = Words(_("Diagnostics"), wrap=False)
        title.setFont(fonts.strong())
        close = IconButton("close", _("Close"))
        close.clicked.connect(self.close)
        self.text.setProperty("kind", "field")
        self.text.setFont(current_theme().code_font)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setAccessibleName(_("Diagnostics"))
        top, foot = QHBoxLayout(), QHBoxLayout()
        top.addWidget(title)
        top.addWidget(self.search, 1)
        top.addWidget(close)
        foot.addWidget(self._said, 1)
        foot.addWidget(self.open_folder)
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
        self.resize(min(_MOST[0], room[0]), min(_MOST[1], room[1]))
        self.move(window.mapToGlobal(window.rect().center()) - QPoint(self.width() // 2, self.height() // 2))
        self.show()
        self.search.setFocus()

    def _find(self) -> None:
        """Goes to the next place, and from the end to the first."""
        if not self.text.find(self.search.text()):
            self.text.moveCursor(self.text.textCursor().MoveOperation.Start)
            self.text.find(self.search.text(), QTextDocument.FindFlag(0))

    def _copy(self) -> None:
        QApplication.clipboard().setText(self.text.toPlainText())
        self._said.setText(_("Copied."))

    def _fail(self, error: ErrorInfo) -> None:
        self.text.setPlainText(sentences(error.title, error.message, error.hint))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)
