"""Copying gives source text: whole blocks their markdown, parts what is shown of them."""

from __future__ import annotations

import pytest

from desktop.chat.view.message_model import ChatItem
from desktop.chat.view.selection import END, Position, Selection, source_of
from markdown_blocks import parse
from runtime.messages import Role

TEXT = "# Head\n\nA **bold** word.\n\n```py\nx = 1\ny = 2\n```\n\n- one\n- two\n"


def copied(text: str, start: tuple[int, int], end: tuple[int, int]) -> str:
    chosen = Selection(Position(0, *start), Position(0, *end))
    return source_of(chosen, [(ChatItem(id="a", role=Role.ASSISTANT, text=text), parse(text))])


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ((0, 0), (END, END), TEXT),
        ((1, 0), (1, 12), "A **bold** word."),
        ((1, 2), (1, 6), "bold"),
        ((1, 7), (2, 5), "word.\n\nx = 1"),
        ((2, 0), (2, 11), "x = 1\ny = 2"),
        ((1, 0), (2, 11), "A **bold** word.\n\n```py\nx = 1\ny = 2\n```"),
        ((2, 6), (4, 3), "y = 2\n\n- one\n- two"),
        ((3, 0), (END, END), "- one\n- two"),
    ],
)
def test_parts_of_a_message(start: tuple[int, int], end: tuple[int, int], expected: str) -> None:
    assert copied(TEXT, start, end) == expected


def test_a_part_counts_emoji_as_qt_does() -> None:
    assert copied("a 😀😀 **b** c", (0, 2), (0, 4)) == "😀"


def test_code_alone_is_copied_without_its_fence() -> None:
    assert copied("```\nx\n```", (0, 0), (0, 1)) == "x"


def test_several_messages_stand_apart() -> None:
    items = [(ChatItem(id=name, role=Role.USER, text=name * 3), parse(name * 3)) for name in "abc"]
    chosen = Selection(Position(0, 0, 1), Position(2, 0, 2))

    assert source_of(chosen, items) == "aa\n\nbbb\n\ncc"


def test_ranges_within_blocks() -> None:
    chosen = Selection(Position(0, 1, 3), Position(1, 0, 4))

    assert chosen.within(0, 0) == (0, 0)
    assert chosen.within(0, 1) == (3, END)
    assert chosen.within(0, 2) == (0, END)
    assert chosen.within(1, 0) == (0, 4)
    assert chosen.within(1, 1) == (0, 0)
