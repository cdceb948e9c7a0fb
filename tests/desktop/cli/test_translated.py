"""Every text of the command line goes through gettext."""

from __future__ import annotations

import gettext
import re

import pytest

from command_line import Run
from desktop.cli.commands import COMMANDS
from runtime import text


class Marked(gettext.NullTranslations):
    """A language in which every text stands between « and »."""

    def gettext(self, message: str) -> str:
        return f"«{message}»"

    def ngettext(self, singular: str, plural: str, n: int) -> str:
        return f"«{singular if n == 1 else plural}»"


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_translations", Marked())
    monkeypatch.setattr("desktop.cli.main.set_language", lambda wanted: None)


def _unmarked(shown: str) -> list[str]:
    """Returns the lower-case words outside the marks, without examples, flags, names and numbers."""
    shown = re.sub(r"«[^«»]*(«[^«»]*»[^«»]*)*»", "", " ".join(shown.split()))
    return re.findall(r"(?<![-\w|\[/“.])[a-z]{4,}(?![\w|\]/=])", shown)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_help_text_is_left_untranslated(run: Run, name: str):
    out = run(name, "--help").out
    options = out[out.index("«Options»") :]
    assert _unmarked(options) == []
    assert out.splitlines()[0].startswith("«Usage:")


def test_the_list_of_commands_is_translated(run: Run):
    assert set(_unmarked(run("--help").out)) <= set(COMMANDS)


@pytest.mark.parametrize("arguments", [["frobnicate"], ["chat", "--warp"], ["chat", "--engine", "warp"], ["complete"]])
def test_complaints_are_translated(run: Run, arguments: list[str]):
    lines = run(*arguments).err.splitlines()
    assert lines
    assert [line for line in lines if not line.startswith("«")] == []
