"""Text for terminals: widths, wrapping, and nothing that drives the terminal."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from desktop.cli.layout import cell_width, cut, harmless, shown_path, two_columns, wrapped


def test_escape_sequences_are_made_visible():
    assert harmless("a\x1b[2Jb\x07\x9b31m\x7f") == "a␛[2Jb␇\ufffd31m␡"


def test_tabs_and_line_feeds_stay_and_carriage_returns_go():
    assert harmless("a\tb\r\nc\rd") == "a\tb\ncd"


@given(st.text())
def test_no_control_character_survives(text: str):
    assert not [sign for sign in harmless(text) if (ord(sign) < 32 and sign not in "\n\t") or 127 <= ord(sign) < 160]


def test_wide_and_combining_characters_count_as_the_terminal_shows_them():
    assert cell_width("模型") == 4
    assert cell_width("é") == 1
    assert cell_width("e\u0301") == 1
    assert cell_width("a\u200db") == 2


@given(st.text(alphabet="ab 模型，。é", min_size=1), st.integers(4, 30))
def test_wrapping_loses_no_character_but_spaces(text: str, cells: int):
    assert "".join(wrapped(text, cells)).replace(" ", "") == text.replace(" ", "")


def test_chinese_breaks_between_characters_and_never_before_a_closing_mark():
    assert wrapped("模型可以回答问题。好", 16) == ["模型可以回答问", "题。好"]


def test_no_line_ends_with_an_opening_mark():
    assert wrapped("默认值：0（关）。", 11) == ["默认值：0", "（关）。"]
    assert wrapped("这个模型叫“入门”吧", 12) == ["这个模型叫", "“入门”吧"]


def test_words_longer_than_the_line_are_not_cut():
    assert wrapped("see https://example.org/a/very/long/path now", 10) == [
        "see", "https://example.org/a/very/long/path", "now",
    ]  # fmt: skip


def test_cut_text_fits_and_says_so():
    assert cut("模型模型", 5) == "模型…"
    assert cut("short", 5) == "short"


def test_a_long_term_stands_above_its_text():
    lines = two_columns([("-a", "one"), ("--a-very-long-option-name-of-all [x|y|z]", "two")], 80)
    assert lines == ["  -a  one", "  --a-very-long-option-name-of-all [x|y|z]", "      two"]


def test_a_path_that_is_no_text_is_shown_with_replacement_marks():
    assert shown_path(os.fsdecode(b"/m/\xff\xfe.gguf")) == "/m/\ufffd\ufffd.gguf"
    assert "\n" not in shown_path("/m/a\nb")
