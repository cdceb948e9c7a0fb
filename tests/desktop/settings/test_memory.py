"""The live estimate: read once, split into its parts, moved by the settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

import tiny_gguf
from desktop.main_window import Parts
from desktop.settings.memory_card import MemoryCard
from desktop.settings.memory_gauge import MemoryGauge, Need
from runtime import gguf_header, memory
from runtime.describe import gguf_file
from runtime.params import LoadParams
from window_kit import Shelf, window_parts


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_gguf.write_tiny(tmp_path / "tiny.gguf")


@pytest.fixture
def parts(model: Path, qtbot: QtBot) -> Iterator[Parts]:
    with window_parts(Shelf(gguf_file(model, source="path"))) as made:
        yield made


def measured(gauge: MemoryGauge, qtbot: QtBot) -> Need:
    with qtbot.waitSignal(gauge.measured) as found:
        pass
    need: Need = found.args[0]
    return need


def test_parts_equal_the_estimate_and_follow_context_and_cache_types(parts: Parts, model: Path, qtbot: QtBot) -> None:
    gauge = MemoryGauge(parts.models, parts.live)
    parts.models.load(str(model))
    with qtbot.waitSignal(gauge.measured) as found:
        pass
    expected = memory.estimate(gguf_header.read_header(model))
    first: Need = found.args[0]
    assert (first.weights, first.cache, first.buffers) == (expected.weights, expected.cache, expected.compute)
    parts.live.set_values(LoadParams, context_length=2048)
    shorter = measured(gauge, qtbot)
    assert shorter.cache * 2 == first.cache
    parts.live.set_values(LoadParams, kv_type_k="q8_0", kv_type_v="q8_0")
    assert measured(gauge, qtbot).cache < shorter.cache


def test_the_card_says_what_is_too_large_and_what_is_not_known(parts: Parts, qtbot: QtBot) -> None:
    card = MemoryCard(MemoryGauge(parts.models, parts.live))
    qtbot.addWidget(card)
    card.show()
    assert card.accessibleName() == "Choose a model to see what it takes."
    card.show_need(Need(context_length=4096, weights=7_000_000_000, cache=2_000_000_000, buffers=1, draft=0,
                        free=4_000_000_000, total_memory=8_000_000_000, trained_context=2048))  # fmt: skip
    assert card.accessibleName() == "About 9.0 GB at 4,096 tokens of context"
    assert card._head.property("tone") == "bad"
    assert "2,048" in card._foot.text()


def test_a_card_that_is_made_after_the_model_was_measured_shows_what_it_takes(
    parts: Parts, model: Path, qtbot: QtBot
) -> None:
    gauge = MemoryGauge(parts.models, parts.live)
    parts.models.load(str(model))
    measured(gauge, qtbot)
    card = MemoryCard(gauge)
    qtbot.addWidget(card)
    assert card.accessibleName().startswith("About ")
