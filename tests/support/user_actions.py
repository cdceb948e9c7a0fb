"""What a random user does with a window: one method for each action, each with chance drawn from its own numbers.

An action takes what it finds and does nothing where there is nothing to do, so that any of them can be left out of a
list that is being shortened. Knows no ledger; what was sent is heard from the window's own signals.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from PySide6.QtCore import QMimeData, QModelIndex, QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QMenu,
    QWidget,
)

from desktop.backups_card import BackupsCard
from desktop.chat.composer import PasteChip
from desktop.chat.waiting_rows import WaitingRow
from runtime.messages import Role
from runtime.params import AppSettings

MOODS: tuple[dict[str, Any], ...] = (
    {}, {}, {"thoughts": "I think."}, {"delay": 0.05}, {"delay": 0.4}, {"endless": True, "delay": 0.01},
    {"endless": True, "deaf": True, "delay": 0.02}, {"delay": 1000},
    {"fail": "This cannot be answered.", "crash_at": 2}, {"crash_at": 0}, {"crash_at": 2},
    {"crash_at": 3, "crash_how": "SIGSEGV"}, {"crash_at": 1, "crash_how": "SIGILL"},
    {"crash_at": 2, "crash_how": "abort"}, {"crash_at": 1, "crash_how": "exit 3"}, {"huge": 20_000},
    {"garbage": ["{", "null", "[]", '{"type": "nonsense"}', "\udcff\udc80", "x" * 5_000, '{"type":"text","id":-1}']},
    {"reply": "a\0b <script>x</script> \u202e \U0001f600 $x^2$ | a |\n|---|\n```\nopen"},
    {"reply": "\ud800 lone"}, {"reply": ""}, {"messages": ["a line on stderr"], "prompt_steps": 5},
    {"reply": "# A\n\n" + "| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n```\n\n" * 8, "used": 4000},
)  # fmt: skip
_WORDS = ("old", "mill", "river", "water", "stone", "春眠不觉晓", "שלום", "naïve", "\U0001f600", "<b>", "*bold*", "$5")
_THROWS_AWAY = (PasteChip, WaitingRow, BackupsCard)  # their buttons take texts away for good, as they should


class Actions:
    """Everything that can be done, on the window that `opening` has opened."""

    def __init__(self, opening: Any, models: Path) -> None:
        self._opening, self._models = opening, models
        self.draw = Random(0)
        self.number = 0

    def take(self, number: int, seed: int) -> str:
        """Does the action with this number of a seed and returns its name."""
        self.number, self.draw = number, Random(f"{seed}:{number}")
        name = self.draw.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
        action: Callable[[], None] = getattr(self, name)
        action()
        return name

    # --- what is there ---------------------------------------------------------------------------------------------

    @property
    def window(self) -> Any:
        return self._opening.application.window

    @property
    def parts(self) -> Any:
        return self._opening.application.parts

    @property
    def edit(self) -> Any:
        return self.window.composing.composer.edit

    def _ids(self, role: Role | None = None) -> list[str]:
        return [item.id for item in self.parts.items.items() if role in (None, item.role)]

    def _chats(self) -> list[QModelIndex]:
        model = self.window.sidebar.model
        rows = [model.index(number) for number in range(model.rowCount())]
        return [index for index in rows if not model.row(index).is_heading]

    def _visible(self, kind: type[QWidget]) -> list[Any]:
        """Returns the widgets of a kind that a person could reach now, on the page that shows."""
        found = self.window.findChildren(kind)
        return [w for w in found if w.isVisible() and w.isEnabled() and not _throws_away(w)]

    # --- writing ---------------------------------------------------------------------------------------------------

    def type(self) -> None:
        words = " ".join(self.draw.choices(_WORDS, k=self.draw.randint(1, 6)))
        self.edit.setFocus()
        QTest.keyClicks(self.edit, f"n{self.number} ")
        self.edit.insertPlainText(words)  # keys of other scripts cannot be clicked

    def break_line(self) -> None:
        QTest.keyClick(self.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)

    def paste(self) -> None:
        mime = QMimeData()
        mime.setText(f"p{self.number} " + "pasted text \x00 \u2028 " * self.draw.choice((3, 1000, 20_000)))
        self.edit.insertFromMimeData(mime)

    def undo_typing(self) -> None:
        if not self.edit.toPlainText() or self.draw.random() < 0.5:
            QTest.keyClick(self.edit, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)

    def send(self) -> None:
        mood = self.draw.choice(MOODS)
        self.edit.moveCursor(self.edit.textCursor().MoveOperation.End)
        self.edit.insertPlainText(f" s{self.number}" + (" " + json.dumps(mood) if mood else ""))
        QTest.keyClick(self.edit, Qt.Key.Key_Return)

    def send_at_once(self) -> None:
        """Enter five times quickly, with text between."""
        for number in range(self.draw.randint(2, 5)):
            self.edit.insertPlainText(f"q{self.number}.{number}")
            QTest.keyClick(self.edit, Qt.Key.Key_Return)

    def up(self) -> None:
        QTest.keyClick(self.edit, Qt.Key.Key_Up)

    def take_waiting(self) -> None:
        rows = self.window.composing.waiting_rows.rows
        if rows:
            self.draw.choice(rows).edit.click()

    # --- answers ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        self.window.actions_by_name["stop"].trigger()

    def press_send(self) -> None:
        self.window.composing.composer.button.click()

    def regenerate(self) -> None:
        if ids := self._ids():
            self.window.view.regenerate_requested.emit(self.draw.choice(ids))

    def continue_answer(self) -> None:
        if ids := self._ids():
            self.window.view.continue_requested.emit(ids[-1])

    def edit_and_resend(self) -> None:
        if ids := self._ids(Role.USER):
            self.window.view.edit_requested.emit(self.draw.choice(ids))
            self.type()
            if self.draw.random() < 0.7:
                self.send()

    def version(self) -> None:
        if ids := self._ids():
            self.window.view.version_requested.emit(self.draw.choice(ids), self.draw.choice((-1, 1)))

    # --- chats -----------------------------------------------------------------------------------------------------

    def new_chat(self) -> None:
        self.window.actions_by_name["new_chat"].trigger()

    def switch(self) -> None:
        if chats := self._chats():
            self.window.sidebar.list.opened.emit(self.draw.choice(chats))

    def rename(self) -> None:
        if chats := self._chats():
            self.window.sidebar.rename(self.draw.choice(chats))
            editors = self.window.sidebar.list.viewport().findChildren(QLineEdit)
            for editor in editors:
                editor.setText(f"Chat {self.number} <i>x</i>")
                QTest.keyClick(editor, self.draw.choice((Qt.Key.Key_Return, Qt.Key.Key_Escape)))

    def delete(self) -> None:
        if chats := self._chats():
            self.window.sidebar.delete(self.draw.choice(chats))

    def undo_delete(self) -> None:
        self.window.sidebar.undo_bar.button.click()

    def chat_menu(self) -> None:
        """Pins, moves, exports: an entry of a chat's menu."""
        if chats := self._chats():
            menu = self.window.sidebar.menu_for(self.draw.choice(chats))
            entries = [entry for entry in _entries(menu) if entry.isEnabled()]
            self.draw.choice(entries).trigger()
            menu.deleteLater()

    def folder(self) -> None:
        if chats := self._chats():
            sidebar = self.window.sidebar
            sidebar.ask_folder(sidebar.model.row(self.draw.choice(chats)).chat_id)
            sidebar.ask.edit.setText(self.draw.choice(("Work", "Home", "", "春")))
            QTest.keyClick(sidebar.ask.edit, self.draw.choice((Qt.Key.Key_Return, Qt.Key.Key_Escape)))

    def search(self) -> None:
        search = self.window.sidebar.search
        search.setText(self.draw.choice(("", "", "mill", "春眠", '"', "n1", "* OR", "x" * 300)))

    # --- the window ------------------------------------------------------------------------------------------------

    def theme(self) -> None:
        self.parts.live.set_values(AppSettings, theme=self.draw.choice(("system", "light", "dark")))

    def language(self) -> None:
        self.parts.live.set_values(AppSettings, language=self.draw.choice(("system", "en", "zh_CN")))

    def scale(self) -> None:
        self.window.actions_by_name[self.draw.choice(("zoom_in", "zoom_out", "zoom_reset"))].trigger()

    def resize(self) -> None:
        self._opening.shell.resize(self.draw.randint(640, 1600), self.draw.randint(480, 1000))

    def action(self) -> None:
        """Any action of the window by its name, as a key or the palette would have it."""
        names = [name for name in self.window.actions_by_name if name != "quit"]
        action = self.window.actions_by_name[self.draw.choice(names)]
        if action.isEnabled():
            action.trigger()

    def palette(self) -> None:
        palette = self.window.open_palette()
        QTest.keyClicks(palette.search, self.draw.choice(("", "new", "set", "lib", "zz", "tem", "chat", "t")))
        for _ in range(self.draw.randint(0, 6)):
            QTest.keyClick(palette.search, Qt.Key.Key_Down)
        chosen = palette.list.currentIndex()
        quits = chosen.isValid() and chosen.data() == self.window.actions_by_name["quit"].text()
        QTest.keyClick(palette.search, Qt.Key.Key_Escape if quits else Qt.Key.Key_Return)

    def close_popup(self) -> None:
        popup = QApplication.activePopupWidget()
        if popup is not None:
            popup.close()

    def press(self) -> None:
        """Any button that shows, but those that throw something away for good or leave the window."""
        if buttons := self._visible(QAbstractButton):
            self.draw.choice(buttons).click()

    def set_something(self) -> None:
        """Any box, slider or field of the settings."""
        self.window.show_panel(True)
        boxes = [w for kind in (QComboBox, QAbstractSlider, QAbstractSpinBox) for w in self._visible(kind)]
        if not boxes:
            return
        box = self.draw.choice(boxes)
        if isinstance(box, QComboBox):
            if box.count():
                box.setCurrentIndex(self.draw.randrange(box.count()))
                box.activated.emit(box.currentIndex())
        elif isinstance(box, QAbstractSlider):
            box.setValue(self.draw.randint(box.minimum(), box.maximum()))
        else:
            box.stepBy(self.draw.choice((-1, 1, 10)))

    def find_setting(self) -> None:
        self.window.show_panel(True)
        self.window.panel.search.setText(self.draw.choice(("", "", "temp", "cache", "zzz")))

    def system_prompt(self) -> None:
        self.window.show_prompt(True)
        self.window.system_prompt.edit.setPlainText(f"Be brief. {self.number}")

    def find_in_chat(self) -> None:
        self.window.actions_by_name["find"].trigger()
        bar = self.window.view.findChildren(QLineEdit)
        for field in bar:
            field.setText(self.draw.choice(("mill", "a", "")))
            QTest.keyClick(field, self.draw.choice((Qt.Key.Key_Return, Qt.Key.Key_Escape)))

    def view_key(self) -> None:
        keys = (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown, Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_Tab,
                Qt.Key.Key_Right, Qt.Key.Key_Left, Qt.Key.Key_A, Qt.Key.Key_C)  # fmt: skip
        key = self.draw.choice(keys)
        control = key in (Qt.Key.Key_A, Qt.Key.Key_C)
        QTest.keyClick(
            self.window.view, key, Qt.KeyboardModifier.ControlModifier if control else Qt.KeyboardModifier.NoModifier
        )

    def message_menu(self) -> None:
        if ids := self._ids():
            menu = self.window.view.message_menu(self.draw.choice(ids))
            entries = [entry for entry in menu.actions() if entry.isEnabled() and not entry.menu()]
            if entries:
                self.draw.choice(entries).trigger()
            menu.deleteLater()

    def context_menu(self) -> None:
        place = QPoint(self.draw.randint(0, 400), self.draw.randint(0, 400))
        event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, self.window.view.mapToGlobal(place))
        QApplication.sendEvent(self.window.view.viewport(), event)

    # --- models and the engine -------------------------------------------------------------------------------------

    def rescan(self) -> None:
        self.parts.models.scan()

    def load(self) -> None:
        self.window.open_model(str(self.draw.choice((*sorted(self._models.glob("*.gguf")), Path("/no/such.gguf")))))

    def eject(self) -> None:
        self.parts.models.eject()

    def drop_file(self) -> None:
        self.window.pages.take_dropped(self.draw.choice((*sorted(self._models.iterdir()), self._models)))

    def kill_engine(self) -> None:
        self._signal(signal.SIGKILL)

    def freeze_engine(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw_engine(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.parts.client.pid:
            os.kill(self.parts.client.pid, number)

    # --- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._opening.shell.close_now()

    def die(self) -> None:
        """The window is killed; the driver does it, after it has kept its ledger."""


def _throws_away(widget: QWidget) -> bool:
    parent = widget.parentWidget()
    return parent is not None and (isinstance(parent, _THROWS_AWAY) or _throws_away(parent))


def _entries(menu: QMenu) -> list[Any]:
    """Returns the entries of a menu and its submenus."""
    found = []
    for entry in menu.actions():
        if entry.menu() is not None:
            found += _entries(entry.menu())
        elif not entry.isSeparator():
            found.append(entry)
    return found


WEIGHTS = {
    "type": 10, "send": 12, "send_at_once": 2, "break_line": 2, "paste": 3, "undo_typing": 2, "up": 2,
    "take_waiting": 2, "stop": 8, "press_send": 3, "regenerate": 5, "continue_answer": 3, "edit_and_resend": 4,
    "version": 3, "new_chat": 4, "switch": 7, "rename": 2, "delete": 2, "undo_delete": 2, "chat_menu": 3, "folder": 1,
    "search": 3, "theme": 1, "language": 1, "scale": 1, "resize": 2, "action": 6, "palette": 3, "close_popup": 5,
    "press": 8, "set_something": 4, "find_setting": 1, "system_prompt": 1, "find_in_chat": 2, "view_key": 3,
    "message_menu": 2, "context_menu": 1, "rescan": 1, "load": 1, "eject": 1, "drop_file": 1, "kill_engine": 2,
    "freeze_engine": 1, "thaw_engine": 2, "close": 1, "die": 1,
}  # fmt: skip
