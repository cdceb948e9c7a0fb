"""A conversion in the list of jobs: how far it is, how long it will take, what came of it. Runs nothing."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QVBoxLayout, QWidget

from desktop import fonts
from desktop.chat.plain_text import one_line
from desktop.controls.buttons import Button, ElidedWords, IconButton, Words
from desktop.convert.conversion import Conversion
from desktop.human import data_size, duration, share
from desktop.job import JobState
from desktop.library.quality import QualityCard
from desktop.theme import Space, current_theme
from runtime.text import N_, _, sentences

_STEPS = 1000
_TICK_MS = 500
_PHASES = {
    "write_progress": N_("Writing: {percent}"), "verify_progress": N_("Checking: {percent}"),
    "measure_progress": N_("Measuring what it cost: {percent}"),
}  # fmt: skip


class JobCard(QFrame):
    """Follows one conversion."""

    chat_requested = Signal(str)  # path
    remove_requested = Signal()
    failed = Signal()

    def __init__(self, conversion: Conversion, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.conversion = conversion
        self._title, self._words = ElidedWords(), Words("", tone="quiet")
        self._title.setFont(fonts.strong())
        self._words.setFont(current_theme().quiet_font)
        self.bar = QProgressBar(textVisible=False)
        self.bar.setRange(0, _STEPS)
        self.stop = Button(_("Cancel"))
        self.chat = Button(_("Chat with it"), kind="primary", icon="chat")
        self.close_button = IconButton("close", _("Take out of the list"))
        self.quality = QualityCard(framed=False)
        self._tick = QTimer(self, interval=_TICK_MS)
        self._tick.timeout.connect(self._show)
        self._lay_out()
        self.stop.clicked.connect(conversion.stop)
        self.chat.clicked.connect(lambda: self.chat_requested.emit(str(conversion.target)))
        self.close_button.clicked.connect(self.remove_requested)
        conversion.changed.connect(self._show)
        conversion.ended.connect(self._end)
        self._show()
        self._end()

    def _lay_out(self) -> None:
        row = QHBoxLayout()
        row.addWidget(self._title, 1)
        for button in (self.chat, self.stop, self.close_button):
            row.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.MEDIUM, Space.SMALL, Space.SMALL, Space.MEDIUM)
        column.setSpacing(Space.SMALL)
        column.addLayout(row)
        column.addWidget(self.bar)
        column.addWidget(self._words)
        column.addWidget(self.quality)

    def _show(self) -> None:
        job = self.conversion
        self._title.set_whole(one_line(job.name))
        self._words.setText(self._line())
        self._words.set_tone("bad" if job.state is JobState.FAILED else "quiet")
        self.bar.setVisible(job.active)
        self.bar.setValue(round(job.fraction * _STEPS))
        self.bar.setAccessibleName(self._line())
        self.stop.setVisible(job.active)
        self.stop.setEnabled(job.state is not JobState.STOPPING)
        self.chat.setVisible(job.state is JobState.DONE)
        self.close_button.setVisible(not job.active)
        if job.active and not self._tick.isActive():
            self._tick.start()
        elif not job.active:
            self._tick.stop()

    def _line(self) -> str:
        job = self.conversion
        match job.state:
            case JobState.WAITING:
                return _("Waits for the conversion before it.")
            case JobState.RUNNING:
                return self._progress_line()
            case JobState.STOPPING:
                return _("Stopping…")
            case JobState.STOPPED:
                return _("Stopped. Nothing was written.")
            case JobState.FAILED if job.error is not None:
                return sentences(job.error.title, job.error.message, job.error.hint)
        return self._done_line()

    def _progress_line(self) -> str:
        job = self.conversion
        if not job.phase:
            return _("Looking at the source…")
        words = _(_PHASES.get(job.phase, N_("Working: {percent}"))).format(percent=share(job.fraction))
        left = job.seconds_left
        if left is None:
            return words
        return _("{progress}, {time} left").format(progress=words, time=duration(left))

    def _done_line(self) -> str:
        plan, target = self.conversion.plan, Path(self.conversion.target)
        size = data_size(int(plan.get("size_bytes", 0)))
        before = data_size(int(plan.get("source_bytes", 0)))
        line = _("Written: {size} (the source has {before}), {path}").format(size=size, before=before, path=target)
        if self.conversion.result.get("verified"):
            line = f"{line}\n{_('Checked: every tensor is what it should be, and both engines agree.')}"
        told = (*plan.get("notes", ()), *self.conversion.result.get("notes", ()))
        notes = [one_line(str(note), limit=300) for note in told]
        return "\n".join([line, *notes])

    def _end(self) -> None:
        card = self.conversion.result.get("card")
        self.quality.show_card(card if isinstance(card, dict) else {})
        if self.conversion.state is JobState.FAILED:
            self.failed.emit()
