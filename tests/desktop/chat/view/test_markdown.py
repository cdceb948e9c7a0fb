"""What markdown becomes: CommonMark for structure, and every letter the model wrote still there."""

from __future__ import annotations

import pytest

from desktop.chat.view.blocks import Align, Block, BlockKind, FrameKind, Style
from desktop.chat.view.markdown import inline
from markdown_blocks import parse


def only(text: str) -> Block:
    (block,) = parse(text)
    return block


def styles(text: str) -> dict[str, Style]:
    shown, spans = inline(text)
    return {shown[span.start : span.end]: span.style for span in spans}


@pytest.mark.parametrize(
    "text",
    ["<smirk> hi", "vector<int>", "a < b && c > d", "<script>x</script>", "&amp; &lt;b&gt;", "</div>", "<!-- x",
     "<img src=x onerror=alert(1)>", "<style>*{}</style>", "[r]: http://a.b", "x <!DOCTYPE y> <?php z ?>"],
)  # fmt: skip
def test_angle_brackets_and_ampersands_stay_as_written(text: str) -> None:
    assert only(text).text == text


@pytest.mark.parametrize(
    ("text", "code", "language", "closed"),
    [
        ("```python\nx = 1\n```", "x = 1", "python", True),
        ("```\nx\n```", "x", "", True),
        ("````\n```\ninner\n```\n````", "```\ninner\n```", "", True),
        ("~~~\n```\n~~~", "```", "", True),
        ("```js\nnever closed\n\n# still code", "never closed\n\n# still code", "js", False),
        ("```\r\na\r\nb\r\n```\r\n", "a\nb", "", True),
        ("```\n" + "x" * 5000 + "\n```", "x" * 5000, "", True),
        ("```\n    ```\n```", "    ```", "", True),
        ("    indented\n\n    code", "indented\n\ncode", "", True),
        ("```", "", "", False),
    ],
)
def test_odd_fences_lose_nothing(text: str, code: str, language: str, closed: bool) -> None:
    block = only(text)

    assert (block.kind, block.text, block.language, block.closed) == (BlockKind.CODE, code, language, closed)


def test_backticks_in_a_line_are_inline_code() -> None:
    assert styles("see ```a `b` c``` here") == {"a `b` c": Style.CODE}


def test_code_in_a_list_item_belongs_to_the_item() -> None:
    text, code, rest = parse("1. Run\n   ```sh\n   make\n   ```\n2. Done")

    assert (text.frames[0].marker, code.text, code.language, rest.frames[0].marker) == ("1.", "make", "sh", "2.")
    assert code.frames[0].kind is FrameKind.ITEM
    assert code.frames[0].marker == ""


def test_nested_lists_quotes_and_tasks_are_frames() -> None:
    blocks = parse("- a\n  - b\n    - c\n\n> q\n> - d\n\n- [x] done\n- [ ] open")

    assert [(block.text, [frame.marker for frame in block.frames]) for block in blocks] == [
        ("a", ["•"]), ("b", ["", "◦"]), ("c", ["", "", "▪"]), ("q", [""]), ("d", ["", "•"]),
        ("done", ["☑"]), ("open", ["☐"]),
    ]  # fmt: skip


def test_an_empty_item_keeps_its_mark() -> None:
    assert [(block.text, block.frames[0].marker) for block in parse("1. a\n2.\n3. c")] == [
        ("a", "1."), ("", "2."), ("c", "3."),
    ]  # fmt: skip


def test_marks_nested_beyond_reason_lose_no_text() -> None:
    assert any("end" in block.text for block in parse(">" * 300 + " end"))
    assert any("end" in block.text for block in parse("- " * 300 + "end"))


def test_a_table_knows_its_cells_and_sides() -> None:
    table = only("| a | b | c |\n|:--|:-:|--:|\n| **1** | `x|y` |\n| only |")

    assert table.aligns == (Align.LEFT, Align.CENTER, Align.RIGHT)
    assert table.rows[1][0].spans[0].style is Style.BOLD
    assert [cell.text for cell in table.rows[2]] == ["only", "", ""]
    assert table.text.startswith("a\tb\tc\n1\t")


def test_inline_styles_combine() -> None:
    found = styles("**bold *both*** ~~gone~~ `code`")

    assert found["both"] == Style.BOLD | Style.ITALIC
    assert found["gone"] == Style.STRIKE
    assert found["code"] == Style.CODE


@pytest.mark.parametrize(
    "text",
    ["[x](javascript:alert(1))", "[x](file:///etc/passwd)", "[x](data:text/html,hi)", "![x](file:///etc/passwd)",
     "[x](custom:thing)", "[x](//host/share)", "<javascript:alert(1)>"],
)  # fmt: skip
def test_addresses_that_are_not_of_the_web_are_text(text: str) -> None:
    shown, spans = inline(text)

    assert shown == text
    assert not any(span.href for span in spans)


def test_web_links_carry_their_address() -> None:
    shown, spans = inline("see [here](https://a.b/c?d=1) or https://e.f/g(h), ok")

    assert [(shown[span.start : span.end], span.href) for span in spans] == [
        ("here", "https://a.b/c?d=1"), ("https://e.f/g(h)", "https://e.f/g(h)"),
    ]  # fmt: skip


def test_an_image_is_its_words_and_its_address() -> None:
    shown, spans = inline("![a cat](http://127.0.0.1/?q=secret)")

    assert shown == "a cat (http://127.0.0.1/?q=secret)"
    assert not any(span.href for span in spans)


@pytest.mark.parametrize(
    "text",
    [r"\(x_1 * y_2 * z\)", r"\[\frac{a}{b} *c* _d_\]", "$$a_b *c* d_e$$", "$a_b * c_d$", "$5 and $6", "$$ open *x",
     r"\( open"],
)  # fmt: skip
def test_formulas_and_prices_keep_every_sign(text: str) -> None:
    assert only(text).text == text


def test_single_line_breaks_are_kept() -> None:
    assert only("roses are red\nviolets are blue").text == "roses are red\nviolets are blue"


def test_a_loose_item_follows_an_empty_line() -> None:
    assert [block.follows_blank for block in parse("- a\n- b\n\n- c")] == [False, False, True]
