"""The converter: a source, a type with its size and fit, a target, and the list of conversions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QScrollArea,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from desktop import fonts
from desktop.chat.model_names import shown_name
from desktop.chat.plain_text import one_line
from desktop.controls.buttons import Button, Choice, Words
from desktop.controls.notice import Notice
from desktop.convert.conversion import Conversion
from desktop.convert.job_card import JobCard
from desktop.convert.plans import Plans
from desktop.convert.type_rows import TypeRows
from desktop.convert.types import OFFERED, USUAL
from desktop.human import data_size
from desktop.job import Jobs
from desktop.library import facts
from desktop.settings.widgets import Switch
from desktop.theme import Space, current_theme
from runtime.errors import ErrorInfo
from runtime.places import shown_path
from runtime.text import N_, _

if TYPE_CHECKING:
    from runtime.library import ModelInfo

_ASK_MS = 250
# Refusals that a person can agree to, and the words of the button that does.
_AGREE = {"target_exists": N_("Replace it"), "quantized_already": N_("Convert it all the same")}


@dataclass(frozen=True, slots=True)
class Left:
    """What a person chose and wrote on the page; without a `target` the one that is proposed."""

    source: str
    recipe: str
    target: str
    verify: bool
    measure: bool


class ConvertPage(QWidget):
    """Over `Jobs`. The plans come from a child that writes nothing."""

    chat_requested = Signal(str)  # path
    close_requested = Signal()
    converted = Signal(str)  # path

    def __init__(self, jobs: Jobs, parent: QWidget | None = None, *, in_steps: bool = False) -> None:
        """With `in_steps`, nothing is there until all `steps` were taken, so that none of them takes long."""
        super().__init__(parent)
        self.setObjectName("page")
        self._jobs = jobs
        self.plans = Plans(jobs, self)
        self._models: dict[str, ModelInfo] = {}
        self._wanted, self._asked, self._target_edited = "", "", False
        self._ask_later = QTimer(self, singleShot=True, interval=_ASK_MS)
        self.cards: list[JobCard] = []
        self.steps = self._build()
        if not in_steps:
            for _step in self.steps:
                pass

    # --- building --------------------------------------------------------------------------------------------------

    def _build(self) -> Iterator[None]:
        self.source, self.types, self.table = Choice(), TypeRows(self), QTableView()
        self.target, self.notice = QLineEdit(), Notice()
        self._notes = Words("", tone="quiet")
        yield
        body = QWidget()
        body.setObjectName("cardBody")
        yield from self._lay_out(body)
        area = self._area = QScrollArea()
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(body)
        yield
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(area)
        self._connect()
        for job in self._jobs.all:  # the page may be built anew while they run
            if isinstance(job, Conversion):
                self._add_card(job)

    def _lay_out(self, body: QWidget) -> Iterator[None]:
        column = QVBoxLayout(body)
        column.setContentsMargins(Space.WIDE, Space.LARGE, Space.WIDE, Space.WIDE)
        column.setSpacing(Space.SMALL)
        column.addLayout(self._heading())
        column.addWidget(Words(
            _("Makes a GGUF file of another type from a model, smaller and nearly as good. The source stays as it is."),
            tone="quiet"))  # fmt: skip
        column.addSpacing(Space.SMALL)
        column.addWidget(_label(_("Model"), self.source))
        column.addLayout(self._source_row())
        yield
        column.addSpacing(Space.SMALL)
        column.addWidget(_label(_("Type"), self.table))
        column.addWidget(self._made_table())
        yield
        column.addWidget(self._notes)
        column.addSpacing(Space.SMALL)
        column.addWidget(_label(_("New file"), self.target))
        column.addLayout(self._target_row())
        column.addLayout(self._checks_row())
        yield
        column.addWidget(self.notice)
        column.addSpacing(Space.MEDIUM)
        self._list = QVBoxLayout()
        self._list.setSpacing(Space.SMALL)
        column.addLayout(self._list)
        column.addStretch(1)
        yield

    def _heading(self) -> QHBoxLayout:
        title = Words(_("Convert"), wrap=False)
        title.setFont(current_theme().title_font)
        self.back = Button(_("Back to the chat"), kind="plain", icon="chevron_left")
        row = QHBoxLayout()
        row.addWidget(title, 1)
        row.addWidget(self.back)
        return row

    def _source_row(self) -> QHBoxLayout:
        self.source.setSizeAdjustPolicy(Choice.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.source.setMinimumContentsLength(24)
        self.folder = Button(_("Folder…"), icon="folder")
        self.file = Button(_("File…"), icon="add")
        row = QHBoxLayout()
        row.setSpacing(Space.SMALL)
        row.addWidget(self.source, 1)
        row.addWidget(self.folder)
        row.addWidget(self.file)
        return row

    def _made_table(self) -> QTableView:
        table = self.table
        table.setModel(self.types)
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.setTabKeyNavigation(False)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        table.verticalHeader().hide()
        row = table.fontMetrics().height() + Space.SMALL
        table.verticalHeader().setDefaultSectionSize(row)
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionsClickable(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeading | Qt.AlignmentFlag.AlignVCenter)
        for section in range(4):
            header.setSectionResizeMode(section, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(4, QHeaderView.ResizeMode.Stretch)
        table.setFixedHeight(row * len(OFFERED) + header.sizeHint().height() + Space.TINY)
        table.selectRow(next(number for number, kind in enumerate(OFFERED) if kind.name == USUAL))
        return table

    def _target_row(self) -> QHBoxLayout:
        self.choose_target = Button(_("Choose…"))
        self.start = Button(_("Convert"), kind="primary", icon="convert")
        row = QHBoxLayout()
        row.setSpacing(Space.SMALL)
        row.addWidget(self.target, 1)
        row.addWidget(self.choose_target)
        row.addWidget(self.start)
        return row

    def _checks_row(self) -> QHBoxLayout:
        """What is done beyond the writing; both take some minutes with large models."""
        self.verify, self.measure = Switch(), Switch()
        row = QHBoxLayout()
        row.setSpacing(Space.SMALL)
        for switch, words in (
            (self.verify, _("Check the result against its source")), (self.measure, _("Measure what it cost")),
        ):  # fmt: skip
            switch.setChecked(True)
            switch.setAccessibleName(words)
            label = Words(words, wrap=False)
            label.setBuddy(switch)
            row.addWidget(switch)
            row.addWidget(label)
            row.addSpacing(Space.LARGE)
        row.addStretch(1)
        return row

    def _connect(self) -> None:
        self.back.clicked.connect(self.close_requested)
        self.source.activated.connect(lambda _row: self._take_source())
        self.folder.clicked.connect(lambda: self._ask_source(QFileDialog.FileMode.Directory))
        self.file.clicked.connect(lambda: self._ask_source(QFileDialog.FileMode.ExistingFile))
        self.table.selectionModel().currentRowChanged.connect(lambda *_rows: self._show_choice())
        self.target.textEdited.connect(self._note_edit)
        self.choose_target.clicked.connect(self._ask_target)
        self.start.clicked.connect(lambda: self.begin())
        self.plans.planned.connect(self._take_plan)
        self.plans.failed.connect(self._show_problem)
        self._ask_later.timeout.connect(self._ask_plans)
        self.notice.acted.connect(lambda _code: self.begin(agreed=True))

    # --- the source ------------------------------------------------------------------------------------------------

    def set_models(self, models: Sequence[ModelInfo], *, memory: tuple[int, int]) -> None:
        """Takes what the library knows, and the bytes of memory that are free and in all."""
        self.types.set_memory(memory)
        usable = [info for info in models if info.kind != "adapter" and not facts.is_missing(info) and info.size_bytes]
        found = {str(info.path): info for info in usable}
        if list(found) == list(self._models):
            return
        self._models = found
        current = self._wanted or str(self.source.currentData() or "")
        self.source.clear()
        for path, info in found.items():
            size = data_size(info.size_bytes)
            words = "  ·  ".join(filter(None, (shown_name(info), one_line(info.quantization, limit=30), size)))
            self.source.addItem(words, path)
        self.choose(current)

    def choose(self, path: str) -> None:
        """Chooses a source, one of the library or any other file or folder."""
        self._wanted = path
        row = self.source.findData(path)
        if row < 0 and path:
            self.source.addItem(one_line(shown_path(Path(path)), limit=120), path)
            row = self.source.count() - 1
        self.source.setCurrentIndex(max(row, 0))
        self._take_source()

    def left(self) -> Left:
        """Returns what is chosen and written, for the page that takes this one's place in another language."""
        target = self.target.text() if self._target_edited else ""
        return Left(self._wanted, self.recipe, target, self.verify.isChecked(), self.measure.isChecked())

    def go_on_from(self, left: Left) -> None:
        """Takes what was chosen and written on another page."""
        if left.source:
            self.choose(left.source)
        self.table.selectRow(next(number for number, kind in enumerate(OFFERED) if kind.name == left.recipe))
        self.verify.setChecked(left.verify)
        self.measure.setChecked(left.measure)
        if left.target:
            self._take_target(left.target)

    def _take_source(self) -> None:
        self._wanted = str(self.source.currentData() or "")
        if self._wanted == self._asked:
            return
        self._asked, self._target_edited = self._wanted, False
        self.types.clear()
        self.notice.dismiss(about="convert")
        self._show_choice()
        if self._wanted:
            self._ask_later.start()

    def _ask_plans(self) -> None:
        if self._wanted:
            self.plans.ask(Path(self._wanted))

    def _take_plan(self, name: str, plan: dict[str, Any]) -> None:
        self.types.set_plan(name, plan)
        self._show_notes()

    def _ask_source(self, mode: QFileDialog.FileMode) -> None:
        names = _("Model files (*.gguf);;All files (*)")
        dialog = QFileDialog(self, _("Choose a model to convert"), "", names)
        dialog.setFileMode(mode)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.choose)
        dialog.open()

    # --- type and target -------------------------------------------------------------------------------------------

    @property
    def recipe(self) -> str:
        """The chosen type."""
        return OFFERED[max(self.table.currentIndex().row(), 0)].name

    def _show_choice(self) -> None:
        self.start.setEnabled(bool(self._wanted))
        if not self._target_edited:
            self.target.setText(str(self._proposed()) if self._wanted else "")
        self._show_notes()

    def _show_notes(self) -> None:
        plan = self.types.plan(self.recipe)
        notes = [one_line(str(note), limit=300) for note in plan.get("notes", ())] if plan else []
        self._notes.setText("\n".join(notes))
        self._notes.setVisible(bool(notes))

    def _proposed(self) -> Path:
        source = Path(self._wanted)
        info = self._models.get(self._wanted)
        stem = source.name if info is not None and info.kind == "folder" else source.stem
        if info is not None and info.quantization:
            for end in (f"-{info.quantization}", f".{info.quantization}", f"_{info.quantization}"):
                if stem.lower().endswith(end.lower()):
                    stem = stem[: -len(end)]
        return self._folder_for(source, info) / f"{stem}-{self.recipe}.gguf"

    def _folder_for(self, source: Path, info: ModelInfo | None) -> Path:
        """Beside the source where that is the person's own folder, else in Quern's."""
        from runtime.places import places

        if info is not None and info.source in ("folder", facts.OPENED, "path"):
            return source.parent
        return places().models

    def _note_edit(self, _text: str) -> None:
        self._target_edited = True

    def _ask_target(self) -> None:
        dialog = QFileDialog(self, _("The new file"), self.target.text(), _("Model files (*.gguf)"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("gguf")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self._take_target)
        dialog.open()

    def _take_target(self, path: str) -> None:
        self.target.setText(path)
        self._target_edited = True

    # --- converting ------------------------------------------------------------------------------------------------

    def begin(self, *, agreed: bool = False) -> None:
        """Puts the conversion in line."""
        text = self.target.text().strip()
        if not self._wanted or not text:
            return
        self.notice.dismiss(about="convert")
        target = Path(os.path.abspath(os.path.expanduser(text)))
        conversion = Conversion(
            Path(self._wanted), target, self.recipe, agreed=agreed, verify=self.verify.isChecked(),
            card=self.measure.isChecked(),
        )  # fmt: skip
        self._add_card(conversion)
        self._jobs.add(conversion)
        QTimer.singleShot(0, self, self._show_newest)

    def _show_newest(self) -> None:
        """A small window shows the form alone; what was just begun must be seen to begin."""
        if self.cards:
            self._area.ensureWidgetVisible(self.cards[0])

    def _add_card(self, conversion: Conversion) -> None:
        card = JobCard(conversion)
        card.chat_requested.connect(self.chat_requested)
        card.remove_requested.connect(lambda: self._remove(card))
        card.failed.connect(lambda: self._look_at_failure(card))
        conversion.finished.connect(self.converted)
        self.cards.insert(0, card)
        self._list.insertWidget(0, card)

    def _look_at_failure(self, card: JobCard) -> None:
        """What a person can agree to is asked where it was begun; the job that was refused goes away."""
        error = card.conversion.error
        words = _AGREE.get(error.code, "") if error is not None else ""
        if error is not None and words:
            error = replace(error, hint="")  # which names a flag; the button does the same
            self.notice.show_error(error, action=_(words), tone="caution", about="convert")
            QTimer.singleShot(0, self, lambda: self._area.ensureWidgetVisible(self.notice))
            QTimer.singleShot(0, self, lambda: self._remove(card))

    def _remove(self, card: JobCard) -> None:
        if card in self.cards:
            self.cards.remove(card)
            card.deleteLater()
            self._jobs.remove(card.conversion)

    def _show_problem(self, error: ErrorInfo) -> None:
        self.notice.show_error(error, tone="caution", about="convert")


def _label(text: str, buddy: QWidget) -> Words:
    words = Words(text, wrap=False)
    words.setFont(fonts.strong())
    words.setBuddy(buddy)
    buddy.setAccessibleName(text)
    return words
