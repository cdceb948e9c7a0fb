"""How an answer was made, over the window: its receipt, to copy, and to make the answer again and compare."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QCloseEvent, QKeyEvent
from PySide6.QtWidgets import QApplication, QFrame, QGridLayout, QHBoxLayout, QVBoxLayout, QWidget
from shiboken6 import isValid

from desktop import fonts
from desktop.chat.answer_facts import as_text, comparison, rows_of
from desktop.chat.plain_text import one_line
from desktop.controls.buttons import Button, ElidedWords, IconButton, Words
from desktop.engine_client import EngineClient
from desktop.human import whole_number
from desktop.store.chat_store import ChatStore
from desktop.store.records import MessageRecord
from desktop.theme import Space, current_theme
from runtime.errors import ErrorInfo
from runtime.protocol import PromptProgress, Replayed
from runtime.receipt import Receipt, ReplayRefused
from runtime.text import _, sentences

_WIDTH = 520


class AnswerCard(QFrame):
    """Shows one answer at a time, the last one first."""

    def __init__(
        self, answers: Sequence[MessageRecord], store: ChatStore, client: EngineClient, parent: QWidget
    ) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("kind", "popup")
        self.setAccessibleName(_("How the answers were made"))
        self._answers, self._store, self._client = answers, store, client
        self._at = len(answers) - 1
        self._receipt: Receipt | None = None
        self._replay, self._anyway = 0, False
        self._title, self._line = Words("", wrap=False), ElidedWords()
        self._title.setFont(fonts.strong())
        self._line.setProperty("tone", "quiet")
        self.before, self.after = IconButton("chevron_left", _("Answer before")), IconButton("chevron_right", _("Next"))
        self.copy, self.again = Button(_("Copy"), icon="copy"), Button("", icon="reload")
        self.result = Words()
        self._grid = QGridLayout()
        self._lay_out()
        self._connect()
        self._show()

    def _lay_out(self) -> None:
        self.setFixedWidth(_WIDTH)
        self._grid.setHorizontalSpacing(Space.LARGE)
        self._grid.setVerticalSpacing(Space.TINY)
        self._grid.setColumnStretch(1, 1)
        top, foot = QHBoxLayout(), QHBoxLayout()
        top.addWidget(self._title, 1)
        top.addWidget(self.before)
        top.addWidget(self.after)
        foot.addWidget(self.copy)
        foot.addWidget(self.again)
        foot.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.WIDE, Space.LARGE, Space.WIDE, Space.LARGE)
        column.setSpacing(Space.MEDIUM)
        column.addLayout(top)
        column.addWidget(self._line)
        column.addLayout(self._grid)
        column.addLayout(foot)
        column.addWidget(self.result)

    def _connect(self) -> None:
        self.before.clicked.connect(lambda: self.step(-1))
        self.after.clicked.connect(lambda: self.step(1))
        self.copy.clicked.connect(self._copy)
        self.again.clicked.connect(self._make_again)
        self._client.replayed.connect(self._take_replayed)
        self._client.failed.connect(self._take_failure)
        self._client.prompt_progress.connect(self._take_progress)

    def open_over(self, window: QWidget) -> None:
        """Shows the card in the middle of a window."""
        self.adjustSize()
        self.move(window.mapToGlobal(window.rect().center()) - QPoint(self.width() // 2, self.height() // 2))
        self.show()
        self.again.setFocus()

    @property
    def record(self) -> MessageRecord | None:
        """The answer that is shown."""
        return self._answers[self._at] if self._answers else None

    def step(self, by: int) -> None:
        """Shows an answer further back or on."""
        self._stop_replay()
        self._at = min(max(self._at + by, 0), len(self._answers) - 1)
        self._show()

    def _show(self) -> None:
        while item := self._grid.takeAt(0):
            widget = item.widget()
            if widget is not None:
                widget.deleteLater()
        record = self.record
        rows = rows_of(record) if record is not None else []
        for number, (title, text) in enumerate(rows):
            for place, words in enumerate((Words(title, tone="quiet", wrap=False), Words(text))):
                words.setFont(current_theme().quiet_font)
                self._grid.addWidget(words, number, place, Qt.AlignmentFlag.AlignTop)
        count = _("Answer {n} of {total}").format(n=self._at + 1, total=len(self._answers))
        self._title.setText(count if record is not None else _("No answer of this chat has a receipt yet."))
        self._line.set_whole(one_line(record.content, limit=200) if record is not None else "")
        self.before.setEnabled(self._at > 0)
        self.after.setEnabled(self._at < len(self._answers) - 1)
        self.copy.setEnabled(bool(rows))
        self._say("", "")
        self._look_for_receipt(record)

    def _look_for_receipt(self, record: MessageRecord | None) -> None:
        self._receipt, self._anyway = None, False
        self.again.setText(_("Make it again and compare"))
        self.again.setEnabled(False)
        if record is not None:
            self._store.load_receipt(record.id, lambda data: self._take_receipt(record.id, data))

    def _take_receipt(self, id: str, data: bytes | None) -> None:
        if not isValid(self) or self.record is None or self.record.id != id:
            return
        try:
            self._receipt = msgspec.json.decode(data, type=Receipt) if data else None
        except msgspec.MsgspecError:  # of another version
            self._receipt = None
        self.again.setEnabled(self._receipt is not None)
        if self._receipt is None:
            self._say(_("This answer was not kept with what it would take to make it again."), "quiet")

    def _copy(self) -> None:
        if self.record is not None:
            QApplication.clipboard().setText(as_text(rows_of(self.record)))
            self._say(_("Copied."), "quiet")

    # --- making it again -------------------------------------------------------------------------------------------

    def _make_again(self) -> None:
        if self._receipt is not None:
            self.again.setEnabled(False)
            self._say(_("The answer is being made again…"), "quiet")
            self._replay = self._client.replay(self._receipt, anyway=self._anyway)

    def _take_progress(self, id: int, progress: PromptProgress) -> None:
        if id == self._replay and progress.total:
            words = _("Making it again: {done} of {total} tokens of the prompt…")
            self._say(words.format(done=whole_number(progress.done), total=whole_number(progress.total)), "quiet")

    def _take_replayed(self, id: int, replayed: Replayed) -> None:
        if id == self._replay:
            self._end_replay(*comparison(replayed))

    def _take_failure(self, id: int, error: ErrorInfo) -> None:
        if id == self._replay:
            self._end_replay(sentences(error.title, error.message), "caution")
            if error.code == ReplayRefused.code:
                self._anyway = True
                self.again.setText(_("Compare all the same"))

    def _end_replay(self, words: str, tone: str) -> None:
        self._replay = 0
        self.again.setEnabled(True)
        self._say(words, tone)

    def _stop_replay(self) -> None:
        if self._replay:
            self._client.stop(self._replay)
            self._replay = 0

    def _say(self, words: str, tone: str) -> None:
        self.result.setText(words)
        self.result.set_tone(tone)
        self.result.setVisible(bool(words))
        self.adjustSize()

    def closeEvent(self, event: QCloseEvent) -> None:
        self._stop_replay()
        super().closeEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self.step(-1 if event.key() == Qt.Key.Key_Left else 1)
        elif event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)
