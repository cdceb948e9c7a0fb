"""Breaking a streamed text between its words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from desktop.cli.layout import cell_width
from desktop.cli.word_wrap import WordWrap


def _wrapped(text: str, cells: int, *, size: int = 1) -> str:
    wrap = WordWrap(lambda: cells)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return "".join(map(wrap.feed, pieces)) + wrap.finish()


def test_a_word_that_does_not_fit_begins_a_new_line():
    assert _wrapped("one two three", 8) == "one two \nthree"
    assert _wrapped("one two three", 7) == "one two\nthree"


def test_a_word_is_printed_as_soon_as_it_is_complete():
    wrap = WordWrap(lambda: 80)
    assert [wrap.feed("hel"), wrap.feed("lo "), wrap.feed("you")] == ["", "hello ", ""]
    assert wrap.finish() == "you"


def test_code_keeps_its_lines():
    code = "```\na very long line of code here\n```\n"
    assert _wrapped(code, 10) == code
    assert _wrapped(code + "one two three", 8) == code + "one two \nthree"


def test_chinese_is_left_to_the_terminal():
    assert _wrapped("模型可以回答问题", 6) == "模型可以回答问题"


@given(st.text(alphabet="ab 模\n`é", max_size=60), st.integers(3, 12), st.integers(1, 7))
def test_nothing_is_lost_and_the_pieces_do_not_matter(text: str, cells: int, size: int):
    wrapped = _wrapped(text, cells, size=size)
    assert wrapped == _wrapped(text, cells)
    assert "".join(wrapped.split()) == "".join(text.split())


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=5), min_size=1), st.integers(5, 20))
def test_no_line_is_longer_than_the_terminal(words: list[str], cells: int):
    lines = _wrapped(" ".join(words), cells).split("\n")
    assert [line for line in lines if cell_width(line.rstrip()) > cells] == []
