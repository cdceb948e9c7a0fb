"""Reading markdown piece by piece gives what reading it whole gives, and reads each piece about once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from desktop.chat.view.blocks import Block
from desktop.chat.view.incremental import IncrementalParser
from markdown_blocks import parse

LINES = [
    "", "", "a", "b *c* `d`", "- x", "- ", "* y", "  z", "    indented", "1. one", "2. two", "7) seven", " - off",
    "> q", "> - quoted item", "```", "```py", "~~~", "````", "  ```", "| a | b |", "|---|:-:|", "| 1 | 2 | 3 |", "---",
    "===", "# head", "#", "***", "_ _", "\t tab", "- - deep", "   1. in", "-", "--", "1.", "<b>x</b>", "[t](http://a.b)",
    "[r]: http://c.d", "10. ten", "      six", "- ```", "\\(x_1", "$$", "中文。", "😀", "> ", ">> two", "- [ ] task",
    "**open", "x  ", "\r", "\\[", "\\]", "\\] x", "$$ y $$", "z $$ .", "= y", "- \\[", "  \\]", "> $$", "\\[ a \\]",
    "\\begin{align}", "\\end{align}",
]  # fmt: skip
texts = st.lists(st.sampled_from(LINES), max_size=14).map("\n".join)
cuts = st.lists(st.integers(0, 300), max_size=12)


def fed(parser: IncrementalParser, text: str, at: list[int]) -> list[Block]:
    edges = sorted({0, len(text), *(cut for cut in at if cut < len(text))})
    for start, end in pairwise(edges):
        parser.feed(text[start:end])
    return parser.blocks


@settings(max_examples=1500, deadline=None)
@given(texts, cuts)
def test_any_chunking_gives_the_same_blocks(text: str, at: list[int]) -> None:
    assert fed(IncrementalParser(), text, at) == parse(text)


@settings(max_examples=400, deadline=None)
@given(texts)
def test_one_character_at_a_time_gives_the_same_blocks(text: str) -> None:
    assert fed(IncrementalParser(), text, list(range(len(text)))) == parse(text)


WORDS = ["word", "end.", "**bold", "bold**", "`code`", "三。", "a-b", "\n", "1.", "- x", "---", "# h", "\n\n"]
words = st.lists(st.sampled_from(WORDS), max_size=60)


@settings(max_examples=800, deadline=None)
@given(words.map(" ".join), cuts)
def test_long_paragraphs_are_cut_where_the_whole_text_would_be_cut(text: str, at: list[int]) -> None:
    whole = IncrementalParser(paragraph_part=20)
    whole.feed(text)
    assert fed(IncrementalParser(paragraph_part=20), text, at) == whole.blocks


@settings(max_examples=300, deadline=None)
@given(texts)
def test_blocks_cover_their_source_in_order(text: str) -> None:
    blocks = parse(text)
    for before, after in pairwise(blocks):
        assert before.start < before.end <= len(text)
        assert before.start < after.start or before.frames or after.frames


def test_a_quote_without_end_is_read_in_parts_and_loses_nothing() -> None:
    parser = IncrementalParser()
    most = 0
    for _ in range(3000):
        before = parser.parsed
        parser.feed("> words of a quote that goes on and on\n")
        most = max(most, parser.parsed - before)

    assert most < 70_000
    assert sum(block.text.count("words of a quote") for block in parser.blocks) == 3000
    assert all(block.frames for block in parser.blocks)
