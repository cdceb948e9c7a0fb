"""Formulas are drawn where they are looked at; what is no formula, or cannot be read, stays as it was written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from desktop.chat.view.blocks import BlockKind, Style
from desktop.chat.view.conversation_view import ConversationView
from desktop.chat.view.formulas import Drawing, Drawn, FormulaBook, FormulaKey, draw, drawable, tex_of
from desktop.chat.view.markdown import inline
from desktop.chat.view.message_model import ChatItem, MessageListModel
from desktop.chat.view.text_run import TextRun
from desktop.theme import DARK, LIGHT
from markdown_blocks import parse
from runtime.messages import Role


def formulas_of(text: str) -> list[str]:
    shown, spans = inline(text)
    return [shown[span.start : span.end] for span in spans if span.style & Style.FORMULA]


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("with $a_b * c_d$ and \\(x_1\\)", ["$a_b * c_d$", "\\(x_1\\)"]),
        ("for $n$, $O(n \\log n)$.", ["$n$", "$O(n \\log n)$"]),
        ("so $$x$$ and \\[y\\] here", ["$$x$$", "\\[y\\]"]),
        ("$2 + 2 = 4$", ["$2 + 2 = 4$"]),
        ("It costs $5 and $10.", []),
        ("from $5-$10, or $5/$10", []),
        ("$5 million (or 6$)", []),
        ("US$5, CA$6$", []),
        ("$HOME/bin:$PATH", []),
        ("`$x$` and $ x $", []),
        ("open $x and \\(y", []),
    ],
)
def test_formulas_are_told_from_money_and_code(text: str, formulas: list[str]) -> None:
    assert formulas_of(text) == formulas


def kinds(text: str) -> list[tuple[BlockKind, str]]:
    return [(block.kind, block.text) for block in parse(text)]


@pytest.mark.parametrize(
    "formula",
    ["\\[\nx\n- y\n= z\n\\]", "$$\na_b\n+ c\n$$", "$$ x $$", "\\begin{align*}\na &= b\n\\end{align*}", "\\[x\\]."],
)
def test_a_formula_on_its_own_lines_is_a_block_and_markdown_leaves_it_alone(formula: str) -> None:
    assert kinds(f"Before:\n{formula}\nafter.") == [
        (BlockKind.PARAGRAPH, "Before:"), (BlockKind.FORMULA, formula), (BlockKind.PARAGRAPH, "after."),
    ]  # fmt: skip


def test_a_formula_in_a_list_item_stays_in_it() -> None:
    blocks = parse("- item\n  $$\n  x\n  $$\n- next")

    assert [block.kind for block in blocks] == [BlockKind.PARAGRAPH, BlockKind.FORMULA, BlockKind.PARAGRAPH]
    assert blocks[1].frames
    assert blocks[1].text == "$$\nx\n$$"


def test_a_formula_that_nothing_closes_is_text_untouched() -> None:
    assert kinds("$$ open *x\ny_z_") == [(BlockKind.PARAGRAPH, "$$ open *x\ny_z_")]


def test_code_holds_no_formula() -> None:
    assert kinds("```\n$$\nx\n$$\n```") == [(BlockKind.CODE, "$$\nx\n$$")]


@pytest.mark.parametrize(
    ("source", "tex"),
    [
        ("$x$", "x"), ("$$x$$.", "x"), ("\\(x\\)", "x"), ("\\[\nx\n\\]", "x"), ("$$x \\tag{1}$$", "x"),
        ("\\begin{equation}\nx \\label{eq:1}\n\\end{equation}", "x"),
        ("\\begin{align}a&=b\\end{align}", "\\begin{aligned}a&=b\\end{aligned}"),
    ],
)  # fmt: skip
def test_marks_and_numbers_are_no_part_of_a_formula(source: str, tex: str) -> None:
    assert tex_of(source) == tex


def test_a_drawing_stands_on_its_baseline_and_grows_with_the_font(qapp: QApplication) -> None:
    small, large = (draw(FormulaKey("$\\frac{a}{b}$", pixels, 1.0)) for pixels in (15.0, 30.0))

    assert small.ascent > 5
    assert small.descent > 3
    assert large.width == pytest.approx(2 * small.width, rel=0.15)


def test_a_drawing_takes_any_colour_and_is_sharp_on_a_fine_screen(qapp: QApplication) -> None:
    drawing = draw(FormulaKey("$x$", 15.0, 2.0))

    picture = drawing.pixmap(QColor("#ff0000")).toImage()

    assert picture.devicePixelRatio() == 2
    assert picture.width() >= 2 * drawing.width - 1
    colours = {picture.pixelColor(x, y).name() for x in range(picture.width()) for y in range(picture.height())
               if picture.pixelColor(x, y).alpha() > 200}  # fmt: skip
    assert colours == {"#ff0000"}


@pytest.mark.parametrize("source", ["$\\frac{a}$", "$\\nosuch{x}$", "$x^$", "$\\left( x$", "$$ $$"])
def test_what_cannot_be_read_is_known_as_such(qtbot: QtBot, source: str) -> None:
    book, key = FormulaBook(), FormulaKey(source, 15.0, 1.0)

    with qtbot.waitSignal(book.ready, timeout=20_000):
        assert book.drawing(key) is None

    assert book.is_known(key)
    assert book.drawing(key) is None


@pytest.mark.parametrize("source", ["$" + "x+" * 5000 + "$", "$" + "{" * 500 + "}" * 500 + "$", "$\\text{面积}$"])
def test_what_would_take_too_long_or_lacks_its_letters_is_not_tried(source: str) -> None:
    assert not drawable(source)


def test_what_is_looked_at_now_is_drawn_before_what_was_scrolled_past(qtbot: QtBot) -> None:
    book = FormulaBook()
    order: list[str] = []
    book._drawn.connect(lambda done: order.extend(key.source for key in done))
    keys = [FormulaKey(f"$x_{number}$", 15.0, 1.0) for number in range(400)]

    for key in keys:
        book.drawing(key)

    qtbot.waitUntil(lambda: "$x_399$" in order, timeout=20_000)
    qtbot.waitUntil(lambda: not book._working, timeout=60_000)
    assert len(order) < 400


@pytest.fixture
def show(qtbot: QtBot) -> Callable[[str], ConversationView]:
    def shown(text: str) -> ConversationView:
        model = MessageListModel()
        view = ConversationView(model, theme=LIGHT)
        model.setParent(view)
        qtbot.addWidget(view)
        view.resize(700, 500)
        view.show()
        model.set_items([ChatItem(id="a", role=Role.ASSISTANT, text=text)])
        qtbot.waitUntil(lambda: drawn(view) > 0, timeout=20_000)
        return view

    return shown


def runs(view: ConversationView) -> list[TextRun]:
    return [run for segment in view.layout_of_items.items[0].segments for run in segment.runs]


def drawn(view: ConversationView) -> int:
    return sum(len(run._drawn) for run in runs(view))


def test_a_drawn_formula_is_copied_as_its_source(show: Callable[[str], ConversationView]) -> None:
    text = "Some $x^2$ words.\n\n$$\n\\frac{a}{b}\n$$"
    view = show(text)

    view.select_all()

    assert view.selected_text() == text
    assert view.selected_text(plain=True) == text


def test_a_change_of_theme_draws_no_formula_anew(show: Callable[[str], ConversationView]) -> None:
    view = show("Some $x^2$ words.")
    before = runs(view)[0]._drawn[0].drawing

    view.set_theme(DARK)
    QApplication.processEvents()

    assert runs(view)[0]._drawn[0].drawing is before


def test_a_tall_formula_gets_a_taller_line(show: Callable[[str], ConversationView]) -> None:
    view = show("A matrix $\\begin{pmatrix}1\\\\2\\\\3\\end{pmatrix}$ in a line.")

    assert runs(view)[0].height > 2 * view.layout_of_items.style.pitch


def run_with_drawing(text: str, formula: str, *, rtl: bool = False) -> TextRun:
    start = text.index(formula)
    mask = QImage(50, 13, QImage.Format.Format_Alpha8)
    run = TextRun(text)
    run.lay(
        width=400, font=LIGHT.chat_font, rtl=rtl,
        drawn=[Drawn(start, start + len(formula), Drawing(50.0, 10.0, 3.0, mask))],
    )  # fmt: skip
    return run


@pytest.mark.parametrize(("text", "rtl"), [("some $x$ words", False), ("שלום $x$ עולם", True)])
def test_a_formula_takes_the_room_of_its_drawing(qapp: QApplication, text: str, rtl: bool) -> None:
    run = run_with_drawing(text, "$x$", rtl=rtl)

    (place,) = run.rects(5, 8)

    assert place.width() == pytest.approx(50, abs=1)


def test_a_formula_can_only_be_chosen_as_a_whole(qapp: QApplication) -> None:
    run = run_with_drawing("some $x$ words", "$x$")
    (place,) = run.rects(5, 8)

    assert run.hit(QPointF(place.left() + 3, 5)) == 5
    assert run.hit(QPointF(place.right() - 3, 5)) == 8
    assert run.rects(6, 7) == run.rects(5, 8)
    assert run.unit_at(6) == (5, 8)


def test_ziamath_comes_with_the_first_formula_only() -> None:
    code = (
        "import sys, desktop.chat.view.conversation_view\n"
        "raise SystemExit('ziamath' in sys.modules or 'PySide6.QtSvg' in sys.modules and 'ziafont' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_cursor_over_a_formula_is_one_for_text(show: Callable[[str], ConversationView]) -> None:
    view = show("$x^2$")
    view._hover(QPointF(view._column_left() + 5, 55))

    assert view.viewport().cursor().shape() is Qt.CursorShape.IBeamCursor
