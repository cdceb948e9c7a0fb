"""The backups of the chats over the window: when, how much is in each, the way back to one. Reads no file itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QDateTime, QLocale, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget
from shiboken6 import isValid

from desktop import fonts
from desktop.controls.ask_bar import AskBar
from desktop.controls.buttons import Button, IconButton, Words
from desktop.human import data_size
from desktop.store.backups import Backup, BackupKind
from desktop.store.chat_store import ChatStore
from desktop.theme import Space, current_theme
from runtime.errors import ErrorInfo
from runtime.text import N_, _, language, ngettext, sentences

_MOST, _LEAST = (640, 520), 200
_WHY = {
    BackupKind.FORMAT: N_("before an update changed the format"),
    BackupKind.RESTORE: N_("before another backup was restored"),
    BackupKind.ASKED: N_("made by you"),
}


class BackupRow(QFrame):
    """One backup in words, and the button that leads back to it."""

    chosen = Signal()

    def __init__(self, backup: Backup, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.backup = backup
        when, size = Words(moment(backup.made), wrap=False), data_size(backup.size_bytes)
        when.setFont(fonts.strong())
        what = Words("  ·  ".join((_(_WHY[backup.kind]), amount(backup), size)), tone="quiet")
        what.setFont(current_theme().quiet_font)
        self.button = Button(_("Restore…"))
        self.button.setAccessibleName(_("Restore the backup of {time}").format(time=moment(backup.made)))
        self.button.setEnabled(backup.chats is not None)
        self.button.clicked.connect(self.chosen)
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(when)
        words.addWidget(what)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, Space.SMALL, Space.SMALL, Space.SMALL)
        row.addLayout(words, 1)
        row.addWidget(self.button)


class BackupsCard(QFrame):
    """Lists the backups. `restore_requested` asks to end what is being written and to put one back."""

    restore_requested = Signal(object)  # Path

    def __init__(self, store: ChatStore, folder: Callable[[], object], parent: QWidget) -> None:
        """`folder` opens the folder that the backups are in."""
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("kind", "popup")
        self.setAccessibleName(_("Backups"))
        self._store, self._over = store, parent
        self.rows: list[BackupRow] = []
        self.make = Button(_("Back up now"), kind="primary")
        self.open_folder = Button(_("Show the files"), icon="folder")
        self.ask = AskBar()
        self.said = Words(_("Looking…"), tone="quiet")
        self._lay_out()
        self.make.clicked.connect(self._make)
        self.open_folder.clicked.connect(lambda: (self.close(), folder()))
        self.refresh()

    def _lay_out(self) -> None:
        title = Words(_("Backups of your chats and notebooks"), wrap=False)
        title.setFont(fonts.strong())
        close = IconButton("close", _("Close"))
        close.clicked.connect(self.close)
        top, foot = QHBoxLayout(), QHBoxLayout()
        top.addWidget(title, 1)
        top.addWidget(close)
        foot.addStretch(1)
        foot.addWidget(self.open_folder)
        foot.addWidget(self.make)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.LARGE, Space.MEDIUM, Space.LARGE, Space.LARGE)
        column.setSpacing(Space.MEDIUM)
        column.addLayout(top)
        column.addWidget(self.said)
        column.addWidget(self.ask)
        column.addWidget(self._scroller(), 1)
        column.addLayout(foot)

    def _scroller(self) -> QScrollArea:
        body = QWidget()
        body.setObjectName("cardBody")
        self._column = QVBoxLayout(body)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addStretch(1)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(body)
        return area

    def open_over(self, window: QWidget) -> None:
        """Shows itself in the middle of a window, as large as there is room."""
        self._over = window
        self._take_room()
        self.show()
        self.make.setFocus()

    def _take_room(self) -> None:
        """Takes the room that its rows need, in the middle of the window."""
        needed = self.sizeHint().height() + sum(row.sizeHint().height() for row in self.rows)
        width = min(_MOST[0], self._over.width() - 2 * Space.WIDE)
        self.resize(width, min(max(needed, _LEAST), _MOST[1], self._over.height() - 2 * Space.WIDE))
        centre = self._over.mapToGlobal(self._over.rect().center())
        self.move(centre - QPoint(self.width() // 2, self.height() // 2))

    def refresh(self) -> None:
        """Reads the list anew."""
        self._store.list_backups(lambda found: self._show(found) if isValid(self) else None)

    def _show(self, found: list[Backup]) -> None:
        for row in self.rows:
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self.rows = [BackupRow(backup) for backup in found]
        for place, row in enumerate(self.rows):
            row.chosen.connect(lambda backup=row.backup: self._ask(backup))
            self._column.insertWidget(place, row)
        self._take_room()
        self.said.set_tone("quiet")
        self.said.setText(
            _("Quern makes one before each change of the format. Restoring replaces all chats and notebooks.")
            if found else _("There are none yet. Quern makes one before each change of the format.")
        )  # fmt: skip

    def _ask(self, backup: Backup) -> None:
        words = _("Replace all chats and notebooks by those of {time} ({amount})? A backup of the present ones is "
                  "made first.").format(time=moment(backup.made), amount=amount(backup))  # fmt: skip
        self.ask.ask(words, _("Restore"), lambda _text: self._restore(backup.path))

    def _restore(self, path: Path) -> None:
        self.close()
        self.restore_requested.emit(path)

    def _make(self) -> None:
        self.make.setEnabled(False)
        self._store.back_up(lambda _path, error: self._made(error) if isValid(self) else None)

    def _made(self, error: ErrorInfo | None) -> None:
        self.make.setEnabled(True)
        if error is None:
            self.refresh()
        else:
            self.said.set_tone("bad")
            self.said.setText(sentences(error.title, error.message, error.hint))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)


def moment(seconds: float) -> str:
    """Returns a time as it is written in the window's language."""
    return QLocale(language()).toString(QDateTime.fromSecsSinceEpoch(int(seconds)), QLocale.FormatType.ShortFormat)


def amount(backup: Backup) -> str:
    """Returns how much is in a backup, in words."""
    if backup.chats is None:
        return _("cannot be read")
    chats = ngettext("{n} chat", "{n} chats", backup.chats).format(n=backup.chats)
    if not backup.notebooks:
        return chats
    books = ngettext("{n} notebook", "{n} notebooks", backup.notebooks).format(n=backup.notebooks)
    return f"{chats}, {books}"
