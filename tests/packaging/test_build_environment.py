"""What the application is built from, and that nothing of development gets into it."""

from __future__ import annotations

import io
from pathlib import Path

from build_environment import BuildEnvironment
from console import Console
from set_up_steps import ROOT, canonical, read_pins


def names(tmp_path: Path) -> list[str]:
    """Returns the packages that the environment asks for."""
    environment = BuildEnvironment(tmp_path / "venv", ROOT, Console(tmp_path / "log", io.StringIO()))
    return [canonical(name) for name in environment.names()]


def test_tools_of_development_are_not_in_it(tmp_path: Path) -> None:
    assert {"pytest", "transformers", "mypy", "ruff", "hypothesis", "babel"}.isdisjoint(names(tmp_path))


def test_llama_cpp_comes_from_the_build_for_packages(tmp_path: Path) -> None:
    assert "llama-cpp-python" not in names(tmp_path)


def test_everything_in_it_is_pinned(tmp_path: Path) -> None:
    pins = read_pins((ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8"))
    assert [name for name in names(tmp_path) if name not in pins] == []
    assert "pyinstaller" in names(tmp_path)
