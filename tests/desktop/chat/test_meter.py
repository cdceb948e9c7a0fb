"""The line that says how full the context is."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from desktop.chat.meter import ContextMeter


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (1024, "1,024 of 4,096 tokens"),
        (4096, "4,096 of 4,096 tokens"),
        (4099, "4,096 of 4,096 tokens"),
        (5000, "5,000 of 4,096 tokens: more than the model can see"),
    ],
)
def test_a_full_context_is_full_and_not_fuller(qtbot: QtBot, used: int, words: str) -> None:
    meter = ContextMeter()
    qtbot.addWidget(meter)
    meter.show_tokens(used, 4096)
    assert meter._words.text() == words
