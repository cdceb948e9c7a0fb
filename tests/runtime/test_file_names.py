"""Names of files made of what people and models write."""

from __future__ import annotations

import pytest

from runtime.file_names import file_stem, fit_words


@pytest.mark.parametrize(("text", "stem"), [
    ("Capital of France?", "Capital of France"), ("../../etc/passwd", "etc passwd"), ("", ""), ("...", ""),
    ("a\u202eb\nc", "a b c"), ("北京的天气", "北京的天气"), ("x" * 300, "x" * 80), ("y" * 79 + ". z", "y" * 79),
    ("CON", "_CON"), ("nul.txt", "_nul.txt"), ("Com1", "_Com1"), ("lpt² . x", "_lpt² . x"), ("Console", "Console"),
    ("com10", "com10"),
])  # fmt: skip
def test_a_text_becomes_a_name_that_every_system_takes(text: str, stem: str) -> None:
    assert file_stem(text, longest=80) == stem


def test_words_that_are_only_shown_stay_as_they_are() -> None:
    assert fit_words("CON", longest=80) == "CON"
