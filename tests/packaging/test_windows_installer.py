"""The Windows installer's script: what it is told, what it may delete, and that makensis takes it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import icon_containers
import windows_installer
from console import Console, SetUpError
from pictures import BROWN

SCRIPT = windows_installer.SCRIPT.read_text(encoding="utf-8")


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder"
    inside = folder / "_internal" / "模型"
    inside.mkdir(parents=True)
    for name in ("quern.exe", "quern-window.exe"):
        (folder / name).write_bytes(b"MZ" + bytes(2000))
    (inside / "starter.gguf").write_bytes(b"GGUF" + bytes(4000))
    return folder


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("0.1.0", "0.1.0.0"), ("1.2", "1.2.0.0"), ("0.1.0rc2", "0.1.0.0"), ("1.2.3.4.5", "1.2.3.4")],
)
def test_windows_gets_four_numbers(version: str, numbers: str) -> None:
    assert windows_installer.four_numbers(version) == numbers


def test_a_folder_that_is_not_frozen_for_windows_is_refused(payload: Path) -> None:
    (payload / "quern.exe").unlink()
    with pytest.raises(SetUpError, match=r"quern\.exe"):
        windows_installer.require_programs(payload)


def test_a_file_that_the_uninstaller_would_leave_is_refused(payload: Path) -> None:
    (payload / "notes.txt").touch()
    with pytest.raises(SetUpError, match=r"notes\.txt"):
        windows_installer.require_programs(payload)


def test_only_what_the_installer_made_is_removed_with_its_content() -> None:
    """A person may have chosen a folder with other things in it."""
    removed = re.findall(r"^\s*RMDir /r \"(.*)\"", SCRIPT, re.MULTILINE)

    assert set(removed) == {r"$INSTDIR\_internal", r"$LOCALAPPDATA\quern"}
    question = SCRIPT.index("$(DELETE_DATA)\" /SD IDNO")
    assert question < SCRIPT.index(r'RMDir /r "$LOCALAPPDATA\quern"')


def test_what_is_written_to_the_registry_is_taken_away_again() -> None:
    written = set(re.findall(r'WriteReg\w+ HKCU "([^"]+)" "([^"]*)"', SCRIPT))
    gone = set(re.findall(r'DeleteRegKey HKCU "([^"]+)"', SCRIPT))
    values = set(re.findall(r'DeleteRegValue HKCU "([^"]+)" "([^"]+)"', SCRIPT))

    def resolved(key: str) -> str:
        return key.replace("${CAPABILITIES}", r"Software\${PROGRAM}\Capabilities")

    left = {(key, value) for key, value in written if not any(resolved(key).startswith(root) for root in gone)}
    assert left == values


def test_nothing_asks_for_an_administrator_or_the_network() -> None:
    assert "RequestExecutionLevel user" in SCRIPT
    assert not re.search(r"\bHKLM\b|SetShellVarContext all|NSISdl|inetc|Exec(?:Wait|Shell)?\b", SCRIPT)


def test_every_sentence_is_there_in_both_languages() -> None:
    texts = re.findall(r"^LangString (\w+) \$\{LANG_(\w+)\}", SCRIPT, re.MULTILINE)

    assert {name for name, language in texts if language == "ENGLISH"} == {
        name for name, language in texts if language == "SIMPCHINESE"
    }


@pytest.mark.skipif(shutil.which("makensis") is None, reason="makensis is not installed")
def test_makensis_compiles_it_without_a_warning(payload: Path, tmp_path: Path) -> None:
    icon = tmp_path / "quern.ico"
    icon.write_bytes(icon_containers.ico({16: BROWN}))
    output = tmp_path / "out" / "Quern-0.1.0.exe"

    windows_installer.compile_installer(
        payload, output, version="0.1.0", icon=icon, console=Console(tmp_path / "log.txt")
    )

    assert output.read_bytes()[:2] == b"MZ"
