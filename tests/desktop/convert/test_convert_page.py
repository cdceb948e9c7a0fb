"""The converter's page over real conversions of a tiny model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot
from shiboken6 import delete

import tiny_gguf
from desktop.convert.page import ConvertPage
from desktop.convert.plans import Plans
from desktop.convert.types import OFFERED
from desktop.job import Jobs, JobState
from runtime.describe import gguf_file
from runtime.gguf_header import read_header

_PATIENCE_MS = 30_000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "Tiny-F32.gguf"
    tiny_gguf.write_tiny(path)
    return path


@pytest.fixture
def page(source: Path, qtbot: QtBot) -> Iterator[ConvertPage]:
    jobs = Jobs()
    made = ConvertPage(jobs)
    qtbot.addWidget(made)
    made.set_models([gguf_file(source, source="folder")], memory=(8 << 30, 16 << 30))
    made.verify.setChecked(False)
    made.measure.setChecked(False)
    made.show()
    yield made
    jobs.kill_now()


def choose(page: ConvertPage, name: str) -> None:
    page.table.selectRow(next(row for row, kind in enumerate(OFFERED) if kind.name == name))


def test_every_offered_type_gets_its_size_from_a_child_that_writes_nothing(
    page: ConvertPage, source: Path, qtbot: QtBot
) -> None:
    qtbot.waitUntil(lambda: all(page.types.plan(kind.name) for kind in OFFERED), timeout=_PATIENCE_MS)
    plans = {kind.name: page.types.plan(kind.name) for kind in OFFERED}
    assert plans["F32"]["size_bytes"] > plans["F16"]["size_bytes"] > plans["Q8_0"]["size_bytes"]  # type: ignore[index]
    assert list(source.parent.iterdir()) == [source]


def test_target_is_named_after_source_and_type(page: ConvertPage, source: Path) -> None:
    choose(page, "Q8_0")
    assert page.target.text() == str(source.with_name("Tiny-Q8_0.gguf"))


def test_a_conversion_writes_the_file_and_says_so(page: ConvertPage, source: Path, qtbot: QtBot) -> None:
    choose(page, "Q8_0")
    with qtbot.waitSignal(page.converted, timeout=_PATIENCE_MS) as done:
        page.begin()
    assert done.args == [str(source.with_name("Tiny-Q8_0.gguf"))]
    assert read_header(source.with_name("Tiny-Q8_0.gguf")).quantization == "Q8_0"
    assert page.cards[0].chat.isVisible()


def test_replacing_a_file_is_agreed_to_first(page: ConvertPage, source: Path, qtbot: QtBot) -> None:
    target = source.with_name("Tiny-F16.gguf")
    target.write_bytes(b"mine")
    choose(page, "F16")
    page.begin()
    qtbot.waitUntil(lambda: page.notice.code == "target_exists", timeout=_PATIENCE_MS)
    assert target.read_bytes() == b"mine"
    with qtbot.waitSignal(page.converted, timeout=_PATIENCE_MS):
        page.notice.acted.emit(page.notice.code)
    assert read_header(target).quantization == "F16"


def test_a_source_that_cannot_be_converted_is_told_in_a_sentence(
    page: ConvertPage, tmp_path: Path, qtbot: QtBot
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing more")
    page.choose(str(broken))
    qtbot.waitUntil(lambda: bool(page.notice.code), timeout=_PATIENCE_MS)
    assert page.notice.isVisible()


def test_a_stopped_conversion_leaves_nothing_behind(page: ConvertPage, source: Path, qtbot: QtBot) -> None:
    choose(page, "Q8_0")
    page.begin()
    page.begin()
    waiting = page.cards[0].conversion
    assert waiting.state is JobState.WAITING
    for card in page.cards:
        card.conversion.stop()
    qtbot.waitUntil(lambda: all(not card.conversion.active for card in page.cards), timeout=_PATIENCE_MS)
    assert waiting.state is JobState.STOPPED
    left = {path.name for path in source.parent.iterdir()} - {source.name, "Tiny-Q8_0.gguf"}
    assert left == set()


def test_a_page_that_is_built_anew_shows_what_is_under_way(page: ConvertPage, qtbot: QtBot) -> None:
    choose(page, "Q8_0")
    page.begin()
    newer = ConvertPage(page._jobs)
    qtbot.addWidget(newer)
    assert [card.conversion for card in newer.cards] == [page.cards[0].conversion]
    qtbot.waitUntil(lambda: page.cards[0].conversion.state is JobState.DONE, timeout=_PATIENCE_MS)


def test_plans_that_come_when_the_page_is_gone_disturb_nobody(source: Path, qtbot: QtBot) -> None:
    jobs = Jobs()
    plans = Plans(jobs)
    plans.ask(source)
    delete(plans)
    jobs._beside[0].kill()
    qtbot.waitUntil(lambda: not jobs.busy, timeout=_PATIENCE_MS)
