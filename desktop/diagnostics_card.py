"""The diagnostics over the window: logs and facts to search in and to copy. Reads nothing itself."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from desktop.controls.buttons import Button, SearchField
from desktop.controls.text_card import TextCard
from desktop.theme import current_theme
from runtime.text import _

_MOST = (860, 620)


class DiagnosticsCard(TextCard):
    """Shows what `work` returns, which runs in a thread."""

    def __init__(self, work: Callable[[], str], folder: Callable[[], object], parent: QWidget) -> None:
        """`folder` opens the folder of the logs."""
        self.search = SearchField(_("Search"))
        self.open_folder = Button(_("Show the logs"), icon="folder")
        note = _("Nothing of your chats is in it. Read it before you pass it on.")
        super().__init__(
            _("Diagnostics"), note, work, parent, most=_MOST, search=self.search, more=self.open_folder
        )  # fmt: skip
        self.text.setFont(current_theme().code_font)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.search.returnPressed.connect(self._find)
        self.open_folder.clicked.connect(lambda: (self.close(), folder()))

    def _find(self) -> None:
        """Goes to the next place, and from the end to the first."""
        if not self.text.find(self.search.text()):
            self.text.moveCursor(self.text.textCursor().MoveOperation.Start)
            self.text.find(self.search.text(), QTextDocument.FindFlag(0))
