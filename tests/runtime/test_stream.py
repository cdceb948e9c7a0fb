"""Bytes become text as soon as they can, and no cutting and no rubbish breaks it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.stream import StreamDecoder


def decode(*pieces: bytes) -> list[str]:
    decoder = StreamDecoder()
    return [*(decoder.feed(piece) for piece in pieces), decoder.finish()]


@pytest.mark.parametrize(
    "pieces",
    [(b"\xf0", b"\x9f\x98\x80"), (b"\xf0\x9f", b"\x98\x80"), (b"\xf0", b"\x9f", b"\x98", b"\x80")],
)
def test_character_comes_out_with_its_last_byte(pieces: tuple[bytes, ...]) -> None:
    assert decode(*pieces) == [*[""] * (len(pieces) - 1), "😀", ""]


def test_complete_characters_are_not_delayed() -> None:
    assert decode(b" \xe4\xbd", b"\xa0\xe5", b"\xa5\xbd!") == [" ", "你", "好!", ""]


def test_letter_and_its_accent_come_as_they_are() -> None:
    assert decode(b"e", "\u0301".encode()[:1], "\u0301".encode()[1:]) == ["e", "", "\u0301", ""]


def test_family_of_joined_emoji_stays_together() -> None:
    family = "👨‍👩‍👧"

    assert "".join(decode(*(bytes([byte]) for byte in family.encode()))) == family


@pytest.mark.parametrize("tail", [b"\xf0", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xe4\xbd", b"\xc3"])
def test_unfinished_character_at_the_end_is_one_replacement(tail: bytes) -> None:
    assert decode(b"ok" + tail) == ["ok", "\ufffd"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\x80b", "a\ufffdb"),
        (b"\x80\x80", "\ufffd\ufffd"),
        (b"\xc0\xaf", "\ufffd\ufffd"),  # overlong: neither byte can begin a character here
        (b"\xe0\x80\xaf", "\ufffd\ufffd\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),  # half of a surrogate pair
        (b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"),  # beyond U+10FFFF
        (b"\xf0\x9f\x98x", "\ufffdx"),
        (b"\xf0\x9f\xf0\x9f\x98\x80", "\ufffd😀"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_stray_bytes_become_one_replacement_for_each_run(data: bytes, text: str) -> None:
    assert "".join(decode(data)) == text
    assert "".join(decode(*(bytes([byte]) for byte in data))) == text


def test_nul_is_a_character_like_others() -> None:
    assert decode(b"a\x00b") == ["a\x00b", ""]
    assert json.loads(json.dumps("a\x00b")) == "a\x00b"


def test_decoder_can_be_used_again_after_the_end() -> None:
    decoder = StreamDecoder()
    decoder.feed(b"\xf0\x9f")

    assert decoder.finish() == "\ufffd"
    assert decoder.feed(b"a") == "a"


bytes_near_text = st.binary(max_size=12) | st.text(max_size=5).map(lambda text: text.encode(errors="replace"))


@given(st.lists(bytes_near_text, max_size=8))
def test_cutting_the_bytes_differently_changes_nothing(pieces: list[bytes]) -> None:
    assert "".join(decode(*pieces)) == b"".join(pieces).decode("utf-8", "replace")


@given(st.text(max_size=20), st.integers(1, 4))
def test_text_that_is_complete_comes_out_at_once(text: str, size: int) -> None:
    decoder = StreamDecoder()
    data = text.encode("utf-8", "replace")
    shown = ""
    for start in range(0, len(data), size):
        shown += decoder.feed(data[start : start + size])
        assert shown == data[: start + size].decode("utf-8", "ignore")
