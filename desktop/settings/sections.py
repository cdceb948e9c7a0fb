"""A section of the panel that folds, and builds its rows only when they are first seen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from desktop import fonts
from desktop.controls.buttons import LINK_INSET, Button
from desktop.settings.live import LiveSettings
from desktop.settings.rows import SettingRow
from desktop.theme import Space
from runtime.settings import SettingField
from runtime.text import _, ngettext

_AT_ONCE = 2  # rows built in one turn of the event loop


class FoldButton(Button):
    """A heading that opens and closes what is under it."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent, kind="fold", icon="chevron_right")
        self.setFont(fonts.strong())
        self.set_open(False)

    def set_open(self, is_open: bool) -> None:
        """Shows which way it stands."""
        self._icon_name = "chevron_down" if is_open else "chevron_right"
        self._tint()
        self.setAccessibleDescription(_("open") if is_open else _("folded"))


class Section(QWidget):
    """Settings under one heading. Advanced ones wait behind a line that says how many there are."""

    toggled = Signal(bool)

    def __init__(
        self,
        title: str,
        settings: Sequence[SettingField],
        live: LiveSettings,
        *,
        first_row: Callable[[], QWidget] | None = None,
        parent: QWidget,
    ) -> None:
        """`parent` has to be given: a widget that is shown before it has one becomes a window."""
        super().__init__(parent)
        self.title, self._settings, self._live = title, tuple(settings), live
        self._first_row = first_row
        self._wanted_open, self._show_all = False, False
        self._filter: frozenset[str] | None = None
        self._rows: dict[str, SettingRow] = {}
        self._unmade: deque[SettingField] = deque()
        self._next_rows = QTimer(self, singleShot=True, interval=0)
        self._next_rows.timeout.connect(self._make_rows)
        self._lead: QWidget | None = None
        self._lay_out()
        self._apply()

    def _lay_out(self) -> None:
        self._heading = FoldButton(_(self.title))
        self._heading.clicked.connect(lambda: self.set_open(not self._wanted_open))
        self._more = Button("", kind="link")
        self._more.clicked.connect(self.toggle_all)
        self._body = QWidget(self)
        self._column = QVBoxLayout(self._body)
        self._column.setContentsMargins(0, Space.SMALL, 0, Space.MEDIUM)
        self._column.setSpacing(Space.LARGE)
        indented = QHBoxLayout()
        indented.setContentsMargins(Space.WIDE - LINK_INSET, 0, 0, 0)
        indented.addWidget(self._more, 0, Qt.AlignmentFlag.AlignLeft)
        self._column.addLayout(indented)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._heading)
        column.addWidget(self._body)

    @property
    def is_open(self) -> bool:
        """True where the rows show."""
        return self._filter is not None or self._wanted_open

    def set_open(self, is_open: bool) -> None:
        """Folds or unfolds."""
        self._wanted_open = is_open
        self._apply()
        self.toggled.emit(is_open)

    def set_filter(self, names: frozenset[str] | None) -> None:
        """Shows only the settings named, whatever was folded; None ends the search."""
        self._filter = names & {declared.name for declared in self._settings} if names is not None else None
        self._apply()

    @property
    def unfolded(self) -> tuple[bool, bool]:
        """Whether it is open where nothing is searched for, and whether the advanced settings show."""
        return self._wanted_open, self._show_all

    def unfold(self, is_open: bool, show_all: bool) -> None:
        """Folds or unfolds it in both ways."""
        self._wanted_open, self._show_all = is_open, show_all
        self._apply()

    def toggle_all(self) -> None:
        """Shows the advanced settings too, or folds them again."""
        self._show_all = not self._show_all
        self._apply()

    def _apply(self) -> None:
        self.setVisible(self._filter is None or bool(self._filter))
        self._heading.set_open(self.is_open)
        self._heading.setEnabled(self._filter is None)
        self._body.setVisible(self.is_open)
        if self.is_open:
            self._show_rows()

    def _show_rows(self) -> None:
        if self._first_row is not None and self._lead is None:
            self._lead = self._first_row()
            self._column.insertWidget(0, self._lead)
        if self._lead is not None:
            self._lead.setVisible(self._filter is None)
        for row in self._rows.values():
            row.setVisible(self._is_shown(row.declared))
        missing = (declared for declared in self._settings if declared.name not in self._rows)
        self._unmade = deque(declared for declared in missing if self._is_shown(declared))
        self._make_rows()
        self._word_more()

    def _make_rows(self, at_most: int = _AT_ONCE) -> None:
        """Makes some of the rows that shall show; the others follow a turn later."""
        for declared in [self._unmade.popleft() for _row in range(min(at_most, len(self._unmade)))]:
            row = SettingRow(declared, self._live, self._body)
            self._column.insertWidget(self._place(declared), row)
            self._rows[declared.name] = row
            row.setVisible(self._is_shown(declared))
        if self._unmade:
            self._next_rows.start()

    @property
    def settled(self) -> bool:
        """True when every row that shall show does."""
        return not self._unmade

    @property
    def rows(self) -> dict[str, SettingRow]:
        """The rows by their setting's name, as far as any were shown; those that shall show are made now."""
        self._make_rows(len(self._unmade))
        return self._rows

    def _is_shown(self, declared: SettingField) -> bool:
        if self._filter is not None:
            return declared.name in self._filter
        changed = self._live.is_changed(declared.group, declared.name)
        return self._show_all or self._all_advanced or not declared.setting.advanced or changed

    @property
    def _all_advanced(self) -> bool:
        return all(declared.setting.advanced for declared in self._settings)

    def _place(self, declared: SettingField) -> int:
        before = self._settings[: self._settings.index(declared)]
        return sum(other.name in self._rows for other in before) + (self._lead is not None)

    def _word_more(self) -> None:
        folded = sum(declared.setting.advanced for declared in self._settings)
        self._more.setVisible(self._filter is None and bool(folded) and not self._all_advanced)
        more = ngettext("{n} more setting", "{n} more settings", folded).format(n=folded)
        self._more.setText(_("Fewer settings") if self._show_all else more)
