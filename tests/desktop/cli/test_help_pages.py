"""The generated help pages."""

from __future__ import annotations

from desktop.cli import help_pages
from runtime.params import GROUPS
from runtime.settings import fields_of
from runtime.text import language, set_language


def test_the_pages_say_what_the_declarations_say():
    assert help_pages.stale() == [], "run `python -m desktop.cli.help_pages --write`"


def test_every_setting_is_on_the_page():
    page = help_pages.pages()["settings.md"]
    assert [item.name for group in GROUPS for item in fields_of(group) if f"(`{item.flag}`)" not in page] == []


def test_writing_the_pages_leaves_the_language_alone():
    set_language("zh_CN")
    try:
        help_pages.pages()
        assert language() == "zh_CN"
    finally:
        set_language("en")


def test_a_stale_page_is_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(help_pages, "folder", lambda: tmp_path)
    assert help_pages.main(["--check"]) == 1
    assert "settings.md" in capsys.readouterr().err
    assert help_pages.main(["--write"]) == 0
    assert help_pages.main(["--check"]) == 0
