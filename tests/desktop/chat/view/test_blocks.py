"""Text as it is handed to Qt: the same length in UTF-16, in small parts, with one direction each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from desktop.chat.view.blocks import (
    BlockKind,
    displayable,
    is_right_to_left,
    plain_blocks,
    utf16_length,
    utf16_slice,
)  # fmt: skip

anything = st.text(st.characters() | st.characters(categories=["Cs", "Cc", "Cf"]), max_size=200)


@given(anything)
def test_shown_text_has_the_length_of_the_text(text: str) -> None:
    shown = displayable(text)

    assert utf16_length(shown) == utf16_length(text)
    assert not any("\ud800" <= char <= "\udfff" or char in "\0\n\u202e\u202d\u2066" for char in shown)


@given(st.text(max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_slices_count_as_qt_counts(text: str, at: int, length: int) -> None:
    start, end = min(at, len(text)), min(at + length, len(text))

    assert utf16_slice(text, utf16_length(text[:start]), utf16_length(text[:end])) == text[start:end]


def test_a_slice_through_an_emoji_is_still_text() -> None:
    assert utf16_slice("a😀b", 0, 2) == "a\ufffd"


def test_an_override_in_a_file_name_is_seen() -> None:
    assert displayable("photo\u202egpj.exe") == "photo\ufffdgpj.exe"


def test_direction_comes_from_the_first_strong_letter() -> None:
    assert is_right_to_left("123, שלום world")
    assert is_right_to_left("… مرحبا")
    assert not is_right_to_left("Hello שלום")
    assert not is_right_to_left("123 😀")


@given(st.lists(st.sampled_from(["word", " ", "\n", "שלום", "\r\n", "x" * 30, "😀", "中文"]), max_size=40).map("".join))
def test_plain_text_is_cut_without_losing_anything(text: str) -> None:
    blocks = plain_blocks(text, size=50)

    assert "".join(text[block.start : block.end] for block in blocks) == text
    assert all(block.end - block.start <= 60 for block in blocks)
    assert all(block.kind is BlockKind.PLAIN for block in blocks)


def test_lines_of_two_directions_stand_apart() -> None:
    blocks = plain_blocks("שלום\nHello\nthere")

    assert [block.text for block in blocks] == ["שלום", "Hello\nthere"]
