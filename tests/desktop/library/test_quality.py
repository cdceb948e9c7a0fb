"""The quality card shows what of it is known, whatever wrote it."""

from __future__ import annotations

import json

import pytest
from pytestqt.qtbot import QtBot

from desktop.library.quality import QualityCard, flattened, rows_of, tone_of

_QUALITY = {
    "tokens": 2048, "kl": {"mean": 0.02, "median": 0.01, "p99": 0.2, "max": 1.5}, "top1_agreement": 0.953,
    "perplexity": {"reference": 10.0, "candidate": 10.2, "ratio": 1.02},
}  # fmt: skip


@pytest.mark.parametrize("card", [
    _QUALITY, {"quern.quality": json.dumps(_QUALITY)}, {"quality": _QUALITY},
    {"quern.quality_card": json.dumps({"quality": _QUALITY, "size_bytes": 5}).ljust(900)},
    {"quern.quality.kl.mean": 0.02, "quern.quality.tokens": 2048, "quern.quality.top1_agreement": 0.953},
])  # fmt: skip
def test_figures_are_found_however_they_are_nested(card: dict[str, object]) -> None:
    figures = flattened(card)
    assert (figures["kl.mean"], figures["tokens"], figures["top1_agreement"]) == (0.02, 2048, 0.953)


def test_a_card_without_figures_is_hidden(qtbot: QtBot) -> None:
    card = QualityCard()
    qtbot.addWidget(card)
    assert not card.show_card({})
    assert not card.show_card({"quern.kl.mean": float("nan"), "quern.broken": "{not json"})
    assert card.show_card(_QUALITY)


def test_figures_are_worded() -> None:
    rows = dict(rows_of(flattened(_QUALITY)))
    assert rows["Perplexity"] == "10.200, the original has 10.000"
    assert rows["Same likeliest token"] == "95.3 %"


def test_small_divergence_is_good_and_large_is_bad() -> None:
    assert [tone_of(kl) for kl in (0.001, 0.05, 0.5)] == ["good", "caution", "bad"]
