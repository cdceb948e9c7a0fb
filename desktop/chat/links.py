"""Opens links in the person's browser, after showing where they lead. Nothing here loads anything itself.

An address that is written out is its own explanation and opens at once. A link whose words say something else, or whose
address could mislead or carry much away, is shown on a card first. Who has opened one site from a card is not asked
about its plain links again until the window is closed.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from PySide6.QtCore import QObject, QPoint, Qt, QUrl, Signal
from PySide6.QtGui import QCursor, QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from desktop import fonts
from desktop.chat.view.blocks import displayable
from desktop.chat.view.links import Link
from desktop.controls.buttons import Button, Words
from desktop.theme import Space, current_theme
from runtime.text import _

_MUCH = 80  # characters of a query that could carry away what was said
_SHOWN = 400  # characters of an address; the end of a longer one is left out
_CARD_WIDTH = 420


def host_of(address: str) -> str:
    """Returns the site that an address leads to, as it is registered; empty where it cannot be told."""
    found = _split(address)
    return found.hostname or "" if found is not None else ""


def _split(address: str) -> SplitResult | None:
    try:
        found = urlsplit(address)
        return found if found.hostname else None
    except ValueError:
        return None


def is_written_out(link: Link) -> bool:
    """True where the words of a link are its address."""
    return _bare(link.text) == _bare(link.address)


def _bare(address: str) -> str:
    return address.strip().casefold().removeprefix("https://").removeprefix("http://").rstrip("/")


def is_plain(address: str) -> bool:
    """False for an address with a user's name, letters of several scripts in the site's name, or a long query."""
    found = _split(address)
    if found is None or found.hostname is None:
        return False
    odd = "@" in found.netloc or "xn--" in found.hostname or not found.hostname.isascii()
    return not odd and len(found.query) + len(found.fragment) <= _MUCH


class LinkCard(QFrame):
    """Says where a link leads; Enter opens it, Esc does not."""

    opened = Signal()

    def __init__(self, link: Link, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("kind", "popup")
        self.setFixedWidth(_CARD_WIDTH)
        self._link = link
        site = displayable(host_of(link.address)) or displayable(link.address)
        title = Words(_("This link leads to {site}").format(site=site))
        title.setFont(fonts.strong())
        address = Words(_breakable(displayable(_cut(link.address))), tone="quiet")
        address.setFont(current_theme().code_font)
        address.setAccessibleName(link.address)
        self.setAccessibleName(title.text())
        self.setAccessibleDescription(link.address)
        self.open_button, self.copy_button = Button(_("Open in browser"), kind="primary"), Button(_("Copy address"))
        self.cancel_button = Button(_("Cancel"))
        self._lay_out(title, address)
        self.open_button.clicked.connect(self._open)
        self.copy_button.clicked.connect(self._copy)
        self.cancel_button.clicked.connect(self.close)

    def _lay_out(self, title: Words, address: Words) -> None:
        buttons = QHBoxLayout()
        buttons.setSpacing(Space.SMALL)
        for button in (self.open_button, self.copy_button, self.cancel_button):
            button.setAutoDefault(True)
            buttons.addWidget(button)
        buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(Space.LARGE, Space.LARGE, Space.LARGE, Space.LARGE)
        column.setSpacing(Space.SMALL)
        column.addWidget(title)
        column.addWidget(address)
        column.addSpacing(Space.TINY)
        column.addLayout(buttons)

    def open_at(self, point: QPoint) -> None:
        """Shows the card near a point of the screen, wholly on it."""
        self.adjustSize()
        screen = QGuiApplication.screenAt(point) or self.screen()
        room = screen.availableGeometry()
        left = min(max(point.x() - Space.WIDE, room.left()), room.right() - self.width())
        below = point.y() + Space.LARGE
        fits = below + self.height() <= room.bottom()
        self.move(left, below if fits else max(point.y() - self.height() - Space.LARGE, room.top()))
        self.show()
        self.open_button.setFocus()

    def _open(self) -> None:
        self.close()
        self.opened.emit()

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._link.address)
        self.close()


def _cut(address: str) -> str:
    return address if len(address) <= _SHOWN else address[:_SHOWN] + "…"


def _breakable(address: str) -> str:
    """Lets a long address wrap anywhere."""
    return "\u200b".join(address)


class LinkOpener(QObject):
    """Follows links for a person."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._parent = parent
        self._known_sites: set[str] = set()
        self.card: LinkCard | None = None

    def follow(self, link: Link) -> None:
        """Opens a link, or asks first."""
        known = is_written_out(link) or host_of(link.address) in self._known_sites
        if known and is_plain(link.address):
            self._open(link)
            return
        self.card = LinkCard(link, self._parent)
        self.card.opened.connect(lambda: self._agree(link))
        self.card.destroyed.connect(self._forget_card)
        self.card.open_at(QCursor.pos())

    def _agree(self, link: Link) -> None:
        self._known_sites.add(host_of(link.address))
        self._open(link)

    def _forget_card(self) -> None:
        self.card = None

    def _open(self, link: Link) -> None:
        QDesktopServices.openUrl(QUrl(link.address))
