"""The icon in the desktop's tray: where the window went when it was closed, and word of answers that are finished.

Only where the desktop has a tray, and only where the person wants it. Knows the window's frame, no chat.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QIcon
from PySide6.QtWidgets import QMenu, QSystemTrayIcon, QWidget

from desktop.state_file import StateFile
from runtime.text import _

_LOOK_MS = 5_000  # how soon a window that lies in a tray which is gone comes back
_TOLD_KEY = "tray_told"


class Tray(QObject):
    """Over the outermost window. A process without a window and without an icon never stays."""

    opened = Signal()
    quit_requested = Signal()
    message_clicked = Signal(str)  # what `tell` was given to come back to

    def __init__(
        self, window: QWidget, state: StateFile, parent: QObject | None = None, *,
        available: Callable[[], bool] = QSystemTrayIcon.isSystemTrayAvailable,
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self._window, self._state, self._available = window, state, available
        self._wanted = False
        self._about = ""
        self.icon: QSystemTrayIcon | None = None
        self._menu: QMenu | None = None
        self._look = QTimer(self, interval=_LOOK_MS)
        self._look.timeout.connect(self._look_for_tray)

    def follow(self, wanted: bool) -> None:
        """Shows the icon or takes it away; a hidden window comes back then."""
        self._wanted = wanted
        if wanted and self._available():
            self._make()
        elif self.icon is not None:
            self._drop()

    @property
    def keeps(self) -> bool:
        """Whether a window that is closed goes into the tray."""
        if self._wanted and self.icon is None:
            self.follow(True)  # the tray may have come after us, as at the start of a session
        return self._wanted and self.icon is not None and self._available()

    def take_window(self) -> None:
        """Hides the window; says where it went, the first time."""
        self._window.hide()
        self._look.start()
        if not self._state.get(_TOLD_KEY, False):
            self._state.set(_TOLD_KEY, True)
            self._say(_("Quern is still running"), _("Its window is here. To end Quern, choose Quit in this menu."))

    def bring_window(self) -> None:
        """Shows the window again and brings it to the front."""
        self._look.stop()
        if self._window.isMinimized():
            self._window.showNormal()
        self._window.show()
        self._window.raise_()
        self._window.activateWindow()

    def tell(self, title: str, words: str, about: str = "") -> None:
        """Says something to a person who does not see the window; `about` comes back where it is clicked."""
        if not self._window.isVisible():
            self._about = about
            self._say(title, words)

    def word(self) -> None:
        """Words the menu anew, in another language."""
        if self._menu is None:
            return
        self._menu.clear()
        self._menu.addAction(_("Open Quern")).triggered.connect(self._open)
        self._menu.addAction(_("Quit")).triggered.connect(self.quit_requested)

    def _make(self) -> None:
        if self.icon is not None:
            return
        self._menu = QMenu()
        self.word()
        self.icon = QSystemTrayIcon(QGuiApplication.windowIcon(), self)
        self.icon.setToolTip("Quern")
        self.icon.setContextMenu(self._menu)
        self.icon.activated.connect(self._clicked)
        self.icon.messageClicked.connect(self._message_clicked)
        self.icon.show()

    def _drop(self) -> None:
        icon, menu, self.icon, self._menu = self.icon, self._menu, None, None
        if not self._window.isVisible() and self._look.isActive():
            self.bring_window()
        for gone in (icon, menu):
            if gone is not None:
                gone.hide()
                gone.deleteLater()

    def _say(self, title: str, words: str) -> None:
        if self.icon is not None:
            self.icon.showMessage(title, words, QIcon(self.icon.icon()))

    def _open(self) -> None:
        self.bring_window()
        self.opened.emit()

    def _clicked(self, how: QSystemTrayIcon.ActivationReason) -> None:
        if how != QSystemTrayIcon.ActivationReason.Context:
            self._open()

    def _message_clicked(self) -> None:
        self._open()
        self.message_clicked.emit(self._about)

    def _look_for_tray(self) -> None:
        if self._window.isVisible():
            self._look.stop()
        elif not self._available():
            self._drop()
            self.bring_window()

    def close(self) -> None:
        """Takes the icon away at the end."""
        self._look.stop()
        self._wanted = False
        if self.icon is not None:
            self._drop()
