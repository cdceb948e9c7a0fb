"""The workflow for the three systems: the commands in it are ones that this checkout has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOW = (ROOT / "packaging" / "workflows" / "package.yml").read_text(encoding="utf-8")


def test_every_script_and_make_target_it_runs_is_there() -> None:
    scripts = set(re.findall(r"packaging/\w+\.py", WORKFLOW))
    targets = set(re.findall(r"\bmake ([a-z-]+)", WORKFLOW))

    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert scripts
    assert all((ROOT / script).is_file() for script in scripts)
    assert targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


@pytest.mark.parametrize("option", ["--tree-only", "--icon"])
def test_the_options_it_gives_are_known(option: str) -> None:
    assert option in WORKFLOW
    scripts = [ROOT / "packaging" / name for name in ("package.py", "windows_installer.py")]
    assert any(f'"{option}"' in script.read_text(encoding="utf-8") for script in scripts)


def test_each_system_checks_what_it_froze_before_it_publishes() -> None:
    for system in ("linux", "windows", "macos"):
        assert f"system: {system}" in WORKFLOW
    assert WORKFLOW.index("quern doctor") < WORKFLOW.index("upload-artifact")
    assert WORKFLOW.index("SHA256SUMS") < WORKFLOW.index("upload-artifact")
