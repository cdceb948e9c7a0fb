"""The language people read."""

from __future__ import annotations

import pytest

from runtime import text


@pytest.mark.parametrize(
    ("tag", "key"),
    [
        ("zh_CN.UTF-8", "zh_CN"), ("zh-Hans-CN", "zh_CN"), ("zh_TW", "zh_CN"), ("de_DE.UTF-8", "en"), ("C", "en"),
        ("en_GB", "en"), ("Chinese (Simplified)_China.936", "zh_CN"),
    ],
)  # fmt: skip
def test_the_system_language_is_the_nearest_that_exists(monkeypatch: pytest.MonkeyPatch, tag: str, key: str) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANGUAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", tag)
    assert text.system_language() == key


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"LC_ALL": "en_US.UTF-8", "LANGUAGE": "zh_CN"}, "zh_CN"), ({"LC_ALL": "C.UTF-8", "LANGUAGE": "zh_CN"}, "en"),
        ({"LANG": "de_DE.UTF-8", "LANGUAGE": "de:zh_CN:en"}, "zh_CN"), ({"LANG": "zh_CN", "LANGUAGE": "en"}, "en"),
        ({"LC_ALL": "zh_CN.UTF-8", "LANG": "C"}, "zh_CN"), ({"LANG": "fr_FR.UTF-8"}, "en"),
    ],
)  # fmt: skip
def test_the_variables_are_looked_at_in_the_order_of_gettext(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], key: str
) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANGUAGE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert text.system_language() == key


def test_an_unknown_wish_falls_back_to_the_system() -> None:
    assert text.set_language("tlh") == "en"


def test_chinese_sets_no_space_between_sentences() -> None:
    assert text.sentences("One.", "", "Two.") == "One. Two."
    text.set_language("zh_CN")
    try:
        assert text.sentences("一。", "", "二。") == "一。二。"
    finally:
        text.set_language("en")


def test_the_empty_text_stays_empty() -> None:
    text.set_language("zh_CN")
    try:
        assert text._("") == ""
    finally:
        text.set_language("en")
