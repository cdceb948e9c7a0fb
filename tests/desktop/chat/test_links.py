"""A link shows where it leads before it opens, unless its words already say so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from desktop.chat import links
from desktop.chat.links import LinkOpener, host_of, is_plain, is_written_out
from desktop.chat.view.links import Link


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    addresses: list[str] = []

    class Browser:
        @staticmethod
        def openUrl(url: QUrl) -> None:
            addresses.append(url.toString())

    monkeypatch.setattr(links, "QDesktopServices", Browser)
    assert links.QDesktopServices is not QDesktopServices
    return addresses


@pytest.fixture
def opener(qtbot: QtBot) -> Iterator[LinkOpener]:
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    made = LinkOpener(window)
    yield made
    if made.card is not None:
        made.card.close()


@pytest.mark.parametrize(
    ("text", "address"),
    [("https://a.org/b", "https://a.org/b"), ("a.org", "https://a.org/"), ("HTTPS://A.org", "https://a.org")],
)
def test_an_address_that_is_written_out_opens_at_once(
    opener: LinkOpener, opened: list[str], text: str, address: str
) -> None:
    opener.follow(Link(address, text))

    assert len(opened) == 1
    assert opener.card is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("here", "https://a.org/b"),
        ("https://bank.com", "https://evil.org"),
        ("https://a.org@evil.org/", "https://a.org@evil.org/"),
        ("https://аpple.com", "https://аpple.com"),  # a Cyrillic letter
        ("https://xn--pple-43d.com", "https://xn--pple-43d.com"),
        ("https://a.org/?q=" + "x" * 200, "https://a.org/?q=" + "x" * 200),
    ],
)
def test_every_other_link_shows_where_it_leads_first(
    opener: LinkOpener, opened: list[str], text: str, address: str
) -> None:
    opener.follow(Link(address, text))

    assert opened == []
    assert opener.card is not None
    words = " ".join(label.text() for label in opener.card.findChildren(QLabel)).replace("\u200b", "")
    assert host_of(address) in words
    assert address[:60] in words
    opener.card.open_button.click()
    assert len(opened) == 1


def test_a_site_that_was_agreed_to_is_not_asked_about_again(opener: LinkOpener, opened: list[str]) -> None:
    opener.follow(Link("https://a.org/one", "one"))
    assert opener.card is not None
    opener.card.open_button.click()

    opener.follow(Link("https://a.org/two", "two"))
    assert len(opened) == 2

    opener.follow(Link("https://a.org/?secret=" + "x" * 200, "three"))
    assert len(opened) == 2


def test_the_card_can_be_sent_away_and_copies_the_address(opener: LinkOpener, opened: list[str]) -> None:
    opener.follow(Link("https://a.org/one", "one"))
    assert opener.card is not None
    opener.card.copy_button.click()

    assert QGuiApplication.clipboard().text() == "https://a.org/one"
    opener.follow(Link("https://a.org/one", "one"))
    assert opener.card is not None
    opener.card.cancel_button.click()
    assert opened == []


def test_an_address_that_cannot_be_taken_apart_is_asked_about() -> None:
    assert not is_plain("https://[bad")
    assert host_of("https://[bad") == ""
    assert is_written_out(Link("https://[bad", "https://[bad"))


def test_a_site_is_named_without_signs_that_reorder_it(opener: LinkOpener) -> None:
    opener.follow(Link("https://evil.org/\u202egro.a", "here"))

    assert opener.card is not None
    assert all("\u202e" not in label.text() for label in opener.card.findChildren(QLabel))
