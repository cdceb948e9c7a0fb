"""What a few typed letters find."""

from __future__ import annotations

import pytest

from desktop.palette.fuzzy import best, folded, score

_NAMES = ("New chat", "Choose a model", "Show or hide the settings", "Context length", "Chat about cheese", "Über uns",
          "导出对话")  # fmt: skip


def found(typed: str) -> list[str]:
    return list(best(typed, ((folded(name), name) for name in _NAMES), limit=10))


@pytest.mark.parametrize(("typed", "first"), [
    ("new", "New chat"), ("cl", "Context length"), ("CHAT", "Chat about cheese"), ("sett", "Show or hide the settings"),
    ("uber", "Über uns"), ("对话", "导出对话"), ("mdl", "Choose a model"),
])  # fmt: skip
def test_the_best_fit_comes_first(typed: str, first: str) -> None:
    assert found(typed)[0] == first


def test_nothing_typed_keeps_every_name_in_its_order() -> None:
    assert found("  ") == list(_NAMES)


def test_letters_out_of_order_fit_nothing() -> None:
    assert found("tahc wen") == []
    assert score("ba", "ab") is None


def test_a_whole_word_beats_scattered_letters() -> None:
    whole, scattered = score("chat", "new chat"), score("chat", "c h a t x")
    assert whole is not None
    assert scattered is not None
    assert whole > scattered
