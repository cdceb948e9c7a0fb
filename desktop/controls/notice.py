"""An error or a remark where it happened: a sentence, its cause, one button that helps, details that fold out.

One is seen at a time. What was not dismissed waits beneath: a model that is loaded, or a second problem, must not take
away that the chats are not being saved.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from desktop import fonts, icons
from desktop.controls.buttons import Button, IconButton, Words, repolish
from desktop.theme import Size, Space, current_theme
from runtime.errors import ErrorInfo
from runtime.text import _, sentences

_MOST_LINES = 8
_DRAWINGS = {"bad": "warning", "caution": "warning", "quiet": "info"}


@dataclass(frozen=True, slots=True)
class _Entry:
    error: ErrorInfo
    action: str
    tone: str
    about: str


class Notice(QFrame):
    """Shows one `ErrorInfo` at a time. `acted` carries the error's code when its button is pressed."""

    acted = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "notice")
        self._entries: list[_Entry] = []  # the last one is seen
        self._tone = "bad"
        self._picture = QLabel()
        self._title, self._cause = Words(), Words(tone="quiet")
        self._title.setFont(fonts.strong())
        for words in (self._title, self._cause):
            words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._button = Button("")
        self._fold = Button(_("Details"), kind="link")
        self._details = QPlainTextEdit(readOnly=True)
        self._lay_out()
        self._connect()
        self.hide()

    def _lay_out(self) -> None:
        self._details.setProperty("kind", "field")
        self._details.setFont(current_theme().code_font)
        self._details.setAccessibleName(_("Details"))
        buttons = QHBoxLayout()
        buttons.addWidget(self._button)
        buttons.addWidget(self._fold)
        buttons.addStretch(1)
        words = QVBoxLayout()
        words.setSpacing(Space.TINY)
        for part in (self._title, self._cause):
            words.addWidget(part)
        words.addSpacing(Space.TINY)
        words.addLayout(buttons)
        words.addWidget(self._details)
        close = IconButton("close", _("Dismiss"))
        close.clicked.connect(lambda: self.dismiss())
        row = QHBoxLayout(self)
        row.setContentsMargins(Space.MEDIUM, Space.MEDIUM, Space.SMALL, Space.MEDIUM)
        row.setSpacing(Space.MEDIUM)
        row.addWidget(self._picture, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(words, 1)
        row.addWidget(close, 0, Qt.AlignmentFlag.AlignTop)

    def _connect(self) -> None:
        self._button.clicked.connect(lambda: self.acted.emit(self.code))
        self._fold.clicked.connect(lambda: self._details.setVisible(self._details.isHidden()))

    def show_error(self, error: ErrorInfo, *, action: str = "", tone: str = "bad", about: str = "") -> None:
        """Shows an error; `action` words the button that helps, where there is one.

        It replaces what was said `about` the same thing. A quiet remark waits until nothing graver is left.
        """
        entry = _Entry(error, action, tone, about)
        self._entries = [old for old in self._entries if old.error != error and not (about and old.about == about)]
        self._entries.insert(0 if tone == "quiet" else len(self._entries), entry)
        self._show_last()

    def _show_last(self) -> None:
        if not self._entries:
            self.hide()
            return
        entry = self._entries[-1]
        self._tone = entry.tone
        self.setProperty("tone", entry.tone)
        self._title.setText(entry.error.title)
        cause = sentences(entry.error.message, entry.error.hint)
        self._cause.setText(cause)
        self._cause.setVisible(bool(cause))
        self._button.setText(entry.action)
        self._button.setVisible(bool(entry.action))
        self._fill_details(entry.error.details)
        self.setAccessibleName(f"{entry.error.title} {cause}")
        self._tint()
        self.show()

    def _fill_details(self, details: str) -> None:
        self._details.setPlainText(details)
        lines = min(max(details.count("\n") + 1, 2), _MOST_LINES)
        self._details.setFixedHeight(lines * self._details.fontMetrics().lineSpacing() + 2 * Space.MEDIUM)
        self._fold.setVisible(bool(details))
        self._details.hide()

    @property
    def code(self) -> str:
        """The code of the error that is shown; empty where none is."""
        return self._entries[-1].error.code if self._entries else ""

    def dismiss(self, *, about: str = "") -> None:
        """Takes the notice away, or all that was said `about` something; what waits beneath is shown then."""
        if about:
            self._entries = [entry for entry in self._entries if entry.about != about]
        else:
            del self._entries[-1:]
        self._show_last()

    def withdraw(self, error: ErrorInfo) -> None:
        """Takes an error away that is said elsewhere."""
        self._entries = [entry for entry in self._entries if entry.error != error]
        self._show_last()

    def take_over(self, older: Notice) -> None:
        """Shows what another notice still has to say."""
        self._entries = [*older._entries]
        self._show_last()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and hasattr(self, "_picture"):
            self._tint()

    def _tint(self) -> None:
        theme = current_theme()
        ratio = icons.screen_ratio()
        colour = getattr(theme, self._tone)
        self._picture.setPixmap(icons.pixmap(_DRAWINGS[self._tone], colour, size=Size.ICON, ratio=ratio))
        repolish(self)
