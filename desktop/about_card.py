"""What Quern is, over the window: version, build, engines and licences, to read and to copy. Reads nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QFrame, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from desktop import fonts
from desktop.background import Background
from desktop.controls.buttons import Button, IconButton, Words
from desktop.theme import Space
from runtime.errors import ErrorInfo
from runtime.text import _, sentences

_MOST = (560, 520)


class AboutCard(QFrame):
    """Shows what `work` returns, which runs in a thread."""

    def __init__(self, work: Callable[[], str], licences: Path | None, show_file: Callable[[Path], object],
                 parent: QWidget) -> None:  # fmt: skip
        """`licences` is the file of all licence texts, which `show_file` opens the folder of."""
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("kind", "popup")
        self.setAccessibleName(_("About Quern"))
        self._background = Background(self)
        self.text = QPlainTextEdit(_("Looking…"), readOnly=True)
        self.copy = Button(_("Copy"), kind="primary", icon="copy")
        self.show_licences = Button(_("Show the licence texts"), icon="folder")
        self.show_licences.setVisible(licences is not None)
        self._said = Words(_("Nothing goes to the network unless you ask for it."), tone="quiet")
        self._lay_out()
        self.copy.clicked.connect(self._copy)
        if licences is not None:
            self.show_licences.clicked.connect(lambda: (self.close(), show_file(licences)))
        self._background.run(work, self.text.setPlainText, failed=self._fail)

    def _lay_out(self) -> None:
        title = Words(_("About Quern"), wrap=False)
        title.setFont(fonts.strong())
        close = IconButton("close", _("Close"))
        close.clicked.connect(self.close)
        self.text.setProperty("kind", "field")
        self.text.setAccessibleName(_("About Quern"))
        top, foot = QHBoxLayout(), QHBoxLayout()
        top.addWidget(title, 1)
        top.addWidget(close)
        foot.addWidget(self._said, 1)
        foot.addWidget(self.show_licences)
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
        self.copy.setFocus()

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
