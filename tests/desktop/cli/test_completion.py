"""What the shell offers when a line for `quern` is completed."""

from __future__ import annotations

from pathlib import Path

import pytest

from desktop.__main__ import main
from desktop.cli.completion import SHELLS, script


def offered(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Returns what bash is offered at the end of the line."""
    words = line.split(" ")
    monkeypatch.setenv("_QUERN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    assert main([]) == 0
    return [entry.partition(",")[2] or entry for entry in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("quern conv", ["convert"]),
        ("quern chat --flash", ["--flash-attention"]),
        ("quern chat --flash-attention o", ["on", "off"]),
        ("quern nonsense x", []),
        ("quern chat --no-such-flag --fl", ["--flash-attention"]),
    ],
)
def test_commands_flags_and_values_are_offered(
    line: str, wanted: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sorted(offered(line, monkeypatch, capsys)) == sorted(wanted)


def test_models_are_offered_by_name_and_files_by_the_shell(
    quern_home: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (quern_home / "models").mkdir(parents=True)
    (quern_home / "models" / "Mill-Stone.gguf").write_bytes(tiny.read_bytes())
    assert offered("quern chat mill", monkeypatch, capsys) == ["Mill-Stone"]
    assert offered("quern chat ./x", monkeypatch, capsys) == ["./x"]
    assert offered("quern convert starter ./out", monkeypatch, capsys) == ["./out"]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script_that_asks_the_program(shell: str) -> None:
    text = script(shell)
    assert "_QUERN_COMPLETE" in text
    assert "quern" in text
