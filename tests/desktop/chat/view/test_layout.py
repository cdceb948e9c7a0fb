"""Only what is looked at is read and laid out, and streaming lays out only the tail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from desktop.chat.view.blocks import Block, BlockKind
from desktop.chat.view.code_segment import code_segments
from desktop.chat.view.highlight import Highlighter
from desktop.chat.view.incremental import IncrementalParser
from desktop.chat.view.item_layout import ItemLayout
from desktop.chat.view.layout import ConversationLayout
from desktop.chat.view.markdown import inline
from desktop.chat.view.message_model import ChatItem, ItemState
from desktop.chat.view.style import TextStyle
from desktop.chat.view.table_segment import shared_widths
from desktop.chat.view.text_run import TextRun
from desktop.theme import DARK, LIGHT
from runtime.errors import ErrorInfo
from runtime.messages import Role

ANSWER = "Some **words** in a paragraph.\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two\n\n"


@pytest.fixture
def layout(qtbot: QtBot) -> Iterator[ConversationLayout]:
    highlighter = Highlighter()
    yield ConversationLayout(TextStyle(LIGHT), highlighter)
    highlighter.deleteLater()


def answer(id: str, text: str, **more: object) -> ChatItem:
    return ChatItem(id=id, role=Role.ASSISTANT, text=text, **more)  # type: ignore[arg-type]


def settle(layout: ConversationLayout, top: float, height: float = 600) -> None:
    for _ in range(20):
        if not layout.lay_between(top, top + height):
            return
    pytest.fail("laying out never came to rest")


def test_a_long_chat_is_opened_without_reading_it(layout: ConversationLayout) -> None:
    layout.reset([answer(str(number), ANSWER * 3) for number in range(2000)])

    settle(layout, layout.height - 600)

    assert sum(item.opened for item in layout.items) < 10
    assert layout.laid < 60


def test_only_what_is_looked_at_of_a_long_chat_is_made(
    layout: ConversationLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    real = ItemLayout.__init__

    def note(self: ItemLayout, item: ChatItem, **how: bool) -> None:
        made.append(item.id)
        real(self, item, **how)

    monkeypatch.setattr(ItemLayout, "__init__", note)
    layout.reset([answer(str(number), ANSWER * 3) for number in range(2000)])
    settle(layout, layout.height - 600)
    layout.set_width(500)
    settle(layout, layout.height - 600)
    layout.insert(2000, answer("new", "One more."))
    layout.remove_from(2000)

    assert len(made) < 20
    assert len(set(made)) == len(made)


MESSAGES = {
    "answer": answer("a", ANSWER * 3),
    "one word": answer("a", "Yes."),
    "Chinese": answer("a", "春眠不觉晓，处处闻啼鸟。" * 50),
    "one long line": answer("a", "word " * 2000),
    "reasoning": answer("a", "<think>\n" + "Hm.\n" * 200 + "</think>\n\nYes."),
    "reasoning alone": answer("a", "<think>\n" + "Hm.\n" * 200),
    "reasoning that is shown": answer("shown", "<think>\n" + "Hm.\n" * 200 + "</think>\n\nYes."),
    "the source": answer("raw", "<think>\n" + "Hm.\n" * 200 + "</think>\n\nYes."),
    "question": ChatItem(id="a", role=Role.USER, text="Why?\n" * 30),
    "instructions": ChatItem(id="a", role=Role.SYSTEM, text="<think>\nBe brief."),
    "nothing yet": ChatItem(id="a", role=Role.ASSISTANT),
    "nothing, and why": answer("a", "", state=ItemState.FAILED, error=ErrorInfo(title="It died.")),
}  # fmt: skip


@pytest.mark.parametrize("item", MESSAGES.values(), ids=list(MESSAGES))
@pytest.mark.parametrize("last", [True, False], ids=["last", "followed"])
def test_a_message_that_is_made_is_as_high_as_was_guessed(
    layout: ConversationLayout, item: ChatItem, last: bool
) -> None:
    layout.thoughts_shown.add("shown")
    layout.raw.add("raw")
    for width in (600.0, 333.0):
        layout.reset([item] if last else [item, answer("z", "The last.")])
        layout.set_width(width)
        guessed = layout.top_of(1)

        assert guessed > 0
        assert layout.items[0].height == pytest.approx(guessed)


def test_a_corrected_estimate_leaves_the_anchored_text_in_place(layout: ConversationLayout) -> None:
    layout.reset([answer(str(number), ANSWER * number) for number in range(30)])
    middle = layout.height / 2
    settle(layout, middle)
    anchor = layout.anchor_at(middle)
    assert anchor is not None
    offset = middle - layout.top_of(anchor.row)

    layout.lay_between(0, middle)  # estimates above are corrected

    assert layout.y_of(anchor) == pytest.approx(layout.top_of(anchor.row) + offset)


def test_a_narrower_column_keeps_the_anchored_segment(layout: ConversationLayout) -> None:
    layout.reset([answer(str(number), "word " * 300 + "\n\n" + ANSWER) for number in range(20)])
    settle(layout, 2000)
    anchor = layout.anchor_at(2000)
    assert anchor is not None

    layout.set_width(300)
    settle(layout, layout.y_of(anchor) or 0)

    found = layout.anchor_at(layout.y_of(anchor) or 0)
    assert found is not None
    assert (found.item_id, found.segment) == (anchor.item_id, anchor.segment)


def test_an_anchor_of_a_removed_message_is_nowhere(layout: ConversationLayout) -> None:
    layout.reset([answer("a", "one"), answer("b", "two")])
    anchor = layout.anchor_at(layout.top_of(1) + 1)
    assert anchor is not None

    layout.remove_from(1)

    assert layout.y_of(anchor) is None


def laid_while_streaming(layout: ConversationLayout, text: str, step: int) -> list[int]:
    """Streams `text` at the end of the conversation; returns how many segments each step laid out."""
    layout.reset([answer("a", "")])
    counts = []
    for end in range(step, len(text) + step, step):
        before = layout.laid
        layout.change(0, answer("a", text[:end]))
        settle(layout, layout.height - 600)
        counts.append(layout.laid - before)
    return counts


@pytest.mark.parametrize(
    "text",
    [ANSWER * 60, "```py\n" + "value = compute(1)\n" * 600, "A sentence of words. " * 500, "1. item of a list\n" * 400],
    ids=["mixed", "code", "paragraph", "list"],
)
def test_a_step_late_in_a_long_answer_lays_out_no_more_than_an_early_one(layout: ConversationLayout, text: str) -> None:
    counts = laid_while_streaming(layout, text, 64)

    tenth = len(counts) // 10
    assert max(counts[-tenth:]) <= max(counts[tenth : 2 * tenth]) + 1
    assert max(counts) <= 12


@pytest.mark.parametrize(
    "text",
    [ANSWER * 100, "```py\n" + "value = compute(1)\n" * 1000, "- an item\n" * 1500, "A sentence of words. " * 800],
    ids=["mixed", "code", "list", "paragraph"],
)
def test_reading_late_text_costs_what_reading_early_text_costs(text: str) -> None:
    parser = IncrementalParser(paragraph_part=1000)
    costs = []
    for at in range(0, len(text), 16):
        before = parser.parsed
        parser.feed(text[at : at + 16])
        costs.append(parser.parsed - before)

    half = len(costs) // 2
    assert sum(costs[half:]) <= 1.5 * sum(costs[:half])


def test_code_that_grows_keeps_the_parts_that_are_full(layout: ConversationLayout) -> None:
    code = "```\n" + "line\n" * 100
    layout.reset([answer("a", code)])
    settle(layout, 0, 5000)
    before = list(layout.items[0].segments)

    layout.change(0, answer("a", code + "another\n"))

    assert layout.items[0].segments[:2] == before[:2]
    assert all(segment.laid for segment in layout.items[0].segments[:2])


def test_growing_code_makes_new_parts_only_at_its_end() -> None:
    code = "line\n" * 1000
    old = code_segments(Block(BlockKind.CODE, code, 0, len(code), closed=False), 0, [])

    new = code_segments(Block(BlockKind.CODE, code + "more", 0, len(code) + 4, closed=False), 0, old)

    assert [one is other for one, other in zip(new, old, strict=True)] == [True] * (len(old) - 1) + [False]


def test_styles_stand_where_qt_counts_them(layout: ConversationLayout) -> None:
    text, spans = inline("😀😀 **bold** and 😀 `code`")

    ranges = layout.style.dressed(text, spans, layout.style.chat_font, room=600).formats

    units = text.encode("utf-16-le")
    styled = [units[2 * each.start : 2 * (each.start + each.length)].decode("utf-16-le") for each in ranges]
    assert styled == ["bold", "code"]


def test_a_huge_message_is_read_in_turns(layout: ConversationLayout) -> None:
    layout.reset([ChatItem(id="a", role=Role.USER, text="a line of text\n" * 20_000)])

    layout.lay_between(0, 600)
    first = layout.items[0].unread

    assert first > 200_000
    layout.read_more(0)
    assert layout.items[0].unread < first
    assert layout.laid < 60


def test_another_theme_lays_out_again(layout: ConversationLayout) -> None:
    layout.reset([answer("a", ANSWER)])
    settle(layout, 0)
    height = layout.height

    layout.set_style(TextStyle(DARK))
    assert not any(segment.laid for segment in layout.items[0].segments)
    settle(layout, 0)

    assert layout.height == height


def test_lines_far_away_are_freed_and_heights_stay(layout: ConversationLayout) -> None:
    layout.reset([answer(str(number), ANSWER * 4) for number in range(60)])
    settle(layout, 0, layout.height)
    height = layout.height

    layout.forget_far()

    assert layout.height == height
    assert not layout.items[0].segments[0].laid
    assert layout.items[-1].segments[-1].laid


def test_columns_share_what_the_modest_ones_leave() -> None:
    assert shared_widths([50, 60], 200, [20, 20]) == [50, 60]
    assert shared_widths([50, 400, 300], 350, [20, 20, 20]) == pytest.approx([50, 150, 150], abs=0.01)
    assert shared_widths([500, 400, 10], 110, [20, 20, 10]) == pytest.approx([50, 50, 10], abs=0.01)


def test_no_column_is_narrower_than_its_words_where_they_fit() -> None:
    assert shared_widths([50, 400, 300], 350, [20, 190, 30]) == pytest.approx([50, 190, 110], abs=0.01)
    assert shared_widths([50, 400, 300], 350, [50, 200, 150]) == pytest.approx([50, 150, 150], abs=0.01)


def table_of(count: int) -> str:
    rows = ("| `Property` one " * count, "|---" * count, "| some value here " * count, "| some value here " * count)
    return "|\n".join(rows) + "|\n"


def broken_at(run: TextRun) -> list[int]:
    """Returns where the lines of a text begin, except the first."""
    assert run._layout is not None
    return [run._layout.lineAt(line).textStart() for line in range(1, run._layout.lineCount())]


@pytest.mark.parametrize(("count", "smaller"), [(3, False), (6, False), (9, True), (10, True)])
def test_a_table_of_many_columns_breaks_between_words(layout: ConversationLayout, count: int, smaller: bool) -> None:
    layout.width = 740
    layout.reset([answer("a", table_of(count))])
    settle(layout, 0)

    runs = layout.items[0].segments[0].runs
    assert len(runs) == 3 * count
    assert max(run.x + run.width for run in runs) <= 740
    assert {run.text[at - 1] for run in runs for at in broken_at(run)} <= {" "}
    assert (runs[-1].height / (len(broken_at(runs[-1])) + 1) < layout.style.pitch) is smaller
